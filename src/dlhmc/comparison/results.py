"""What a comparison has found, for each sampler and against the best HMC."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

import msgspec
from msgspec import Meta

from dlhmc.comparison.contestants import Kind
from dlhmc.comparison.race import Runner, relative_pace
from dlhmc.comparison.settings import CompareSettings
from dlhmc.errors import UserError
from dlhmc.run.summary import compared, time_entry
from dlhmc.settings import converted
from dlhmc.statistics import Estimate, integrated_autocorrelation_time, mean_and_error, split_rhat
from dlhmc.statistics.autocorrelation import ONE_SIDED_SIGMA
from dlhmc.targets.contract import Target

#: how well a sampler is known; those dropped cost more than other HMC
Status = Literal["measured", "less precise", "lower bound", "dropped"]
Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
NotNegative = Annotated[float, Meta(ge=0, le=1e300)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
# Chains that have forgotten their starts are below (Gelman and Rubin).
_LARGEST_RHAT = 1.1
# Ranks of all samples are sorted for R̂: so many trajectories tell enough.
_ROWS_FOR_RHAT = 1000


class Mean(TypedDict):
    """An expectation value beside the exact one; no error where nothing in the data tells it."""

    mean: Finite
    error: NotNegative | None
    exact: Finite | None
    z: Finite | None
    rhat: NotRequired[NotNegative | None]
    ess_bulk: NotRequired[NotNegative | None]
    sector_changes: NotRequired[NotNegative]


class Time(TypedDict):
    """An autocorrelation time in trajectories; without a value, a lower limit at 95 % is all that is known."""

    value: Finite | None
    error: NotNegative | None
    window: Number
    frozen: bool
    lower_bound: Finite


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A value with its error; or, where there is none, one-sided limits at 95 % as far as they are known."""

    value: Finite | None = None
    error: NotNegative | None = None
    lower: Finite | None = None
    upper: Finite | None = None

    @classmethod
    def measured(cls, value: float, error: float) -> "Quantity":
        """A value, with the limits that follow."""
        margin = ONE_SIDED_SIGMA * error
        return cls(value, error, max(0.0, value - margin), value + margin)

    @property
    def figure(self) -> float | None:
        """The value, or the lower limit in its place."""
        return self.lower if self.value is None else self.value

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
    kind: Kind
    status: Status
    integrator: str | None
    length: Finite | None
    step_size: Finite | None
    model: str | None
    leapfrog_steps: Number
    forces: Number
    network_flops: Number
    trajectories: Number
    seconds: Finite
    acceptance: Finite
    nonfinite_rejected: Number
    #: moments by name
    observables: Mapping[str, Mean]
    #: of slow observables by name, the one that judges first
    tau_int: Mapping[str, Time]
    #: of those that are not slow, for information
    tau_int_others: Mapping[str, Time]
    #: N_LF · τ_int of the first slow observable
    steps_tau: Quantity
    #: of one chain
    seconds_per_trajectory: Quantity
    #: 2 τ_int trajectories of one chain, τ_int of the slowest observable
    seconds_per_independent: Quantity
    #: how many times more the best HMC costs, in N_LF · τ_int and in time
    gain_in_steps: Quantity = NOTHING
    gain_in_time: Quantity = NOTHING
    #: the same in time, with τ_int of the slowest of all observables
    seconds_for_all: Quantity = NOTHING
    gain_for_all: Quantity = NOTHING
    #: the kind of layers of a model
    network: str | None = None
    #: where the histories are, and the SHA-256 of the file
    history: str = ""
    history_sha256: str = ""
    #: means of what the kernel tells of its trajectories, such as how moves fare and the work of solvers
    kernel_figures: Mapping[str, Finite] = dataclasses.field(default_factory=dict)
    #: those that count work, of 2 τ_int trajectories
    work_per_independent: Mapping[str, Quantity] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Results:
    """All of a comparison."""

    #: as `dlhmc.run.describe.describe_target` gives it
    target: Mapping[str, Any]
    chains: Annotated[int, Meta(ge=1, le=10**7)]
    precision: Finite
    seconds: Finite
    #: whether every sampler has been measured to the precision, or dropped
    finished: bool
    #: whether a signal ended it
    interrupted: bool
    exact: Mapping[str, Finite]
    #: names of the best HMC
    best_in_steps: str | None
    best_in_time: str | None
    #: why not all numbers can be trusted
    warnings: tuple[str, ...]
    entries: tuple[Entry, ...]


