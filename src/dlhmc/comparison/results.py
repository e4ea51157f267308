"""What a comparison has found, and what an independent configuration costs."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from dlhmc.comparison.lineup import Kind
from dlhmc.errors import UserError
from dlhmc.settings import converted
from dlhmc.statistics.quantity import NOTHING, Quantity, largest, median, ratio

Status = Literal["measured", "less precise", "lower limit"]
NotNegative = Annotated[float, Meta(ge=0, le=1e300)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


@dataclasses.dataclass(frozen=True)
class Mean:
    """An expectation value beside the exact one; no error where nothing in the data tells it."""

    mean: float
    error: NotNegative | None
    exact: float | None = None
    z: float | None = None


@dataclasses.dataclass(frozen=True)
class Entry:
    """One sampler."""

    name: str
    #: of samplers that differ in their settings alone
    group: str
    #: what tells it apart there
    settings: str
    kind: Kind
    status: Status
    leapfrog_steps: Number
    trajectories: Number
    acceptance: NotNegative
    nonfinite: Number
    #: seconds of a trajectory of one chain, turn by turn
    pace: tuple[NotNegative, ...]
    #: τ_int of every scalar observable, in trajectories
    taus: Mapping[str, Quantity]
    moments: Mapping[str, Mean]
    #: what counts work, such as iterations of solvers, a trajectory
    work: Mapping[str, NotNegative]
    #: the file or run of its layers, where it has some
    model: str | None = None
    #: the file with its history
    history: str = ""


#: of an independent configuration
Cost = Callable[[Entry], Quantity]


@dataclasses.dataclass(frozen=True)
class Results:
    """All of a comparison."""

    #: what was sampled
    target: Mapping[str, Any]
    chains: Annotated[int, Meta(ge=1, le=10**7)]
    precision: NotNegative
    seconds: NotNegative
    #: whether a signal ended it
    interrupted: bool
    #: observables by which samplers are judged, the first of them above all
    slow: Annotated[tuple[str, ...], Meta(min_length=1)]
    #: HMC that moved the slow observables at a higher cost than others, in its first turn
    left_out: tuple[str, ...]
    #: why not all numbers can be trusted
    warnings: tuple[str, ...]
    entries: tuple[Entry, ...]

    @property
    def judge(self) -> str:
        """The observable that counts first."""
        return self.slow[0]

    def in_steps(self, entry: Entry) -> Quantity:
        """N_LF·τ_int of the judge."""
        return entry.taus[self.judge].times(entry.leapfrog_steps) if entry.leapfrog_steps else NOTHING

    def in_time(self, entry: Entry) -> Quantity:
        """Seconds of one chain for 2τ_int trajectories: slow observables are then independent."""
        return _seconds(entry, self.slow)

    def in_time_for_all(self, entry: Entry) -> Quantity:
        """The same for the slowest of all observables."""
        return _seconds(entry, entry.taus)

    def in_work(self, name: str) -> Cost:
        """What counts work, in 2τ_int trajectories."""

        def work(entry: Entry) -> Quantity:
            each = entry.work.get(name)
            return _independence(entry, self.slow).times(each) if each else NOTHING

        return work

    @property
    def work(self) -> list[str]:
        """The names of work that any sampler did."""
        names = dict.fromkeys(name for entry in self.entries for name in entry.work)
        return [name for name in names if any(entry.work.get(name) for entry in self.entries)]

    def best(self, kind: Kind, cost: Cost) -> Entry | None:
        """The cheapest of a kind: one that is only limited might be, and counts with its limit."""
        return cheapest((entry for entry in self.entries if entry.kind == kind), cost)

    def gain_in_steps(self, entry: Entry) -> Quantity:
        """How many times as many leapfrog steps the best HMC needs."""
        best = self.best("hmc", self.in_steps)
        return NOTHING if best in (None, entry) else ratio(self.in_steps(best), self.in_steps(entry))

    def gain_in_time(self, entry: Entry) -> Quantity:
        """How many times as long the best HMC takes."""
        return self._gain(entry, self.in_time, lambda one: self.slow)

    def gain_for_all(self, entry: Entry) -> Quantity:
        """The same for the slowest of all observables."""
        return self._gain(entry, self.in_time_for_all, lambda one: one.taus)

    def _gain(self, entry: Entry, cost: Cost, names: Callable[[Entry], Iterable[str]]) -> Quantity:
        """The ratio of both τ_int times that of the speeds, turn by turn: noise of the machine drops out."""
        best = self.best("hmc", cost)
        if best is None or best is entry:
            return NOTHING
        turns = min(len(best.pace), len(entry.pace))
        pace = median(np.array(best.pace[:turns]) / np.array(entry.pace[:turns]))
        taus = [largest(one.taus[name] for name in names(one)) for one in (best, entry)]
        return ratio(*taus).times(pace.value or 0.0, pace.relative)


def cheapest(entries: Iterable[Entry], cost: Cost) -> Entry | None:
    """The one that costs least."""
    known = [entry for entry in entries if cost(entry).figure is not None]
    return min(known, key=lambda entry: cost(entry).figure or 0.0, default=None)


def _independence(entry: Entry, names: Iterable[str]) -> Quantity:
    """2τ_int trajectories of the slowest of some observables."""
    return largest(entry.taus[name] for name in names).times(2.0)


def _seconds(entry: Entry, names: Iterable[str]) -> Quantity:
    pace = median(entry.pace)
    return _independence(entry, names).times(pace.value or 0.0, pace.relative)


def to_json(results: Results) -> bytes:
    """For results.json."""
    return msgspec.json.format(msgspec.json.encode(results), indent=1)


def from_json(table: Mapping[str, Any], where: str) -> Results:
    """What `to_json` gave; UserError for whatever makes no sense."""
    results = converted(table, Results, where)
    if any(not set(results.slow) <= entry.taus.keys() or not entry.pace for entry in results.entries):
        raise UserError(f"{where} is damaged: it does not say how fast its samplers are.")
    return results
