"""What a report shows of comparisons on U(1): costs against β, the charge, exact results, tunnelling layer by layer."""

import math
from collections.abc import Callable, Collection
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from dlhmc.comparison.results import in_time
from dlhmc.comparison.table import by_cost
from dlhmc.errors import UserError
from dlhmc.geometry.torus import wrap_angle
from dlhmc.report.charts import (
    BLACK,
    BLUE,
    GREEN,
    VERMILION,
    Block,
    Chart,
    Film,
    Frame,
    HeatMap,
    Panel,
    Section,
    Series,
)
from dlhmc.report.comparisons import ComparedRun, autocorrelation_chart, contenders
from dlhmc.report.comparisons import in_words as samplers_in_words
from dlhmc.report.costs import best_of_each
from dlhmc.report.families import Family
from dlhmc.report.figures import Figures
from dlhmc.report.histories import Chain, history_chart
from dlhmc.report.layers import ENERGY, Batch, Way, after, profile_chart, profile_film
from dlhmc.report.sampling import SampledRun
from dlhmc.theories.gauge.figures import GaugeFigures
from dlhmc.theories.u1 import exact
from dlhmc.theories.u1.links import Links, plaquettes
from dlhmc.theories.u1.theory import U1Settings, U1Theory
from dlhmc.theories.u1.wilson import U1

Q_Z, Q_R = U1Theory.symbols["charge"], U1Theory.symbols["sine_charge"]
HISTORY = "The charge of one chain after each trajectory. A flat line is a chain that stays in its sector."
_EXACT: dict[str, Callable[[float, int], float]] = {
    "plaquette": exact.plaquette,
    "charge_squared": exact.charge_squared,
}
# Far beyond those of any lattice that is simulated.
_MOST_CHARGES = 10_000
_MARKERS = ("o", "D", "s", "^")