def in_trajectories(entry: Entry) -> Quantity:
    """τ_int of the observable that judges."""
    return as_quantity(next(iter(entry.tau_int.values())))


def in_steps(entry: Entry) -> Quantity:
    """N_LF·τ_int."""
    return entry.steps_tau


def in_time(entry: Entry) -> Quantity:
    """Seconds for an independent configuration."""
    return entry.seconds_per_independent


def in_time_for_all(entry: Entry) -> Quantity:
    """Seconds for a configuration that is independent in all observables."""
    return entry.seconds_for_all


def work_of(entries: Sequence[Entry]) -> list[str]:
    """The names of work that any sampler did."""
    names = dict.fromkeys(name for entry in entries for name in entry.work_per_independent)
    return [name for name in names if any(entry.kernel_figures.get(name) for entry in entries)]


def cheapest(entries: Iterable[Entry], kind: str, cost: Callable[[Entry], Quantity]) -> Entry | None:
    """Which one of a kind costs least.

    One that has not been measured might be the best if its lower limit is below; then that limit is all that is known.
    Those dropped are out: they cost more than others when they were.
    """
    rivals = [entry for entry in entries if entry.kind == kind and entry.status != "dropped"]
    return min(rivals, key=lambda entry: _or_infinite(cost(entry)), default=None)


def evaluate(
    described: Mapping[str, Any],
    target: Target,
    runners: Sequence[Runner],
    settings: CompareSettings,
    seconds: float,
    *,
    exact_starts: bool,
    interrupted: bool = False,
) -> Results:
    """Everything in results.json; samplers that have not run yet are left out."""
    exact = {name: value for name, value in target.exact().items() if math.isfinite(value)}
    ran = [runner for runner in runners if runner.taus and runner.pace]
    entries = [_entry(runner, target, exact) for runner in ran]
    fewest, quickest = cheapest(entries, "hmc", in_steps), cheapest(entries, "hmc", in_time)
    if fewest is not None and quickest is not None:
        best_for_all = cheapest(entries, "hmc", in_time_for_all) or quickest
        least, reference = fewest.steps_tau, ran[entries.index(quickest)]
        reference_for_all = ran[entries.index(best_for_all)]
        entries = [
            dataclasses.replace(
                entry,
                gain_in_steps=_itself(least) if entry is fewest else ratio(least, entry.steps_tau),
                gain_in_time=_gain_in_time(quickest, entry, _slow, relative_pace(reference, runner)),
                gain_for_all=_gain_in_time(best_for_all, entry, _all_times, relative_pace(reference_for_all, runner)),
            )
            for entry, runner in zip(entries, ran, strict=True)
        ]
    return Results(
        described,
        settings.chains,
        settings.precision,
        seconds,
        len(ran) == len(runners) > 0 and all(runner.status != "running" for runner in runners),
        interrupted,
        {name: exact[name] for name in target.known.moments if name in exact},
        None if fewest is None else fewest.name,
        None if quickest is None else quickest.name,
        () if exact_starts else _warnings(ran),
        tuple(entries),
    )


def _warnings(runners: Sequence[Runner]) -> tuple[str, ...]:
    """What is to be said where chains did not start in equilibrium for sure."""
    kept = [runner for runner in runners if runner.status != "dropped" and runner.rows >= 4]
    if not kept:
        return ()
    found = {runner.contestant.name: _rhat(runner) for runner in kept}
    stuck = [f"{name} ({rhat:.3g})" for name, rhat in found.items() if not rhat < _LARGEST_RHAT]
    began = "This target has no exact draws, so chains may not have begun in equilibrium"
    if not stuck:
        return (f"{began}; R̂ of what moves slowly is at most {max(found.values()):.3f}.",)
    return (
        f"{began}, and some have not forgotten their starts, as R̂ of what moves slowly tells: {', '.join(stuck)}. "
        "Their means, autocorrelation times and limits may be wrong, and so may gains over them.",
    )


