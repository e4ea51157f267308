"""What a comparison has found, for each sampler and against the best HMC."""

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlhmc.comparison.race import Runner, relative_pace
from dlhmc.errors import UserError
from dlhmc.runs.describe import describe_target
from dlhmc.runs.directory import RunDirectory, read_json
from dlhmc.runs.summary import compared, finite, time_entry
from dlhmc.statistics import Estimate, integrated_autocorrelation_time, mean_and_error
from dlhmc.statistics.autocorrelation import ONE_SIDED_SIGMA
from dlhmc.targets.contract import Target

_MOMENTS = ("plaquette", "charge_squared", "sine_charge_squared")


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A value with its error; or, where there is none, one-sided limits at 95 % as far as they are known."""

    value: float | None = None
    error: float | None = None
    lower: float | None = None
    upper: float | None = None

    @classmethod
    def measured(cls, value: float, error: float) -> "Quantity":
        """A value, with the limits that follow."""
        margin = ONE_SIDED_SIGMA * error
        return cls(value, error, max(0.0, value - margin), value + margin)

    @property
    def relative(self) -> float:
        """The relative error of a value."""
        return self.error / self.value if self.value and self.error is not None else 0.0

    def times(self, factor: float, relative: float = 0.0) -> "Quantity":
        """Multiplied by a factor with an independent relative error."""
        if self.value is None:
            lower = None if self.lower is None else self.lower * factor
            return Quantity(lower=lower, upper=None if self.upper is None else self.upper * factor)
        value = self.value * factor
        return Quantity.measured(value, value * math.hypot(self.relative, relative))


NOTHING = Quantity()


def ratio(reference: Quantity, own: Quantity) -> Quantity:
    """How many times more the reference costs: a value if both are, else a limit."""
    if not own.value and own.lower is None:
        return NOTHING
    if reference.value is not None and own.value:
        value = reference.value / own.value
        return Quantity.measured(value, value * math.hypot(reference.relative, own.relative))
    if own.value and own.upper and reference.lower is not None:
        return Quantity(lower=reference.lower / own.upper)
    if own.lower and reference.upper is not None:
        return Quantity(upper=reference.upper / own.lower)
    return NOTHING


@dataclasses.dataclass(frozen=True)
class Entry:
    """One sampler."""

    name: str
    kind: str
    #: measured to the precision; less precise; lower bound; dropped, for costing more than other HMC
    status: str
    integrator: str | None
    length: float | None
    step_size: float | None
    model: str | None
    leapfrog_steps: int
    forces: int
    network_flops: int
    trajectories: int
    seconds: float
    acceptance: float
    nonfinite_rejected: int
    #: name → mean, error, exact, z
    observables: Mapping[str, Mapping[str, float | None]]
    #: name → value, error, window, frozen, lower_bound
    tau_int: Mapping[str, Mapping[str, Any]]
    #: the same for observables that are not slow, for information
    tau_int_others: Mapping[str, Mapping[str, Any]]
    #: N_LF · τ_int of the charge
    steps_tau: Quantity
    #: of one chain
    seconds_per_trajectory: Quantity
    #: 2 τ_int trajectories of one chain, τ_int of the slowest observable
    seconds_per_independent: Quantity
    #: how many times more the best HMC costs, in N_LF · τ_int and in time
    gain_in_steps: Quantity = NOTHING
    gain_in_time: Quantity = NOTHING
    #: where the histories are, and the SHA-256 of the file
    history: str = ""
    history_sha256: str = ""


@dataclasses.dataclass(frozen=True)
class Results:
    """All of a comparison."""

    #: in words and numbers: that of U(1) by its lattice and coupling
    target: Mapping[str, Any]
    chains: int
    precision: float
    seconds: float
    #: whether every sampler has been measured to the precision, or dropped
    finished: bool
    #: whether a signal ended it
    interrupted: bool
    exact: Mapping[str, float]
    #: names of the best HMC
    best_in_steps: str | None
    best_in_time: str | None
    entries: tuple[Entry, ...]

    @property
    def lattice(self) -> tuple[int, int]:
        """Of U(1)."""
        first, second = self.target["lattice"]
        return first, second

    @property
    def beta(self) -> float:
        """Of U(1)."""
        return float(self.target["beta"])


def evaluate(
    target: Target, runners: Sequence[Runner], precision: float, seconds: float, *, interrupted: bool = False
) -> Results:
    """Everything in results.json; samplers that have not run yet are left out."""
    exact = target.exact()
    ran = [runner for runner in runners if runner.taus and runner.pace]
    entries = [_entry(runner, target, exact) for runner in ran]
    in_steps = _best(entries, lambda entry: entry.steps_tau)
    in_time = _best(entries, lambda entry: entry.seconds_per_independent)
    if in_steps is not None and in_time is not None:
        entries = [
            dataclasses.replace(
                entry,
                gain_in_steps=_gain_in_steps(entries[in_steps], entry),
                gain_in_time=_gain_in_time(entries[in_time], entry, relative_pace(ran[in_time], runner)),
            )
            for entry, runner in zip(entries, ran, strict=True)
        ]
    return Results(
        describe_target(target),
        runners[0].chains if runners else 0,
        precision,
        seconds,
        len(ran) == len(runners) > 0 and all(runner.status != "running" for runner in runners),
        interrupted,
        {name: exact[name] for name in target.moments if name in exact},
        None if in_steps is None else entries[in_steps].name,
        None if in_time is None else entries[in_time].name,
        tuple(entries),
    )


def _entry(runner: Runner, target: Target, exact: Mapping[str, float]) -> Entry:
    contestant, streams = runner.contestant, runner.streams
    observables = {
        name: compared(mean_and_error(streams[observable].astype(float) ** power), exact.get(name))
        for name, (observable, power) in target.moments.items()
    }
    times = {name: time_entry(tau) | {"lower_bound": runner.bound(name)} for name, tau in runner.taus.items()}
    others = {
        name: time_entry(integrated_autocorrelation_time(streams[name]))
        for name in streams.names
        if name not in target.slow
    }
    slowest = _slowest(times)
    pace = runner.seconds_per_trajectory
    return Entry(
        contestant.name,
        contestant.kind,
        _status(runner),
        contestant.integrator,
        contestant.length,
        contestant.step_size,
        contestant.model,
        contestant.leapfrog_steps,
        contestant.forces,
        contestant.network_flops,
        runner.rows,
        runner.seconds,
        runner.accepted / (runner.rows * runner.chains),
        runner.nonfinite,
        observables,
        times,
        others,
        _quantity(times[next(iter(target.slow))]).times(contestant.leapfrog_steps),
        Quantity.measured(pace.value, pace.error),
        slowest.times(2 * pace.value, pace.error / pace.value),
    )


def _status(runner: Runner) -> str:
    if runner.status != "running":
        return runner.status
    return "less precise" if runner.resolved else "lower bound"


def _quantity(time: Mapping[str, Any]) -> Quantity:
    if time["value"] is None or time["error"] is None:
        return Quantity(lower=time["lower_bound"])
    return Quantity.measured(time["value"], time["error"])


def _slowest(times: Mapping[str, Mapping[str, Any]]) -> Quantity:
    """The largest τ_int; one that has not been measured counts as larger than any that has."""
    taus = [_quantity(time) for time in times.values()]
    return max(taus, key=lambda tau: (tau.value is None, _figure(tau)))


def _best(entries: Sequence[Entry], cost: Callable[[Entry], Quantity]) -> int | None:
    """Which HMC costs least.

    One that has not been measured might be the best if its lower limit is below; then that limit is all that is known.
    Those dropped are out: they cost more than others when they were.
    """
    rivals = [i for i, entry in enumerate(entries) if entry.kind == "hmc" and entry.status != "dropped"]
    return min(rivals, key=lambda i: _figure(cost(entries[i])), default=None)


def _figure(cost: Quantity) -> float:
    """A value, or the limit in its place."""
    figure = cost.lower if cost.value is None else cost.value
    return math.inf if figure is None else figure


def _gain_in_steps(best: Entry, entry: Entry) -> Quantity:
    return _itself(best.steps_tau) if entry.name == best.name else ratio(best.steps_tau, entry.steps_tau)


def _gain_in_time(best: Entry, entry: Entry, pace: Estimate) -> Quantity:
    """The ratio of both τ_int, times that of the speeds, which is known better than the speeds."""
    reference = _slowest(best.tau_int)
    if entry.name == best.name:
        return _itself(reference)
    return ratio(reference, _slowest(entry.tau_int)).times(pace.value, pace.error / pace.value)


def _itself(cost: Quantity) -> Quantity:
    return NOTHING if cost.value is None else Quantity(1.0, 0.0, 1.0, 1.0)


def to_json(results: Results) -> dict[str, Any]:
    """For results.json: no infinities."""
    table = dataclasses.asdict(results)
    return _without_infinities(table.pop("target") | table)


def read_results(path: Path) -> Results:
    """What `to_json` wrote to a file."""
    table = read_json(path, RunDirectory(path.parent).identity())
    try:
        return from_json(table)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path} is damaged or of another version of dlhmc ({error}): compare again.") from None


def from_json(table: Mapping[str, Any]) -> Results:
    """What `to_json` gave; a ValueError, KeyError, TypeError or AttributeError says what is wrong with it."""
    quantities = [field.name for field in dataclasses.fields(Entry) if field.type is Quantity]
    entries = tuple(
        Entry(**(entry | {name: Quantity(**entry[name]) for name in quantities})) for entry in table["entries"]
    )
    for entry in entries:
        _require_fields(entry)
    known = {field.name for field in dataclasses.fields(Results)} - {"target"}
    target = {name: value for name, value in table.items() if name not in known}
    results = Results(target, **{name: table[name] for name in known - {"entries"}}, entries=entries)
    _require_fields(results)
    if results.chains < 1 or any(entry.trajectories < 0 for entry in entries):
        raise ValueError("its number of chains or of trajectories is none")
    if len({frozenset(entry.tau_int) for entry in entries}) > 1:
        raise ValueError("its samplers are not judged by the same observables")
    if "target" in target:  # one that was made in Python
        return results
    if not _fits(target.get("lattice"), list[int]) or len(results.lattice) != 2 or not _fits(target.get("beta"), float):
        raise ValueError("its lattice or its beta is none")
    if min(results.lattice) < 2 or not 0 < results.beta < math.inf:
        raise ValueError("its lattice or its beta is none")
    if missing := set(_MOMENTS) - results.exact.keys():
        raise ValueError(f"it has no exact {missing.pop()}")
    for entry in entries:
        if missing := (set(_MOMENTS) - entry.observables.keys()) | ({"charge", "sine_charge"} - entry.tau_int.keys()):
            raise ValueError(f"it has no {missing.pop()}")
    return results


def _require_fields(value: Any) -> None:
    """Refuse numbers, texts and tables in the places of each other."""
    hints = typing.get_type_hints(type(value))
    for field in dataclasses.fields(value):
        part = getattr(value, field.name)
        if not _fits(part, hints[field.name]):
            raise ValueError(f"its {field.name} is {str(part)[:40]!r}")
        if isinstance(part, Quantity):
            _require_fields(part)
            _require_error(part.error)
    if isinstance(value, Entry):
        for moment in value.observables:
            if not _fits([value.observables[moment][key] for key in ("error", "exact", "z")], list[float | None]):
                raise ValueError(f"its {moment} is no measurement")
            if not _fits(value.observables[moment]["mean"], float):
                raise ValueError(f"its {moment} has no mean")
            _require_error(value.observables[moment]["error"])
        for tau in (*value.tau_int.values(), *value.tau_int_others.values()):
            figures = [tau[key] for key in ("error", "lower_bound", "value", "window")]
            known = figures[0 if figures[2] is not None else 1] is not None
            if not known or not _fits(figures, list[float | None]) or not _fits(tau["frozen"], bool):
                raise ValueError("its tau_int is no autocorrelation time")
            _require_error(tau["error"])


def _require_error(error: float | None) -> None:
    if error is not None and error < 0:
        raise ValueError("it has a negative error")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value from JSON is of the type of a field."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin is types.UnionType:
        return any(_fits(value, argument) for argument in arguments)
    if origin is Mapping:
        return isinstance(value, dict) and all(_fits(part, arguments[1]) for part in value.values())
    if origin in (tuple, list):
        if not isinstance(value, tuple | list):
            return False
        kinds = arguments if len(arguments) == 2 and arguments[1] is not ... else arguments[:1] * len(value)
        return len(value) == len(kinds) and all(map(_fits, value, kinds))
    if hint is float:
        return type(value) is float or (type(value) is int and abs(value) < 2**63)
    return type(value) is hint


def _without_infinities(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_infinities(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinities(part) for part in value]
    return finite(value) if isinstance(value, float) else value