class U1Figures(Figures):
    """Those of the paper."""

    axis: ClassVar[str | None] = "beta"
    moves: ClassVar[str] = "HMC + instanton hits"
    moments: ClassVar[Collection[str]] = tuple(_EXACT)
    slow: ClassVar[Collection[str]] = ("charge",)

    def where(self, run: ComparedRun) -> str:
        """16×16 at β = 7."""
        return in_words(_settings(run))

    def judged(self, run: ComparedRun) -> str:
        """The charge."""
        return "topological charge"

    def title(self, run: ComparedRun) -> str:
        """What the paper is about."""
        return "Topological charge of 2D U(1): what an independent configuration costs"

    def question(self, run: ComparedRun) -> str:
        """What the paper asks."""
        return (
            "How much does an independent configuration of two-dimensional U(1) gauge theory cost, with Hamiltonian "
            "Monte Carlo tuned as well as possible, with instanton hits, and with trained leapfrog layers?"
        )

    def sections(self, family: Family) -> list[Section]:
        """Costs against β; a closer look at the largest β."""
        last, found = family.last, [self.costs(family)]
        if contenders(last):
            charts = [self.history(last), self.histogram(last), self.autocorrelation(last)]
            found.append(Section("Topology thaws", charts))
        chart = observables_chart(family) if len(family.runs) > 1 else self.measured(last)
        found.append(Section("Held to exact results", [chart]))
        if layers := self.layers(last):
            found.append(Section("What the layers do", layers))
        return found

    def sampled(self, run: SampledRun) -> list[Block]:
        """The flow, where fields were flowed."""
        return GaugeFigures().sampled(run)

    def history(self, run: ComparedRun) -> Chart:
        """Q_Z of one chain against the Monte Carlo step."""
        chains = [Chain(label, run.history(entry, "charge")[:, 0], colour) for label, entry, colour in contenders(run)]
        title = f"Topological charge of one chain, {self.where(run)}"
        return history_chart("charge-history", title, HISTORY, Q_Z, chains)

    def histogram(self, run: ComparedRun) -> Chart:
        """How often each charge occurred, beside the exact probabilities."""
        settings = _settings(run)
        histories = [(label, run.history(entry, "charge"), colour) for label, entry, colour in contenders(run)]
        reach = max(int(np.abs(charges).max()) for _, charges, _ in histories) + 1
        if reach > _MOST_CHARGES:
            raise UserError(f"The histories of {run.path} are damaged: there is no charge of {reach - 1:.3g}.")
        charges = np.arange(-reach, reach + 1)
        probabilities = exact.charge_distribution(settings.beta, math.prod(settings.lattice), charges)
        series = [Series("exact P(Q)", charges.tolist(), np.asarray(probabilities).tolist(), "bars", GREEN)]
        for index, (label, history, colour) in enumerate(histories):
            # The error of a frequency is that of the average of a 0/1 series; chains are independent of each other.
            per_chain = np.stack([(history == q).mean(axis=0) for q in charges])
            error = per_chain.std(axis=1, ddof=1) / math.sqrt(per_chain.shape[1])
            frequency: list[float | None] = [float(f) if f else None for f in per_chain.mean(axis=1)]
            places = (charges + 0.12 * (index - 0.5 * (len(histories) - 1))).tolist()
            points: Any = {"error": error.tolist(), "marker": _MARKERS[index % len(_MARKERS)]}
            series.append(Series(label, places, frequency, "points", colour, **points))
        return Chart(
            "charge-distribution",
            f"Distribution of the charge, {self.where(run)}",
            "Frequencies of the charge with errors from the spread of the chains, against the exact distribution "
            "(bars). The chains start from exact configurations, so even a frozen sampler is right on average; its "
            "errors are what its starts left it.",
            [Panel(Q_Z, f"P({Q_Z})", series, y_log=True, y_limits=(1e-6, 1.0))],
            columns=1,
        )

    def measured(self, run: ComparedRun) -> Chart:
        """Plaquette and ⟨Q²⟩ of all samplers that came to the end of a single comparison, around the exact values."""
        entries = [entry for entry in by_cost(run.results.entries) if entry.status != "dropped"]
        rows, places = [samplers_in_words(entry) for entry in entries], list(map(float, range(len(entries))))
        panels = []
        for name, curve in _EXACT.items():
            moments = [entry.observables[name] for entry in entries]
            means, errors = [moment["mean"] for moment in moments], [moment["error"] for moment in moments]
            value = curve(_settings(run).beta, math.prod(_settings(run).lattice))
            line = Series("exact", [value, value], [-0.5, len(rows) - 0.5], "line", GREEN)
            points = Series("measured", means, places, "points", BLUE, error=errors)
            panels.append(Panel(U1Theory.symbols[name], "", [line, points], rows=rows))
        return Chart(
            "observables",
            f"Observables against exact results, {self.where(run)}",
            "Plaquette and squared charge of each sampler with their errors; lines: exact. A frozen sampler has an "
            "honest but large error for the charge.",
            panels,
        )

    def autocorrelation(self, run: ComparedRun) -> Chart:
        """ρ(t) of the charge."""
        title = f"Autocorrelation of the charge, {self.where(run)}"
        return autocorrelation_chart(run, ["charge"], "autocorrelation", title)

    def layer_blocks(self, run: ComparedRun, batch: Batch) -> list[Block]:
        """Plaquette, energy and charge along the trajectory; all plaquettes of one that tunnels."""
        profiles = {name: _followed(batch, way) for name, way in batch.ways.items()}
        trained, where = next(iter(profiles.values())), self.where(run)
        remark = (
            " A sampler that tunnels raises the energy in the middle of the trajectory, moves the charge by one, and "
            "pays the energy back."
        )
        curves = {name: profile.curves for name, profile in profiles.items()}
        return [
            profile_chart(curves, f"Along the layers, {where}", remark),
            profile_film(trained.curves, f"Layer by layer, {where}"),
            tunnelling_film(trained, where),
        ]


def in_words(settings: U1Settings) -> str:
    """16×16 at β = 7."""
    return f"{'×'.join(map(str, settings.lattice))} at β = {settings.beta:g}"


def _settings(run: ComparedRun) -> U1Settings:
    return cast(U1Settings, run.settings)


