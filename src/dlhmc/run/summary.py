"""What a sampling run has found: summary.json and the table beside the exact values.

A quantity is a number or an array of them; every figure in summary.json then has its shape, as nested lists.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from dlhmc.errors import UserError
from dlhmc.run.describe import ordinary
from dlhmc.run.history import History
from dlhmc.run.precision import Precision
from dlhmc.settings import converted
from dlhmc.statistics import (
    AutocorrelationTime,
    Estimate,
    Series,
    Strided,
    check_exactness,
    check_temperature,
    format_uncertainty,
    gamma_method,
    mean_and_error,
)
from dlhmc.statistics.uncertainty import FEWEST_SECTOR_CHANGES, LARGEST_RHAT, ChainEstimate
from dlhmc.targets.contract import Moment, Target
from dlhmc.targets.temperature import SLOPE, TEMPERATURE

# A larger share of proposals that are not finite means that something is wrong with the run.
MOST_NONFINITE = 0.01
# No target has a moment of a higher power; a file of a stranger may say anything.
_LARGEST_POWER = 100
# What is held to ⟨e^{−ΔH}⟩ = 1, and what its results are called after.
_ENERGIES = {"energy_change": "", "energy_change_of_moves": "_of_moves"}
IN_EVERY_SUMMARY = ("accepted", "nonfinite", *_ENERGIES, *TEMPERATURE)
#: elements of an array that are shown
MOST_SHOWN = 4
COLUMNS = ("observable", "measured", "exact", "difference", "R̂")
# Averages of functions of ΔH, and the configurational temperature: where they are, and what they must be.
_CHECKS = {
    "exp(-ΔH)": ("exp_minus_dh", 1),
    "A tanh(ΔH/2)": ("balance", 0),
    "exp(-ΔH) of moves": ("exp_minus_dh_of_moves", 1),
    "A tanh(ΔH/2) of moves": ("balance_of_moves", 0),
    "⟨|∇S|²⟩/⟨ΔS⟩": ("temperature", 1),
}
_TAU_INT = "tau_int_"
#: one element of a quantity: () for a number
Element = tuple[Any, ...]


#: a number, or nested lists of numbers
Numbers = float | list[Any]


@dataclasses.dataclass(frozen=True)
class Quantities:
    """How to read the histories of a target: what to report, what moves slowly, and what is known exactly."""

    moments: Mapping[str, Moment]
    #: slow observables with their exact means, and their variances in units of their changes, where known
    slow: Mapping[str, Numbers | None]
    variances: Mapping[str, Numbers]
    #: exact values of the moments, where known
    exact: Mapping[str, Numbers]
    #: the integer that labels sectors
    sector: str | None = None

    @classmethod
    def of(cls, target: Target, measured: Iterable[str] = (), occasional: Iterable[str] = ()) -> Self:
        """Of a target, of observables of one's own that are measured beside its own, and of those measured rarely."""
        moments = dict(target.moments) | {name: Moment(name) for name in (*measured, *occasional)}
        slow = dict(target.slow) | dict.fromkeys(measured)
        variances = {name: target.slow_variance(name) for name in target.slow}
        exact = target.exact()
        return cls(
            moments,
            {name: None if mean is None else np.asarray(mean).tolist() for name, mean in slow.items()},
            {name: np.asarray(variance).tolist() for name, variance in variances.items() if variance is not None},
            {name: np.asarray(exact[name]).tolist() for name in target.moments if name in exact},
            target.sector,
        )

    def to_json(self) -> str:
        """For a store or a file."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def read(cls, attributes: Mapping[Any, Any], what: str) -> Self:
        """What a store or a file says about itself, as `to_json` gave it; UserError for whatever makes no sense."""
        try:
            found = converted(json.loads(attributes["quantities"]), cls, what)
            for values in (found.slow, found.variances, found.exact):
                for value in values.values():
                    np.asarray(value, np.float64)  # refuses what is no array of numbers
            if not all(1 <= moment.power <= _LARGEST_POWER for moment in found.moments.values()):
                raise ValueError("a power is too large, or not positive")
        except (KeyError, ValueError, TypeError, RecursionError) as error:
            raise UserError(f"{what} does not say what it holds, as those of dlhmc do ({error}).") from None
        return found


@dataclasses.dataclass(frozen=True)
class Histories:
    """Records of every trajectory, in a store or in memory."""

    #: trajectories and chains
    shape: tuple[int, int]
    #: where chains started, as far as that is known: "exact" is in equilibrium
    start: str | None
    #: what was recorded, and its shape in one chain: () for a number
    elements: Mapping[str, tuple[int, ...]]
    #: (name, power, element): a record [trajectory, chain], or one element of it, raised to a power
    series: Callable[[str, int, Element], Series]
    #: the sum of a record over all trajectories and chains
    total: Callable[[str], float]


def stored(history: History, rows: int) -> Histories:
    """The first rows of a history on disk, read piece by piece."""
    return Histories(
        (rows, history.chains),
        history.attributes.get("start"),
        {name: history.array(name).shape[1:-1] for name in history.records},
        lambda name, power, element: history.rows(name, rows, power, element),
        lambda name: history.rows(name, rows).total(),
    )


def summarise(
    what: Mapping[str, Any],
    quantities: Quantities,
    histories: Histories,
    leapfrog_steps: int,
    seconds: float,
    precision: Precision | None = None,
    *,
    temperature_every: int = 0,
) -> dict[str, Any]:
    """Everything in summary.json; `what` ran stands first."""
    rows, chains = histories.shape
    counts = {name: histories.total(name) for name in ("accepted", "nonfinite") if name in histories.elements}
    taus = autocorrelation_times(quantities, histories)
    summary = describe_histories(what, histories) | {
        "leapfrog_steps": leapfrog_steps,
        "acceptance": counts["accepted"] / (rows * chains) if "accepted" in counts else None,
    }
    summary |= summarise_observables(quantities, histories, taus)
    alarms: list[str] = []
    for name, whose in _ENERGIES.items():
        if name in histories.elements:
            exactness = check_exactness(histories.series(name, 1, ()))
            summary["exp_minus_dh" + whose] = _plain(exactness.weight)
            summary["balance" + whose] = _plain(exactness.balance)
            alarms += [f"{'Moves: ' if whose else ''}{alarm}" for alarm in exactness.alarms]
    if temperature_every and SLOPE in histories.elements:
        temperature = check_temperature(
            *(Strided(histories.series(name, 1, ()), temperature_every) for name in TEMPERATURE)
        )
        summary["temperature"] = _plain(temperature.value)
        alarms += temperature.alarms
    rejected = int(counts.get("nonfinite", 0))
    if rejected == rows * chains:
        alarms.append("No proposal was finite, so nothing has moved. No result of this run can be trusted.")
    summary |= nonfinite_figures(rejected, rows * chains)
    summary["warnings"] += unconverged(summary, quantities)
    summary["alarms"] = alarms
    summary["precision"] = None if precision is None else dataclasses.asdict(precision)
    per_trajectory = 1e6 * seconds / (rows * chains)
    times = [tau.value if tau.resolved else math.inf for elements in taus.values() for tau in elements.flat]
    summary |= {
        "seconds": seconds,
        "microseconds_per_trajectory": per_trajectory,
        # an independent configuration is 2 τ_int trajectories apart: ½ is the τ_int of independent draws
        "microseconds_per_independent": finite(2 * max(times, default=math.inf) * per_trajectory),
    }
    return summary


def kernel_figures(names: Iterable[str], histories: Histories) -> dict[str, Any]:
    """Means of what a kernel tells of its trajectories, beside what every summary has."""
    rows, chains = histories.shape
    told = {name: histories.total(name) / (rows * chains) for name in names if name not in IN_EVERY_SUMMARY}
    return {"kernel_figures": told} if told else {}


def describe_histories(what: Mapping[str, Any], histories: Histories) -> dict[str, Any]:
    """What ran, in words, and how much of it."""
    rows, chains = histories.shape
    title = f"{_title(what)}  {chains} chains × {rows} trajectories"
    return {**what, "title": title, "start": histories.start, "chains": chains, "trajectories": rows}


def _title(what: Mapping[str, Any]) -> str:
    """The description of a run in one line: the kernel, other words, sizes, and other numbers with their names.

    >>> _title({"density": 7.0, "kernel": "hmc", "sides": [16, 8], "target": "Gas", "others": []})
    'hmc  Gas  16×8  density = 7'
    """
    words, sizes, numbers = [str(what.get("kernel", ""))], [], []
    for name, value in ordinary(what).items():
        values = np.asarray(value)
        if values.dtype.kind == "U" and name != "kernel":
            words.append(str(value))
        elif values.dtype.kind in "iu" and values.ndim == 1:
            sizes.append("×".join(map(str, values)))
        elif values.dtype.kind in "iuf" and values.ndim < 2 and values.size:
            numbers.append(f"{name.replace('_', ' ')} = {', '.join(f'{number:g}' for number in values.flat)}")
    return "  ".join(words + sizes + numbers)


def autocorrelation_times(quantities: Quantities, histories: Histories) -> dict[str, NDArray[Any]]:
    """Of each element of the slow observables."""

    def times(name: str, mean: Any, variance: Any) -> NDArray[Any]:
        shape = histories.elements[name]

        def time(element: Element) -> AutocorrelationTime:
            series = histories.series(name, 1, element)
            return gamma_method(series, _at(mean, shape, element), variance=_at(variance, shape, element)).tau

        return for_each(shape, time)

    return {name: times(name, mean, quantities.variances.get(name)) for name, mean in quantities.slow.items()}


def for_each(shape: tuple[int, ...], function: Callable[[Element], Any]) -> NDArray[Any]:
    """An array of what a function gives for each element."""
    found = np.empty(shape, object)
    for element in np.ndindex(shape):
        found[element] = function(element)
    return found


def _at(value: Any, shape: tuple[int, ...], element: Element) -> float | None:
    """An element of a value that is known for all of them together or for each; None if it is not known."""
    if value is None:
        return None
    values = np.asarray(value, np.float64)
    try:
        return float(np.broadcast_to(values, shape)[element])
    except ValueError:
        raise UserError(f"An exact value of shape {values.shape} is not of an observable of shape {shape}.") from None


def _nested(found: NDArray[Any], entry: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """A table of nested lists from the table of each element."""
    entries = for_each(found.shape, lambda element: entry(found[element]))

    def column(name: str) -> Any:
        return for_each(entries.shape, lambda element: entries[element][name]).tolist()

    return {name: column(name) for name in entries.flat[0]}


def summarise_observables(
    quantities: Quantities, histories: Histories, taus: Mapping[str, NDArray[Any]]
) -> dict[str, Any]:
    """The moments beside their exact values, and the autocorrelation times."""
    exact_start = histories.start == "exact"

    def moment(observable: str, power: int, exact: Any) -> dict[str, Any]:
        shape = histories.elements[observable]

        def measured(element: Element) -> tuple[ChainEstimate, float | None]:
            series = histories.series(observable, power, element)
            sector = histories.series(observable, 1, element) if observable == quantities.sector else None
            return mean_and_error(series, sector=sector, equilibrium_start=exact_start), _at(exact, shape, element)

        return _nested(for_each(shape, measured), lambda pair: compared(*pair))

    moments = {name: moment(*of, quantities.exact.get(name)) for name, of in quantities.moments.items()}
    return moments | {_TAU_INT + name: _nested(elements, time_entry) for name, elements in taus.items()}


def unconverged(summary: Mapping[str, Any], quantities: Quantities) -> list[str]:
    """What to say about moments without an error."""

    def changes(name: str) -> int:
        return int(np.min(summary[name].get("sector_changes", FEWEST_SECTOR_CHANGES)))

    missing = [name for name in quantities.moments if None in np.ravel(np.asarray(summary[name]["error"], object))]
    few = [name for name in missing if changes(name) < FEWEST_SECTOR_CHANGES]
    warnings = [
        f"{name}: no error is given, because {changes(name)} independent changes of sector were seen over all chains, "
        f"and {FEWEST_SECTOR_CHANGES} are needed: take more trajectories, more chains, or a kernel that changes "
        "sectors more often, such as a hand-made move between sectors or a learned sampler."
        for name in few
    ]
    if others := [name for name in missing if name not in few]:
        warnings.append(
            f"{', '.join(others)}: no error is given, because the chains have not converged (R̂ above {LARGEST_RHAT}, "
            "or τ_int not resolved); other results may be off, too. Try another start, more warm-up or more "
            "trajectories; if that does not help, a kernel that moves what is stuck: a hand-made move between "
            "sectors, or a learned sampler."
        )
    return warnings


def nonfinite_figures(rejected: int, proposals: int) -> dict[str, Any]:
    """Proposals rejected because a number in them was NaN or infinite, and what to say about them.

    >>> nonfinite_figures(2, 2560)["warnings"]
    ['2 of 2560 proposals (0.0781 %) were not finite and were rejected.']
    """
    share = rejected / max(1, proposals)
    text = f"{rejected} of {proposals} proposals ({100 * share:.3g} %) were not finite and were rejected"
    advice = ": look at the step size and the model, or use double precision" if share > MOST_NONFINITE else ""
    return {
        "nonfinite_rejected": rejected,
        "nonfinite_fraction": share,
        "warnings": [f"{text}{advice}."] if rejected else [],
    }


def show_warnings(figures: Mapping[str, Any], console: Console) -> None:
    """Print the warnings of a run; in red if numbers go wrong more often than now and then."""
    style = "red" if figures.get("nonfinite_fraction", 0) > MOST_NONFINITE else None
    for warning in figures["warnings"]:
        console.out(f"Warning: {warning}", style=style, highlight=False)


def show_alarms(summary: Mapping[str, Any], console: Console) -> None:
    """Print what says that the run is wrong."""
    for alarm in summary["alarms"]:
        console.out(f"Alarm: {alarm}", style="bold red", highlight=False)


def finite(value: float) -> float | None:
    """A number for JSON, which has no infinities: None stands for one."""
    return value if math.isfinite(value) else None


def _plain(estimate: Estimate) -> dict[str, Any]:
    return {"mean": finite(estimate.value), "error": finite(estimate.error)}


def compared(estimate: ChainEstimate, exact: float | None) -> dict[str, Any]:
    """An estimate beside its exact value, for JSON."""
    known = exact is not None and 0 < estimate.error < math.inf
    z = (estimate.value - exact) / estimate.error if known and exact is not None else None
    agreement = {"rhat": finite(estimate.rhat), "ess_bulk": estimate.ess_bulk}
    entry = _plain(estimate) | {"exact": exact, "z": z} | agreement
    return entry if estimate.sector_changes is None else entry | {"sector_changes": estimate.sector_changes}


def time_entry(tau: AutocorrelationTime) -> dict[str, Any]:
    """An autocorrelation time, for JSON."""
    return {
        # a time that the run is too short to measure is a lower bound, and no value
        "value": finite(tau.value) if tau.resolved else None,
        "error": finite(tau.error) if tau.resolved else None,
        "window": tau.window,
        "frozen": tau.frozen,
        "lower_bound": finite(tau.lower_bound),
    }


def show(summary: Mapping[str, Any], console: Console) -> None:
    """Print the table: observable, measured, exact, difference in σ, R̂; then how fast the slow ones move."""
    show_observables(summary, console)
    independent = summary["microseconds_per_independent"]
    times = [f"{shown_microseconds(summary['microseconds_per_trajectory'])} µs a trajectory and chain"]
    times += [] if independent is None else [f"{shown_microseconds(independent)} µs an independent configuration"]
    console.print(", ".join(times), highlight=False)
    if summary["precision"] is not None:
        console.out(f"rounding errors: {Precision(**summary['precision'])}", highlight=False)
    show_warnings(summary, console)
    show_alarms(summary, console)


def show_observables(summary: Mapping[str, Any], console: Console) -> None:
    """The table alone."""
    table = Table(title=escape(summary["title"]), title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "observable" else "right")
    for label, *row in shown_observables(summary):
        table.add_row(escape(label), *row, style="bold red" if label in _CHECKS and summary["alarms"] else None)
    console.print(table)


def shown_observables(summary: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Rows of the table: moments, checks, what follows from them, and how fast the slow ones move."""
    for name in (name for name, entry in summary.items() if isinstance(entry, dict) and "exact" in entry):
        yield from shown_moment(name, summary[name])
    yield from shown_checks(summary)
    for name, entry in summary.get("derived", {}).items():
        yield name.replace("_", " "), shown_mean(entry)
    if summary.get("acceptance") is not None:
        yield "acceptance", f"{summary['acceptance']:.4f}"
    for name, value in summary.get("kernel_figures", {}).items():
        yield name.replace("_", " "), f"{value:.4g}"
    for name in (name for name in summary if name.startswith(_TAU_INT)):
        for label, tau in shown_elements(name.removeprefix(_TAU_INT), summary[name]):
            yield f"τ_int({label})", shown_time(tau) if tau else ""


