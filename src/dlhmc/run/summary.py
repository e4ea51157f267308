"""What a sampling run has found: summary.json and the table beside the exact values.

A quantity is a number or an array of them; every figure in summary.json then has its shape, as nested lists.
"""

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dlhmc.errors import UserError
from dlhmc.run.describe import ordinary
from dlhmc.run.history import History, diagnostics_of
from dlhmc.run.precision import Precision
from dlhmc.settings import converted
from dlhmc.statistics import (
    AutocorrelationTime,
    Estimate,
    Series,
    Strided,
    check_exactness,
    check_temperature,
    gamma_method,
    mean_and_error,
)
from dlhmc.statistics.uncertainty import FEWEST_SECTOR_CHANGES, LARGEST_RHAT, ChainEstimate
from dlhmc.targets.contract import Moment, Target
from dlhmc.targets.temperature import SLOPE, TEMPERATURE
from dlhmc.theories.derived import derive, warn

# A larger share of proposals that are not finite means that something is wrong with the run.
MOST_NONFINITE = 0.01
# No target has a moment of a higher power; a file of a stranger may say anything.
_LARGEST_POWER = 100
# What is held to ⟨e^{−ΔH}⟩ = 1, and what its results are called after.
_ENERGIES = {"energy_change": "", "energy_change_of_moves": "_of_moves"}
IN_EVERY_SUMMARY = ("accepted", "nonfinite", *_ENERGIES, *TEMPERATURE)
#: what names of autocorrelation times begin with
TAU_INT = "tau_int_"
# Records are summed so many rows at a time.
_ROWS_AT_ONCE = 4096
#: what names of exact values begin with in a dataset
EXACT = "exact_"
# What a history says about itself beside what ran.
_NOT_DESCRIBING = frozenset(
    (
        "quantities",
        "temperature_every",
        "notes",
        "diagnostics",
        "versions",
        "warmup",
        "start",
        "seed",
        "seconds",
        "step_size",
        "leapfrog_steps",
    )
)
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
        moments = dict(target.known.moments) | {name: Moment(name) for name in (*measured, *occasional)}
        slow = dict(target.known.slow(target)) | dict.fromkeys(measured)
        variances = {name: target.known.slow_variance(target, name) for name in target.known.slow(target)}
        exact = target.exact()
        return cls(
            moments,
            {name: None if mean is None else np.asarray(mean).tolist() for name, mean in slow.items()},
            {name: np.asarray(variance).tolist() for name, variance in variances.items() if variance is not None},
            {name: np.asarray(exact[name]).tolist() for name in target.known.moments if name in exact},
            target.known.sector,
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
    """Records of every trajectory, in memory or in a store: the first rows of arrays [trajectory, …, chain]."""

    arrays: Mapping[str, Any]
    rows: int
    #: where chains started, as far as that is known: "exact" is in equilibrium
    start: str | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Trajectories and chains."""
        return self.rows, next((array.shape[-1] for array in self.arrays.values()), 0)

    @property
    def elements(self) -> dict[str, tuple[int, ...]]:
        """What was recorded, and its shape in one chain: () for a number."""
        return {name: array.shape[1:-1] for name, array in self.arrays.items()}

    def series(self, name: str, power: int = 1, element: Element = ()) -> Series:
        """A record [trajectory, chain], or one element of it, raised to a power."""
        return _Rows(self.arrays[name], self.rows, power, element)

    def total(self, name: str) -> float:
        """The sum of a record over all trajectories and chains."""
        parts = range(0, self.rows, _ROWS_AT_ONCE)
        array = self.arrays[name]
        return sum(float(np.sum(array[i : min(i + _ROWS_AT_ONCE, self.rows)], dtype=np.float64)) for i in parts)


class _Rows:
    """Rows as the statistics want them: sliced by chains, in double precision; read when they are looked at."""

    def __init__(self, array: Any, rows: int, power: int, element: Element) -> None:
        self._array, self._power, self._element = array, power, element
        self.shape = (rows, array.shape[-1])

    def __getitem__(self, index: tuple[slice, slice]) -> NDArray[np.float64]:
        rows = slice(*index[0].indices(self.shape[0]))
        return np.asarray(self._array[(rows, *self._element, index[1])], np.float64) ** self._power


@dataclasses.dataclass(frozen=True)
class Measured:
    """What has been measured, where it is, and what says how to read it."""

    histories: Histories
    #: what ran, and how to read the records: as a store or a dataset says of itself
    attributes: Mapping[str, Any]
    #: of sampling; None for configurations that come from elsewhere
    seconds: float | None = None
    precision: Precision | None = None
    #: of the trajectories that are measured, for kernels that have one
    step_size: float | None = None
    history: History | None = None

    @classmethod
    def of_history(
        cls, history: History, rows: int, seconds: float, precision: Precision | None, step_size: float | None
    ) -> Self:
        """The first rows of a history."""
        arrays = {name: history.array(name) for name in history.records}
        histories = Histories(arrays, rows, history.attributes.get("start"))
        return cls(histories, history.attributes, seconds, precision, step_size, history)

    @property
    def rows(self) -> int:
        """Trajectories of each chain."""
        return self.histories.rows

    @functools.cached_property
    def quantities(self) -> Quantities:
        """How to read the records."""
        return Quantities.read(self.attributes, "The history")

    def summary(self) -> dict[str, Any]:
        """All results as one table of plain numbers: what ran, observables, and of a run its checks and its speed."""
        histories, quantities = self.histories, self.quantities
        wanted = {*quantities.slow, *(moment.observable for moment in quantities.moments.values())}
        if missing := wanted - histories.arrays.keys():
            raise UserError(f"The history is damaged: it has no '{min(missing)}'.")
        taus = autocorrelation_times(quantities, histories)
        summary = self.describe() | self.results(taus)
        if self.seconds is not None:
            summary |= self._of_run(taus)
        summary["warnings"] += _unconverged(summary, quantities)
        summary |= self._derived()
        if self.seconds is not None:
            summary["warnings"] += warn(histories)
        return summary

    def alarms(self) -> list[str]:
        """What says that a run is wrong."""
        found: list[str] = self._of_run({})["alarms"]
        return found

    def describe(self) -> dict[str, Any]:
        """What ran, and how much of it."""
        what = {
            name: value
            for name, value in self.attributes.items()
            if name not in _NOT_DESCRIBING and not name.startswith(EXACT)
        }
        rows, chains = self.histories.shape
        title = f"{_title(what)}  {chains} chains × {rows} trajectories"
        start = self.histories.start
        return {**what, "title": title, "start": start, "chains": chains, "trajectories": rows, "warnings": []}

    def values(self, names: Iterable[str]) -> dict[str, Any]:
        """What was measured of a single configuration: nothing has an error."""
        found = {name: np.asarray(self.histories.arrays[name][0, ..., 0], np.float64).tolist() for name in names}
        entries = {name: {"mean": value, "error": None} for name, value in found.items()}
        return self.describe() | entries | self._derived()

    def results(self, taus: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """The moments beside their exact values, and autocorrelation times."""
        quantities, histories = self.quantities, self.histories

        def moment(observable: str, power: int, exact: Any) -> dict[str, Any]:
            shape = histories.elements[observable]

            def measure(element: Element) -> dict[str, Any]:
                series = histories.series(observable, power, element)
                sector = histories.series(observable, 1, element) if observable == quantities.sector else None
                estimate = mean_and_error(series, sector=sector, equilibrium_start=histories.start == "exact")
                entry = compared(estimate, _at(exact, shape, element))
                return entry if self.seconds is None else entry | {"ess_per_second": estimate.ess_bulk / self.seconds}

            return _nested(for_each(shape, measure))

        moments = {name: moment(*of, quantities.exact.get(name)) for name, of in quantities.moments.items()}
        times = {TAU_INT + name: _nested(np.vectorize(time_entry, [object])(found)) for name, found in taus.items()}
        return moments | times

    def _of_run(self, taus: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """Checks of exactness, figures of the kernel, and speed."""
        histories, seconds = self.histories, self.seconds or 0.0
        trajectories = histories.rows * histories.shape[1]
        diagnostics = [name for name in diagnostics_of(self.attributes) if name in histories.arrays]
        totals = {name: histories.total(name) for name in diagnostics}
        found: dict[str, Any] = {"leapfrog_steps": int(self.attributes.get("leapfrog_steps", 0))}
        found["acceptance"] = totals["accepted"] / trajectories if "accepted" in totals else None
        alarms: list[str] = []
        for name, whose in _ENERGIES.items():
            if name in histories.arrays:
                exactness = check_exactness(histories.series(name))
                found["exp_minus_dh" + whose] = _plain(exactness.weight)
                found["balance" + whose] = _plain(exactness.balance)
                alarms += [f"{'Moves: ' if whose else ''}{alarm}" for alarm in exactness.alarms]
        every = int(self.attributes.get("temperature_every", 0))
        if every and SLOPE in histories.arrays:
            temperature = check_temperature(*(Strided(histories.series(name), every) for name in TEMPERATURE))
            found["temperature"] = _plain(temperature.value)
            alarms += temperature.alarms
        rejected = int(totals.get("nonfinite", 0))
        if rejected == trajectories:
            alarms.append("No proposal was finite, so nothing has moved. No result of this run can be trusted.")
        figures = {name: total / trajectories for name, total in totals.items() if name not in IN_EVERY_SUMMARY}
        times = [tau.value if tau.resolved else math.inf for elements in taus.values() for tau in elements.flat]
        per_trajectory = 1e6 * seconds / trajectories
        return (
            found
            | nonfinite_figures(rejected, trajectories)
            | {
                "alarms": alarms,
                "precision": None if self.precision is None else dataclasses.asdict(self.precision),
                "seconds": seconds,
                "microseconds_per_trajectory": per_trajectory,
                # an independent configuration is 2 τ_int trajectories apart: ½ is the τ_int of independent draws
                "microseconds_per_independent": finite(2 * max(times, default=math.inf) * per_trajectory),
                **({"kernel_figures": figures} if figures else {}),
            }
        )

    def _derived(self) -> dict[str, Any]:
        """What follows from several observables."""
        try:
            notes = json.loads(self.attributes.get("notes", "{}"))
            found = derive(self.histories, notes)
        except (TypeError, ValueError, KeyError, RecursionError) as error:
            raise UserError(f"The history does not say how to read its measurements ({error}).") from None
        figures = {name: {"mean": e.value, "error": finite(e.error)} for name, e in found.items()}
        return {"derived": figures} if figures else {}


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


def _nested(entries: NDArray[Any]) -> dict[str, Any]:
    """A table of nested lists from the table of each element."""

    def column(name: str) -> Any:
        return for_each(entries.shape, lambda element: entries[element][name]).tolist()

    return {name: column(name) for name in entries.flat[0]}


def _unconverged(summary: Mapping[str, Any], quantities: Quantities) -> list[str]:
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