def observables_chart(family: Family) -> Chart:
    """Plaquette and ⟨Q²⟩ against β with exact curves, and how many σ each is away from exact."""
    lattice = _settings(family.last).lattice
    volume = math.prod(lattice)
    betas = [family.at(run) for run in family.runs]
    grid = np.linspace(max(0.25, min(betas) - 0.5), max(betas) + 0.5, 60).tolist()
    kinds = (
        ("best HMC", "hmc", BLUE, "o"),
        (U1Figures.moves, "move", BLACK, "^"),
        ("trained", "model", VERMILION, "D"),
    )
    means, pulls = [], []
    for name, curve in _EXACT.items():
        label = U1Theory.symbols[name]
        points, deviations = [], []
        for title, kind, colour, marker in kinds:
            entries = best_of_each(family, kind, in_time)
            moments = [entry.observables[name] for _, entry in entries]
            x, notes = [beta for beta, _ in entries], [entry.name for _, entry in entries]
            shape: Any = {"kind": "points", "colour": colour, "marker": marker, "notes": notes}
            errors = [moment["error"] for moment in moments]
            points.append(Series(title, x, [moment["mean"] for moment in moments], error=errors, **shape))
            deviations.append(Series(title, x, [moment["z"] for moment in moments], **shape))
        exact_curve = Series("exact", grid, [curve(beta, volume) for beta in grid], "line", GREEN)
        band = Series("±1σ", [grid[0], grid[-1]], [-1.0, -1.0], "band", GREEN, upper=[1.0, 1.0])
        means.append(Panel("β", label, [exact_curve, *points]))
        pulls.append(Panel("β", "(measured − exact)/σ", [band, *deviations], label, y_limits=(-4.0, 4.0)))
    return Chart(
        "observables",
        f"Observables against exact results, {lattice[0]}×{lattice[1]}",
        "Above: plaquette and squared charge with the exact curves. Below: the same as deviations in units of the "
        "error. A frozen sampler has an honest but large error for the charge.",
        [*means, *pulls],
    )


class Followed(NamedTuple):
    """Trajectories of a sampler, layer by layer."""

    curves: dict[str, NDArray[Any]]
    #: x_P of one trajectory, [layer, x, t], plaquette (0, 0) in the middle
    angles: NDArray[Any]
    #: by how much it changes the charge
    change: int


def _followed(batch: Batch, way: Way) -> Followed:
    target = cast(U1, batch.target)

    def watched(x: Links) -> dict[str, Array]:
        return {**target.observables(x), "angles": wrap_angle(plaquettes(x))}

    found = batch.follow(way, watched)
    # Among trajectories that conserve the energy, one that tunnels if any does.
    change, cost = found["charge"][-1] - found["charge"][0], np.abs(found[ENERGY][-1])
    best = int(np.argmin(cost + np.where(change != 0, 0, 1e6)))
    curves = {
        "⟨x_{P} − x_{P}^{*}⟩": found["plaquette"] - target.exact()["plaquette"],
        ENERGY: found[ENERGY],
        f"{Q_R}, from its start": found["sine_charge"] - found["sine_charge"][0],
    }
    middle = tuple(side // 2 for side in target.lattice)
    return Followed(curves, np.roll(found["angles"][..., best], middle, axis=(1, 2)), int(change[best]))


def tunnelling_film(trajectory: Followed, where: str) -> Film:
    """All plaquettes of one trajectory, from where they are farthest from rest."""
    frames = [
        Frame(after(layer), maps=[HeatMap("x_{P}", field.round(4).tolist(), [])])
        for layer, field in enumerate(trajectory.angles)
    ]
    tunnels = trajectory.change != 0
    what = f"changes the charge by {trajectory.change:+d}" if tunnels else "leaves the charge as it is"
    return Film(
        "tunnelling",
        f"A {'tunnelling ' if tunnels else ''}trajectory, {where}",
        "Plaquette angles x_{P} of one configuration, plaquette (0, 0) in the middle, before, during and after a "
        f"trajectory that {what}.",
        frames,
        colour_label="x_{P}",
        first=int(np.argmax(np.abs(trajectory.angles).max(axis=(1, 2)))),
    )
