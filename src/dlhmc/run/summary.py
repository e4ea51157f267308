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
import xarray as xr
from numpy.typing import NDArray

from dlhmc.errors import UserError
from dlhmc.run.describe import target_in_words
from dlhmc.run.history import diagnostics_of
from dlhmc.settings import converted
from dlhmc.statistics import (
    AutocorrelationTime,
    Estimate,
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
_IN_EVERY_SUMMARY = ("accepted", "nonfinite", *_ENERGIES, *TEMPERATURE)
#: what names of autocorrelation times begin with
TAU_INT = "tau_int_"
# Records are summed so many rows at a time.
_ROWS_AT_ONCE = 4096
# What a history says about itself beside what ran.
_HOW = ("quantities", "temperature_every", "notes", "diagnostics", "versions", "warmup", "start", "seed", "seconds")
_NOT_DESCRIBING = (*_HOW, "step_size", "leapfrog_steps", "precision")
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
        known, exact = target.known, target.exact()
        slow = known.slow(target)
        variances = {name: known.slow_variance(target, name) for name in slow}
        return cls(
            dict(known.moments) | {name: Moment(name) for name in (*measured, *occasional)},
            {name: None if mean is None else np.asarray(mean).tolist() for name, mean in slow.items()}
            | dict.fromkeys(measured),
            {name: np.asarray(variance).tolist() for name, variance in variances.items() if variance is not None},
            {name: np.asarray(exact[name]).tolist() for name in known.moments if name in exact},
            known.sector,
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


class Rows:
    """A record [trajectory, chain] in double precision, raised to a power; read when it is looked at."""

    def __init__(self, record: xr.DataArray, power: int) -> None:
        self._record, self._power = record, power
        self.shape = record.shape[::-1]

    def __getitem__(self, index: tuple[slice, slice]) -> NDArray[np.float64]:
        rows = slice(*index[0].indices(self.shape[0]))
        return np.asarray(self._record[index[1], rows].values.T, np.float64, order="C") ** self._power


class Histories:
    """Records [chain, trajectory, …] in a dataset, in memory or on disk, whose attributes say how to read them."""

    def __init__(self, data: xr.Dataset) -> None:
        self.data = data

    @functools.cached_property
    def quantities(self) -> Quantities:
        """How to read the records."""
        return Quantities.read(self.data.attrs, "The history")

    @property
    def shape(self) -> tuple[int, int]:
        """Trajectories and chains."""
        return self.data.sizes["trajectory"], self.data.sizes["chain"]

    @property
    def start(self) -> str | None:
        """Where chains started, as far as that is known: "exact" is in equilibrium."""
        return self.data.attrs.get("start")

    @property
    def seconds(self) -> float | None:
        """Of sampling; None for configurations that come from elsewhere."""
        seconds = self.data.attrs.get("seconds")
        return None if seconds is None else float(seconds)

    @functools.cached_property
    def elements(self) -> dict[str, tuple[int, ...]]:
        """What was recorded, and its shape in one chain: () for a number."""
        return {str(name): array.shape[2:] for name, array in self.data.items() if "trajectory" in array.dims}

    def read(self, name: str, power: int = 1, element: Element = ()) -> Rows:
        """A record [trajectory, chain], or one element of it, raised to a power."""
        return Rows(self.data[name][..., *element] if element else self.data[name], power)

    def total(self, name: str) -> float:
        """The sum of a record over all trajectories and chains."""
        record = self.data[name]
        parts = (record[:, first : first + _ROWS_AT_ONCE] for first in range(0, self.shape[0], _ROWS_AT_ONCE))
        return sum(float(np.sum(part.values, dtype=np.float64)) for part in parts)

    def estimate(self, observable: str, power: int, element: Element) -> ChainEstimate:
        """The mean of a moment."""
        sector = self.read(observable, 1, element) if observable == self.quantities.sector else None
        series = self.read(observable, power, element)
        return mean_and_error(series, sector=sector, equilibrium_start=self.start == "exact")

    def time(self, name: str, element: Element) -> AutocorrelationTime:
        """The autocorrelation time of an observable."""
        known = (self.quantities.slow.get(name), self.quantities.variances.get(name))
        mean, variance = (_at(value, self.elements[name], element) for value in known)
        return gamma_method(self.read(name, 1, element), mean, variance=variance).tau

    @property
    def _is_one_configuration(self) -> bool:
        return self.seconds is None and self.shape == (1, 1)

    def summary(self) -> dict[str, Any]:
        """All results as one table of plain numbers: what ran, observables, and of a run its checks and its speed."""
        quantities, warnings = self.quantities, list[str]()
        wanted = {*quantities.slow, *(moment.observable for moment in quantities.moments.values())}
        if missing := wanted - self.elements.keys():
            raise UserError(f"The history is damaged: it has no '{min(missing)}'.")
        summary = self._describe() | self.moments()
        if not self._is_one_configuration:
            taus = {name: for_each(self.elements[name], functools.partial(self.time, name)) for name in quantities.slow}
            for name, found in taus.items():
                summary[TAU_INT + name] = _nested(np.vectorize(_plain_time, [object])(found))
            warnings = _unconverged(summary, quantities)
        if self.seconds is not None:
            run = self._run(taus)
            warnings = [*run["warnings"], *warnings, *warn(self)]
            summary |= run
        return summary | {"warnings": warnings} | self._derived()

    def alarms(self) -> list[str]:
        """What says that a run is wrong."""
        found: list[str] = self._run({})["alarms"]
        return found

    def moments(self) -> dict[str, Any]:
        """The moments beside their exact values; of a single configuration all that was measured."""
        one, moments = self._is_one_configuration, self.quantities.moments

        def measure(observable: str, power: int, exact: Any) -> dict[str, Any]:
            def entry(element: Element) -> dict[str, Any]:
                if one:
                    value = self.read(observable, power, element)[:, :].item()
                    return {"mean": value, "error": None, "exact": None, "z": None}
                estimate = self.estimate(observable, power, element)
                known = _at(exact, self.elements[observable], element)
                z = None
                if known is not None and 0 < estimate.error < math.inf:
                    z = (estimate.value - known) / estimate.error
                agreement = {"rhat": _finite(estimate.rhat), "ess_bulk": estimate.ess_bulk}
                found = _plain(estimate) | {"exact": known, "z": z} | agreement
                if estimate.sector_changes is not None:
                    found["sector_changes"] = estimate.sector_changes
                return found if self.seconds is None else found | {"ess_per_second": estimate.ess_bulk / self.seconds}

            return _nested(for_each(self.elements[observable], entry))

        if one:
            moments = {name: Moment(name) for name in self.elements}
        return {name: measure(*moment, self.quantities.exact.get(name)) for name, moment in moments.items()}

    def _describe(self) -> dict[str, Any]:
        """What ran, and how much of it."""
        rows, chains = self.shape
        what: dict[str, Any] = {
            str(name): value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            for name, value in self.data.attrs.items()
            if name not in _NOT_DESCRIBING
        }
        title = f"{what.get('kernel', '')}  {target_in_words(what)}  {chains} chains × {rows} trajectories"
        return {**what, "title": title, "start": self.start, "chains": chains, "trajectories": rows}

    def _run(self, taus: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """Checks of exactness, figures of the kernel, and speed."""
        attributes, seconds = self.data.attrs, self.seconds or 0.0
        trajectories = math.prod(self.shape)
        totals = {name: self.total(name) for name in diagnostics_of(attributes) if name in self.elements}
        found: dict[str, Any] = {"leapfrog_steps": int(attributes.get("leapfrog_steps", 0))}
        found["acceptance"] = totals["accepted"] / trajectories if "accepted" in totals else None
        alarms: list[str] = []
        for name, whose in _ENERGIES.items():
            if name in self.elements:
                exactness = check_exactness(self.read(name))
                found["exp_minus_dh" + whose] = _plain(exactness.weight)
                found["balance" + whose] = _plain(exactness.balance)
                alarms += [f"{'Moves: ' if whose else ''}{alarm}" for alarm in exactness.alarms]
        every = int(attributes.get("temperature_every", 0))
        if every and SLOPE in self.elements:
            temperature = check_temperature(*(Strided(self.read(name), every) for name in TEMPERATURE))
            found["temperature"] = _plain(temperature.value)
            alarms += temperature.alarms
        rejected = int(totals.get("nonfinite", 0))
        if rejected == trajectories:
            alarms.append("No proposal was finite, so nothing has moved. No result of this run can be trusted.")
        figures = {name: total / trajectories for name, total in totals.items() if name not in _IN_EVERY_SUMMARY}
        times = [tau.value if tau.resolved else math.inf for elements in taus.values() for tau in elements.flat]
        per_trajectory = 1e6 * seconds / trajectories
        found |= nonfinite_figures(rejected, trajectories)
        found["alarms"] = alarms
        found["precision"] = json.loads(attributes.get("precision", "null"))
        found["seconds"] = seconds
        found["microseconds_per_trajectory"] = per_trajectory
        # an independent configuration is 2 τ_int trajectories apart: ½ is the τ_int of independent draws
        found["microseconds_per_independent"] = _finite(2 * max(times, default=math.inf) * per_trajectory)
        return found | ({"kernel_figures": figures} if figures else {})

    def _derived(self) -> dict[str, Any]:
        """What follows from several observables."""
        try:
            found = derive(self, json.loads(self.data.attrs.get("notes", "{}")))
        except (TypeError, ValueError, KeyError, RecursionError) as error:
            raise UserError(f"The history does not say how to read its measurements ({error}).") from None
        return {"derived": {name: _plain(estimate) for name, estimate in found.items()}} if found else {}


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
    entries = {name: summary[name] for name in quantities.moments}
    missing = [name for name in entries if None in np.ravel(np.asarray(entries[name]["error"], object))]
    changes = {name: int(np.min(entries[name].get("sector_changes", FEWEST_SECTOR_CHANGES))) for name in missing}
    few = [name for name in missing if changes[name] < FEWEST_SECTOR_CHANGES]
    others = [name for name in missing if name not in few]
    warnings = [
        f"{name}: no error is given, because {changes[name]} independent changes of sector were seen over all chains, "
        f"and {FEWEST_SECTOR_CHANGES} are needed: take more trajectories, more chains, or a kernel that changes "
        "sectors more often, such as a hand-made move between sectors or a learned sampler."
        for name in few
    ]
    advice = (
        f"no error is given, because the chains have not converged (R̂ above {LARGEST_RHAT}, or τ_int not resolved); "
        "other results may be off, too. Try another start, more warm-up or more trajectories; if that does not help, a "
        "kernel that moves what is stuck: a hand-made move between sectors, or a learned sampler."
    )
    return warnings + ([f"{', '.join(others)}: {advice}"] if others else [])


def nonfinite_figures(rejected: int, proposals: int) -> dict[str, Any]:
    """Proposals rejected because a number in them was NaN or infinite, and what to say about them.

    >>> nonfinite_figures(2, 2560)["warnings"]
    ['2 of 2560 proposals (0.0781 %) were not finite and were rejected.']
    """
    share = rejected / max(1, proposals)
    text = f"{rejected} of {proposals} proposals ({100 * share:.3g} %) were not finite and were rejected"
    advice = ": look at the step size and the model, or use double precision" if share > MOST_NONFINITE else ""
    warnings = [f"{text}{advice}."] if rejected else []
    return {"nonfinite_rejected": rejected, "nonfinite_fraction": share, "warnings": warnings}


def _finite(value: float) -> float | None:
    """A number for JSON, which has no infinities: None stands for one."""
    return value if math.isfinite(value) else None


def _plain(estimate: Estimate) -> dict[str, Any]:
    return {"mean": _finite(estimate.value), "error": _finite(estimate.error)}


def _plain_time(tau: AutocorrelationTime) -> dict[str, Any]:
    """An autocorrelation time, for JSON."""
    return {
        # a time that the run is too short to measure is a lower bound, and no value
        "value": _finite(tau.value) if tau.resolved else None,
        "error": _finite(tau.error) if tau.resolved else None,
        "window": tau.window,
        "frozen": tau.frozen,
        "lower_bound": _finite(tau.lower_bound),
    }
