"""Charts and tables of comparisons: cost against β, histories, charges, autocorrelations, observables."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dlhmc.comparison.command import RESULTS
from dlhmc.comparison.results import Entry, Quantity, Results, read_results
from dlhmc.comparison.table import sections, shown, shown_tau
from dlhmc.errors import UserError
from dlhmc.report import paper
from dlhmc.report.charts import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, Chart, Panel, Series, Table
from dlhmc.report.histories import Q_Z, Charges, charge_chart
from dlhmc.statistics.autocorrelation import autocorrelation_function
from dlhmc.storage.files import Archive, fingerprint
from dlhmc.theories.u1 import exact as u1_exact

_MODEL_COLOURS = (VERMILION, PURPLE, ORANGE)
_MOST_LAGS = 200
AUTOCORRELATION = (
    "ρ(t) with its error (Madras and Sokal). Triangles: the window W at which the sum for τ_{int} ends (Wolff). "
    "The window of a frozen chain lies far beyond the lags shown."
)


class Comparison(NamedTuple):
    """A finished comparison and where it is."""

    path: Path
    results: Results

    @classmethod
    def open(cls, path: Path) -> "Comparison":
        """What `dlhmc compare` left in a directory."""
        if not (path / RESULTS).exists():
            raise UserError(f"{path} has no results: the comparison was stopped at once; start another one.")
        return cls(path, read_results(path / RESULTS))

    @property
    def is_of_gauge_theory(self) -> bool:
        """Whether it is about U(1), of which exact results are known, or about a target that was made in Python."""
        return "target" not in self.results.target

    def of_kind(self, kind: str) -> list[Entry]:
        """Its samplers of one kind."""
        return [entry for entry in self.results.entries if entry.kind == kind]

    def best(self, kind: str, cost: Callable[[Entry], Quantity]) -> Entry | None:
        """The one of a kind that costs least; what has not been measured counts with its lower limit."""
        rivals = [entry for entry in self.of_kind(kind) if entry.status != "dropped"]
        return min(rivals, key=lambda entry: figure(cost(entry)) or math.inf, default=None)

    def history(self, entry: Entry, name: str) -> NDArray[Any]:
        """An observable of a sampler, [trajectory, chain]."""
        file = self.path / entry.history
        try:
            if not file.resolve().is_relative_to(self.path.resolve()):
                raise ValueError("it is not in the directory of the comparison")
            if fingerprint(file) != entry.history_sha256:
                raise ValueError("it is not what was saved (SHA-256)")
            history = Archive(file).read(name)
        except (OSError, ValueError) as error:
            raise UserError(f"{file} is missing or damaged: {error}.") from None
        if history.shape != (entry.trajectories, self.results.chains):
            raise UserError(f"{file} is damaged: '{name}' has the shape {history.shape}.")
        if not history.size or not np.isfinite(history).all():
            raise UserError(f"{file} is damaged, or the comparison was stopped too early: '{name}' has no numbers.")
        return history


def figure(cost: Quantity) -> float | None:
    """A value, or the limit in its place."""
    return cost.lower if cost.value is None else cost.value


def in_steps(entry: Entry) -> Quantity:
    """N_LF·τ_int."""
    return entry.steps_tau


def in_time(entry: Entry) -> Quantity:
    """Seconds for an independent configuration."""
    return entry.seconds_per_independent


def headline(comparison: Comparison) -> str | None:
    """The answer in one line: what the best trained sampler gains over the best HMC."""
    model = comparison.best("model", in_time)
    results = comparison.results
    if model is None or (steps := shown(model.gain_in_steps)) == "" or (time := shown(model.gain_in_time)) == "":
        return None
    steps, time = (text.replace("> ", "more than ").replace("< ", "less than ") for text in (steps, time))
    side = "×".join(map(str, results.lattice))
    return (
        f"On {side} at β = {results.beta:g} an independent topological charge costs the trained sampler "
        f"{model.leapfrog_steps} × {shown_tau(model.tau_int['charge'])} = {shown(model.steps_tau)} leapfrog steps: "
        f"{steps} times fewer than the best HMC, and {time} times less time."
    )


def cost_chart(comparisons: Sequence[Comparison]) -> Chart:
    """Cost of an independent configuration against β, in leapfrog steps and in time."""
    lattice = comparisons[0].results.lattice
    in_the_paper = []
    if lattice == paper.LATTICE:
        in_the_paper = [
            _line("HMC, paper's figure (digitised)", paper.HMC, GREY, dashed=True),
            _line("trained, paper's figure (digitised)", paper.TRAINED, GREY, dashed=False),
        ]
    floor = Series(
        "exact limit, τ = ½",
        [c.results.beta for c in comparisons],
        [0.5] * len(comparisons),
        "line",
        GREEN,
        dashed=True,
    )
    steps = [*in_the_paper, *_costs(comparisons, in_steps, 1.0), floor]
    exact = [_series("exact draws", GREEN, "v", _each(comparisons, "exact", in_time), in_time, 1e3, joined=True)]
    time = [*_costs(comparisons, in_time, 1e3), *exact]
    return Chart(
        "cost",
        "Cost of an independent topological charge",
        "Left: leapfrog steps times the integrated autocorrelation time of the charge, as in the paper's figure; a "
        "step of the Omelyan integrator has two forces and counts once. Right: time for an independent "
        "configuration of one chain, 2τ trajectories, compiling excluded. Small points: all of HMC's grid. Arrows: "
        "only a lower limit (95 %) is known. Grey: the paper's curves, read off its figure.",
        [
            Panel("β", f"N_{{LF}} τ_{{int}}({Q_Z})", steps, "in leapfrog steps", y_log=True),
            Panel("β", "milliseconds", time, "in time on this machine", y_log=True),
        ],
    )


def _each(comparisons: Iterable[Comparison], kind: str, cost: Callable[[Entry], Quantity]) -> list[tuple[float, Entry]]:
    """The best of a kind in each comparison."""
    found = ((c.results.beta, c.best(kind, cost)) for c in comparisons)
    return [(beta, entry) for beta, entry in found if entry is not None]


def _costs(comparisons: Sequence[Comparison], cost: Callable[[Entry], Quantity], factor: float) -> list[Series]:
    grid = [(c.results.beta, entry) for c in comparisons for entry in c.of_kind("hmc")]
    series = [
        _series("HMC, all of the grid", SKY, "x", grid, cost, factor, joined=False),
        _series("best HMC", BLUE, "o", _each(comparisons, "hmc", cost), cost, factor, joined=True),
        _series("HMC + instanton hits", BLACK, "^", _each(comparisons, "hits", cost), cost, factor, joined=True),
    ]
    by_label: dict[str, list[tuple[float, Entry]]] = {}
    for comparison in comparisons:
        for entry in _trained(comparison):
            by_label.setdefault(_label(entry), []).append((comparison.results.beta, entry))
    longest_first = sorted(by_label.items(), key=lambda item: -item[1][0][1].leapfrog_steps)
    for colour, (label, entries) in zip(itertools.cycle(_MODEL_COLOURS), longest_first, strict=False):
        series.append(_series(label, colour, "D", entries, cost, factor, joined=True))
    return series


def _series(
    name: str,
    colour: str,
    marker: Any,
    entries: Sequence[tuple[float, Entry]],
    cost: Callable[[Entry], Quantity],
    factor: float,
    *,
    joined: bool,
) -> Series:
    entries = sorted(entries, key=lambda pair: pair[0])
    costs = [cost(entry) for _, entry in entries]
    return Series(
        name,
        [beta for beta, _ in entries],
        [None if (value := figure(c)) is None else factor * value for c in costs],
        "points",
        colour,
        error=[factor * (c.error or 0.0) for c in costs],
        is_limit=[c.value is None for c in costs],
        marker=marker,
        joined=joined,
        notes=[f"{entry.name}, acceptance {entry.acceptance:.2f}" for _, entry in entries],
    )


def _line(name: str, points: dict[float, float], colour: str, *, dashed: bool) -> Series:
    return Series(name, list(points), list(points.values()), "line", colour, dashed=dashed)


def contenders(comparison: Comparison) -> list[tuple[str, Entry, str]]:
    """The best HMC in time, and the trained samplers: label, entry, colour."""
    hmc = comparison.best("hmc", in_time)
    found = [] if hmc is None else [(f"HMC ({hmc.name})", hmc, BLUE)]
    return found + [
        (_label(entry), entry, colour)
        for entry, colour in zip(_trained(comparison), itertools.cycle(_MODEL_COLOURS), strict=False)
    ]


def _trained(comparison: Comparison) -> list[Entry]:
    """The longest first."""
    return sorted(comparison.of_kind("model"), key=lambda entry: -entry.leapfrog_steps)


def _label(entry: Entry) -> str:
    """A sampler that was given from Python has the name it was given."""
    return entry.name if entry.model is None else f"trained, N_{{LF}} = {entry.leapfrog_steps}"


def history_chart(comparison: Comparison) -> Chart:
    """Q_Z of one chain against the Monte Carlo step."""
    charges = [
        Charges(label, comparison.history(entry, "charge")[:, 0], colour)
        for label, entry, colour in contenders(comparison)
    ]
    return charge_chart("charge-history", f"Topological charge of one chain, {_where(comparison)}", charges)


def histogram_chart(comparison: Comparison) -> Chart:
    """How often each charge occurred, beside the exact probabilities."""
    results = comparison.results
    entries = contenders(comparison)
    histories = [(label, comparison.history(entry, "charge"), colour) for label, entry, colour in entries]
    reach = max((int(np.abs(charges).max()) for _, charges, _ in histories), default=1) + 1
    charges = np.arange(-reach, reach + 1)
    probabilities = u1_exact.charge_distribution(results.beta, math.prod(results.lattice), charges)
    series = [Series("exact P(Q)", charges.tolist(), np.asarray(probabilities).tolist(), "bars", GREEN)]
    for index, (label, history, colour) in enumerate(histories):
        # The error of a frequency is that of the average of a 0/1 series; chains are independent of each other.
        per_chain = np.stack([(history == q).mean(axis=0) for q in charges])
        error = per_chain.std(axis=1, ddof=1) / math.sqrt(per_chain.shape[1])
        frequency: list[float | None] = [float(f) if f else None for f in per_chain.mean(axis=1)]
        shift = 0.12 * (index - 0.5 * (len(histories) - 1))
        series.append(
            Series(
                label,
                (charges + shift).tolist(),
                frequency,
                "points",
                colour,
                error=error.tolist(),
                marker=("o", "D", "s", "^")[index % 4],
            )
        )
    return Chart(
        "charge-distribution",
        f"Distribution of the charge, {_where(comparison)}",
        "Frequencies of the charge with errors from the spread of the chains, against the exact distribution "
        "(bars). The chains start from exact configurations, so even frozen HMC is right on average; its errors are "
        "what its starts left it.",
        [Panel(Q_Z, f"P({Q_Z})", series, y_log=True, y_limits=(1e-6, 1.0))],
        columns=1,
    )


def autocorrelation_panel(comparison: Comparison, name: str, label: str, mean: float | None) -> Panel:
    """ρ(t) of an observable, with the window at which the sum for τ_int was cut; `mean` if it is known."""
    series = []
    windows = [int(entry.tau_int[name]["window"] or 0) for entry in comparison.of_kind("model")]
    reach = min(_MOST_LAGS, max(2 * max(windows, default=0), 20))
    for title, entry, colour in contenders(comparison):
        history = comparison.history(entry, name).astype(float)
        window = int(entry.tau_int[name]["window"] or 0)
        function = autocorrelation_function(history, mean, max_lag=min(reach, max(1, len(history) // 2 - 1)))
        lags = list(range(len(function.rho)))
        series.append(Series(title, lags, function.rho.tolist(), "line", colour))
        low, high = function.rho - function.error, function.rho + function.error
        if np.isfinite(low).all():
            series.append(Series(title, lags, low.tolist(), "band", colour, upper=high.tolist()))
        if 0 < window < len(lags):
            rho = [float(function.rho[window])]
            title = f"window W, {title.removeprefix('trained, ')}"
            series.append(Series(title, [window], rho, "points", colour, marker="v"))
    lowest = min((value for one in series for value in one.y if value is not None), default=0.0)
    return Panel("lag t (trajectories)", f"ρ(t) of {label}", series, y_limits=(min(-0.1, lowest - 0.05), 1.05))


def autocorrelation_chart(comparison: Comparison) -> Chart:
    """ρ(t) of the charge."""
    return Chart(
        "autocorrelation",
        f"Autocorrelation of the charge, {_where(comparison)}",
        AUTOCORRELATION,
        [autocorrelation_panel(comparison, "charge", Q_Z, 0.0)],
        columns=1,
    )


def observables_chart(comparisons: Sequence[Comparison]) -> Chart:
    """Plaquette and ⟨Q²⟩ against β with exact curves, and how many σ each is away from exact."""
    lattice = comparisons[0].results.lattice
    volume = math.prod(lattice)
    betas = [c.results.beta for c in comparisons]
    low, high = min(betas), max(betas)
    grid = np.linspace(max(0.25, low - 0.5), high + 0.5, 60).tolist()
    exact = {"plaquette": u1_exact.plaquette, "charge_squared": u1_exact.charge_squared}
    labels = {"plaquette": "⟨cos x_{P}⟩", "charge_squared": f"⟨{Q_Z}^{{2}}⟩"}
    kinds = (
        ("best HMC", "hmc", BLUE, "o"),
        ("HMC + instanton hits", "hits", BLACK, "^"),
        ("trained", "model", VERMILION, "D"),
    )
    means, pulls = [], []
    for name, label in labels.items():
        curve = Series("exact", grid, [exact[name](beta, volume) for beta in grid], "line", GREEN)
        points, deviations = [], []
        for title, kind, colour, marker in kinds:
            entries = _each(comparisons, kind, in_time)
            moments = [(beta, entry.observables[name], entry.name) for beta, entry in entries]
            x, notes = [beta for beta, _, _ in moments], [note for _, _, note in moments]
            shape: Any = {"kind": "points", "colour": colour, "marker": marker, "notes": notes}
            errors = [moment["error"] for _, moment, _ in moments]
            points.append(Series(title, x, [moment["mean"] for _, moment, _ in moments], error=errors, **shape))
            deviations.append(Series(title, x, [moment["z"] for _, moment, _ in moments], **shape))
        band = Series("±1σ", [grid[0], grid[-1]], [-1.0, -1.0], "band", GREEN, upper=[1.0, 1.0])
        means.append(Panel("β", label, [curve, *points]))
        pulls.append(Panel("β", "(measured − exact)/σ", [band, *deviations], label, y_limits=(-4.0, 4.0)))
    return Chart(
        "observables",
        f"Observables against exact results, {lattice[0]}×{lattice[1]}",
        "Above: plaquette and squared charge with the exact curves. Below: the same as deviations in units of the "
        "error. Frozen HMC has an honest but large error for the charge.",
        [*means, *pulls],
    )


def cost_table(comparisons: Sequence[Comparison]) -> Table:
    """One row for each β: N_LF·τ_int and time of the best of each kind, and the gains."""
    rows = []
    for comparison in comparisons:
        best = [comparison.best(kind, in_steps) for kind in ("hmc", "hits", "model")]
        model = best[-1]
        quickest = [comparison.best(kind, in_time) for kind in ("hmc", "hits", "model")]
        rows.append(
            [
                f"{comparison.results.beta:g}",
                *("" if entry is None else shown(entry.steps_tau) for entry in best),
                *("" if entry is None else shown(entry.seconds_per_independent, 1e3) for entry in quickest),
                "" if model is None else shown(model.gain_in_steps),
                "" if quickest[-1] is None else shown(quickest[-1].gain_in_time),
            ]
        )
    header = (
        "β",
        "HMC: N_{LF} τ",
        "hits: N_{LF} τ",
        "trained: N_{LF} τ",
        "HMC: ms",
        "hits: ms",
        "trained: ms",
        "gain in steps",
        "gain in time",
    )
    caption = (
        "Cost of an independent configuration: N_{LF} τ_{int} of the charge, and milliseconds of one chain. In "
        "each column the best of its kind. Gains: of the trained sampler over the best HMC. > and <: limits at 95 "
        "%."
    )
    return Table(caption, header, rows)


def all_tables(comparison: Comparison) -> list[Table]:
    """Every sampler of a comparison: costs, trajectories, observables."""
    captions = ("Cost", "Trajectories", "Observables (deviation from exact)")
    where = _where(comparison)
    return [
        Table(f"{caption}, {where}", section.header, section.rows)
        for caption, section in zip(captions, sections(comparison.results), strict=True)
    ]


def _where(comparison: Comparison) -> str:
    results = comparison.results
    if not comparison.is_of_gauge_theory:
        return f"{results.target['target']}, {comparison.path.name}"
    return f"{'×'.join(map(str, results.lattice))} at β = {results.beta:g}"