def show_values(summary: Mapping[str, Any], names: Iterable[str], console: Console) -> None:
    """What was measured of a single configuration: nothing has an error."""
    table = Table(
        "observable", Column("measured", justify="right"), title=escape(summary["title"]), title_justify="left"
    )
    for name in names:
        for label, entry in shown_elements(name, {"mean": summary[name]["mean"]}):
            table.add_row(escape(label), f"{entry['mean']:.6f}" if entry else "")
    for name, entry in summary.get("derived", {}).items():
        table.add_row(escape(name.replace("_", " ")), f"{entry['mean']:.6f}")
    console.print(table)


def shown_elements(name: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The elements of a quantity with their labels: the first few of an array, then an empty one.

    >>> [label for label, _ in shown_elements("loop", {"mean": [[1, 2, 3], [4, 5, 6]]})]
    ['loop[0,0]', 'loop[0,1]', 'loop[0,2]', 'loop[1,0]', '…']
    """
    label = name.replace("_", " ")
    figures = {key: np.asarray(value, object) for key, value in entry.items()}
    shape = next((figure.shape for figure in figures.values()), (0,))
    for number, element in enumerate(np.ndindex(shape)):
        if number == MOST_SHOWN:
            yield "…", {}
            return
        yield label + index_of(element), {key: figure[element] for key, figure in figures.items()}


def index_of(element: Element) -> str:
    """What stands behind a name: [0,1], or nothing for a number."""
    return f"[{','.join(map(str, element))}]" if element else ""


def shown_moment(name: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str, str]]:
    """Label, mean with its error, exact value, difference and R̂, for people."""
    for label, figures in shown_elements(name, entry):
        if not figures:
            yield label, "", "", "", ""
            continue
        exact = "" if figures["exact"] is None else f"{figures['exact']:.6f}"
        difference = "" if figures["z"] is None else f"{figures['z']:+.1f} σ"
        rhat = "∞" if figures["rhat"] is None else f"{figures['rhat']:.3f}"
        yield label, shown_mean(figures), exact, difference, rhat


def shown_checks(summary: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """What is known exactly of every run."""
    for label, (name, exact) in _CHECKS.items():
        if (entry := summary.get(name)) is not None:
            difference = f"{(entry['mean'] - exact) / entry['error']:+.1f} σ" if entry["error"] else ""
            yield label, shown_mean(entry), str(exact), difference


def shown_time(tau: Mapping[str, Any]) -> str:
    """An autocorrelation time for people; a frozen one is a lower bound."""
    if tau["value"] is None:
        return f"> {tau['lower_bound']:.0f} ({'frozen' if tau['frozen'] else 'too short'})"
    return format_uncertainty(tau["value"], tau["error"])


def shown_microseconds(time: float) -> str:
    """Four digits, and no power of ten, which one would have to count.

    >>> shown_microseconds(186.6213), shown_microseconds(71182.15)
    ('186.6', '71,182')
    """
    return f"{time:.4g}" if time < 1e4 else f"{time:,.0f}"


def shown_mean(entry: Mapping[str, Any]) -> str:
    """A mean with its error, for people."""
    error = math.inf if entry["error"] is None else entry["error"]
    return format_uncertainty(entry["mean"], error)