def _rhat(runner: Runner) -> float:
    stride = max(1, runner.rows // _ROWS_FOR_RHAT)
    return max(split_rhat(runner.streams[name][::stride]) for name in runner.slow)


def _entry(runner: Runner, target: Target, exact: Mapping[str, float]) -> Entry:
    contestant, streams = runner.contestant, runner.streams
    drawn = target.exact_draws() is not None
    observables = {
        name: cast(
            Mean,
            compared(
                mean_and_error(
                    streams[observable].astype(float) ** power,
                    sector=streams[observable] if observable == target.known.sector else None,
                    equilibrium_start=drawn,
                ),
                exact.get(name),
            ),
        )
        for name, (observable, power) in target.known.moments.items()
        if observable in streams.names
    }
    times = {
        name: cast(Time, time_entry(tau) | {"lower_bound": runner.bound(name)}) for name, tau in runner.taus.items()
    }
    others = {
        name: cast(Time, time_entry(integrated_autocorrelation_time(streams[name])))
        for name in streams.names
        if name not in runner.slow
    }
    pace, slowest, figures = runner.seconds_per_trajectory, _slowest(times), runner.kernel_figures
    fields = dataclasses.fields(contestant)
    unfinished: Status = "less precise" if runner.resolved else "lower bound"
    return Entry(
        **{field.name: getattr(contestant, field.name) for field in fields if field.name != "kernel"},
        status=unfinished if runner.status == "running" else runner.status,
        trajectories=runner.rows,
        seconds=runner.seconds,
        acceptance=runner.accepted / (runner.rows * runner.chains),
        nonfinite_rejected=runner.nonfinite,
        observables=observables,
        tau_int=times,
        tau_int_others=others,
        steps_tau=as_quantity(times[next(iter(runner.slow))]).times(contestant.leapfrog_steps),
        seconds_per_trajectory=Quantity.measured(pace.value, pace.error),
        seconds_per_independent=slowest.times(2 * pace.value, pace.error / pace.value),
        seconds_for_all=_slowest(times | others).times(2 * pace.value, pace.error / pace.value),
        kernel_figures=figures,
        work_per_independent={name: slowest.times(2 * figures[name]) for name in runner.efforts},
    )


def as_quantity(time: Time) -> Quantity:
    """An autocorrelation time, or its lower limit."""
    if time["value"] is None or time["error"] is None:
        return Quantity(lower=time["lower_bound"])
    return Quantity.measured(time["value"], time["error"])


def _slowest(times: Mapping[str, Time]) -> Quantity:
    """The largest τ_int; one that has not been measured counts as larger than any that has."""
    taus = [as_quantity(time) for time in times.values()]
    return max(taus, key=lambda tau: (tau.value is None, _or_infinite(tau)))


def _or_infinite(cost: Quantity) -> float:
    return math.inf if cost.figure is None else cost.figure


def _slow(entry: Entry) -> Mapping[str, Time]:
    return entry.tau_int


def _all_times(entry: Entry) -> Mapping[str, Time]:
    return {**entry.tau_int, **entry.tau_int_others}


def _gain_in_time(best: Entry, entry: Entry, times: Callable[[Entry], Mapping[str, Time]], pace: Estimate) -> Quantity:
    """The ratio of both τ_int, times that of the speeds, which is known better than the speeds."""
    reference = _slowest(times(best))
    if entry.name == best.name:
        return _itself(reference)
    return ratio(reference, _slowest(times(entry))).times(pace.value, pace.error / pace.value)


def _itself(cost: Quantity) -> Quantity:
    return NOTHING if cost.value is None else Quantity(1.0, 0.0, 1.0, 1.0)


def to_json(results: Results) -> dict[str, Any]:
    """For results.json."""
    return msgspec.json.decode(msgspec.json.encode(results), type=dict[str, Any])


def from_json(table: Mapping[str, Any], where: str = "The table") -> Results:
    """What `to_json` gave; UserError for whatever makes no sense."""
    results = converted(table, Results, where)
    if problem := _problem(results):
        raise UserError(f"{where} is damaged or of another version of dlhmc: {problem}.")
    return results


def _problem(results: Results) -> str | None:
    """What no type can say."""
    if not isinstance(results.target.get("target"), str):
        return "its target has no name"
    if len({frozenset(entry.tau_int) for entry in results.entries}) > 1:
        return "its samplers are not judged by the same observables"
    for entry in results.entries:
        times = [*entry.tau_int.values(), *entry.tau_int_others.values()]
        if not entry.tau_int or any(time["value"] is not None and time["error"] is None for time in times):
            return f"an autocorrelation time of {entry.name} is missing"
    return None
