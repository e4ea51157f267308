"""All samplers in turn, in one process, until each is measured: noise of the machine disturbs all alike.

A round gives every sampler that is still running the same time, but at least half of it to learned ones: a trajectory
of large networks may take as long as a hundred of HMC. One whose autocorrelation times are known well enough only takes
short turns from then on, so that its speed is that of the whole race. HMC that costs more than other HMC is dropped:
early on the worse half by what is known of it so far, later what is known to cost more than the best.

The limit of τ_int of a frozen sampler needs the variance of what is frozen. Where the target does not know it, those
that have measured it tell the others.
"""

import math
import time
from collections import Counter
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dlhmc.comparison.contestants import Contestant, Kind
from dlhmc.comparison.streams import Streams
from dlhmc.geometry.contract import Field
from dlhmc.numerics.leaves import integer, leaf
from dlhmc.run.engine import Schedule, advance, begin_at, told
from dlhmc.run.interruption import Interruption
from dlhmc.run.progress import Display
from dlhmc.run.summary import IN_EVERY_SUMMARY
from dlhmc.statistics import (
    AutocorrelationTime,
    Estimate,
    format_uncertainty,
    integrated_autocorrelation_time,
    mean_and_error,
)
from dlhmc.statistics.autocorrelation import ONE_SIDED_SIGMA
from dlhmc.targets.contract import Target

Status = Literal["running", "measured", "dropped"]
_TURN_SECONDS = 0.25
_SHORT_TURN_SECONDS = 0.04
# Speeds are medians over rounds: enough of them for a median.
_ROUNDS_AT_LEAST = 8
# Records of a call wait in memory until it is done.
_CAPACITY = 512
_FIRST_LOOK = 32
_GROWTH_BETWEEN_LOOKS = 1.15
# Successive halving: after these fractions of the budget the worse half of all HMC not yet measured is dropped,
# as long as more than a few are left.
_HALVINGS = (0.1, 0.2, 0.35)
_FINALISTS = 3
# σ² in units of the mean squared change, for a value that is drawn afresh when it changes.
_FORGETFUL = 0.5


class Limits(NamedTuple):
    """Where a number lies."""

    low: float
    high: float


class Runner:
    """A sampler in the race: its chains, what they have shown, and the time they took."""

    def __init__(self, contestant: Contestant, target: Target, x: Field, seed: int) -> None:
        self.contestant = contestant
        self.status: Status = "running"
        observables = scalars(target)
        #: observables by which it is judged, the first one first, with their exact means
        self.slow = {name: mean for name, mean in target.known.slow(target).items() if name in observables}
        self.taus: dict[str, AutocorrelationTime] = {}
        self.streams = Streams(observables, target.known.sector, x.shape[-1])
        self.accepted = self.nonfinite = 0
        self.seconds = 0.0
        self._sector = target.known.sector if target.known.sector in observables else None
        #: σ² of slow observables in units of their squared changes, where the target knows it, or the race has learned
        self._variances = {name: target.known.slow_variance(target, name) for name in self.slow}
        self._given = self._variances.get(target.known.sector or "")
        #: σ² of the sector, where this sampler has measured it
        self.variance: Estimate | None = None
        self._carry = begin_at(contestant.kernel, x)
        figures = told(contestant.kernel, self._carry.state)
        #: figures of the kernel that count work
        self.efforts = [name for name, counts_work in figures.items() if counts_work]
        self._totals = {name: 0.0 for name in figures if name not in IN_EVERY_SUMMARY}
        self._schedule = Schedule(integer(seed, np.uint32), integer(0), leaf(1.0))
        self._rate = 0.0
        #: seconds of a trajectory of all chains, for each round
        self.pace: list[float] = []
        self._next_look = float(_FIRST_LOOK)
        self._last_sector: NDArray[Any] | None = None
        # Of the sector: sums over all jumps, and the smallest of their squares, which is the unit.
        self._squared_jumps = self._fourth_jumps = self.smallest_jump = 0

    @property
    def rows(self) -> int:
        """Trajectories of each chain so far."""
        return self.streams.rows

    @property
    def chains(self) -> int:
        """Chains side by side."""
        return int(self._carry.state.x.shape[-1])

    @property
    def kernel_figures(self) -> dict[str, float]:
        """Means of what the kernel tells of its trajectories, beside acceptance and energies."""
        return {name: total / (self.rows * self.chains) for name, total in self._totals.items()}

    @property
    def seconds_per_trajectory(self) -> Estimate:
        """Of one chain."""
        return _median(np.asarray(self.pace) / self.chains)

    def compile(self) -> None:
        """Before the clock starts; then find out how many trajectories make a turn."""
        self._advance(0)
        count, elapsed = 1, self._advance(1)
        while elapsed < _SHORT_TURN_SECONDS / 2 and count < _CAPACITY:
            count = min(4 * count, _CAPACITY)
            elapsed = self._advance(count)
        self._rate = count / elapsed

    def turn(self, seconds: float) -> None:
        """Run for about this long."""
        used, count = 0.0, 0
        while used < 0.8 * seconds:
            chunk = max(1, min(_CAPACITY, round(self._rate * (seconds - used))))
            used += self._advance(chunk)
            count += chunk
            self._rate = count / used
        self.pace.append(used / count)
        self.seconds += used

    def arguments(self, count: int) -> tuple[Any, ...]:
        """Of the compiled program that makes so many trajectories."""
        numbers = (integer(self.rows), integer(count), _CAPACITY)
        return (self.contestant.kernel, self._schedule, self._carry, *numbers, False)

    def program(self) -> Any:
        """The compiled program."""
        return advance.lower(*self.arguments(0)).compile()  # type: ignore[attr-defined]

    def _advance(self, count: int) -> float:
        started = time.perf_counter()
        self._carry, buffers = jax.block_until_ready(advance(*self.arguments(count)))
        elapsed = time.perf_counter() - started
        self._take_in({name: np.asarray(buffer)[:count] for name, buffer in buffers.items()})
        return elapsed

    def _take_in(self, records: dict[str, NDArray[Any]]) -> None:
        self.streams.extend(records)
        self.accepted += int(records["accepted"].sum(dtype=np.int64))
        self.nonfinite += int(records["nonfinite"].sum(dtype=np.int64))
        for name in self._totals:
            self._totals[name] += float(records[name].sum(dtype=np.float64))
        if self._sector is not None and len(records["accepted"]):
            sectors = records[self._sector].astype(np.int64)
            before = sectors[:1] if self._last_sector is None else self._last_sector
            squares = np.diff(np.concatenate([before, sectors]), axis=0) ** 2
            self._last_sector = sectors[-1:]
            if (jumps := squares[squares > 0]).size:
                self._squared_jumps += int(jumps.sum())
                self._fourth_jumps += int((jumps**2).sum())
                smallest = int(jumps.min())
                self.smallest_jump = min(self.smallest_jump or smallest, smallest)

    def look(self, *, now: bool = False) -> None:
        """Autocorrelation times, as often as the histories have grown by a good part."""
        if self.rows < 2 or (self.rows < self._next_look and not now):
            return
        self._next_look = self.rows * _GROWTH_BETWEEN_LOOKS
        for name, mean in self.slow.items():
            self.taus[name] = integrated_autocorrelation_time(self.streams[name], mean, variance=self._variances[name])
        if self._sector in self.slow and self.taus[self._sector].resolved:
            sectors, mean = self.streams[self._sector].astype(np.float64), self.slow[self._sector]
            self.variance = mean_and_error((sectors - (sectors.mean() if mean is None else mean)) ** 2)

    def learn(self, variance: Estimate) -> None:
        """Take the lower limit (95 %) of σ² of the sector, unless the target knows it and is not contradicted."""
        if self._sector in self.slow:
            margin, first = ONE_SIDED_SIGMA * variance.error, self._variances[self._sector] is None
            contradicted = self._given is None or self._given > variance.value + margin
            self._variances[self._sector] = max(0.0, variance.value - margin) if contradicted else self._given
            self.look(now=first)

    @property
    def resolved(self) -> bool:
        """Whether all autocorrelation times are values, and not only bounds."""
        return bool(self.taus) and all(tau.resolved for tau in self.taus.values())

    def known_to(self, precision: float) -> bool:
        """Whether all autocorrelation times are known to a relative precision."""
        return self.resolved and all(tau.error <= precision * tau.value for tau in self.taus.values())

    def bound(self, name: str) -> float:
        """A lower limit (95 %) of an autocorrelation time."""
        tau = self.taus[name]
        known = name == self._sector and self._variances[name] is not None
        return max(tau.lower_bound, self._from_jumps(ONE_SIDED_SIGMA) if known and not tau.resolved else 0.0)

    def slowest(self) -> Limits:
        """Where the longest autocorrelation time lies."""
        if not self.resolved:
            return Limits(max((self.bound(name) for name in self.taus), default=0.5), math.inf)
        tau = max(self.taus.values(), key=lambda tau: tau.value)
        margin = ONE_SIDED_SIGMA * tau.error
        return Limits(tau.value - margin, tau.value + margin)

    def guess(self) -> float | None:
        """The longest autocorrelation time as far as anything is known of it; None before there is anything."""
        return max((self._guess(name) for name in self.taus), default=None)

    def _guess(self, name: str) -> float:
        tau = self.taus[name]
        if tau.resolved:
            return tau.value
        return max(self.bound(name), self._from_jumps() if name == self._sector else 0.0)

    def _from_jumps(self, sigmas: float = 0.0) -> float:
        """The bound 2σ²/⟨Δ²⟩ − ½ on τ_int of a reversible chain (see `dlhmc.statistics`), which HMC is.

        σ² is in units of the smallest jump. Jumps are counted as rare and independent, their sum of squares as one of a
        compound Poisson process.
        """
        if self._sector is None or self.contestant.kind != "hmc" or self.rows < 2:
            return 0.0
        variance, unit = self._variances.get(self._sector), self.smallest_jump or 1
        steps = (self.rows - 1) * self.chains
        # None seen in n steps still allows three (95 %).
        most = (self._squared_jumps + sigmas * math.sqrt(self._fourth_jumps)) / unit + (3 if sigmas else 1)
        return 2 * (_FORGETFUL if variance is None else variance) * steps / most - 0.5

    def shown_tau(self) -> str:
        """The autocorrelation time that judges the sampler, for the progress line."""
        name = next(iter(self.slow))
        if name not in self.taus:
            return "…"
        tau = self.taus[name]
        return format_uncertainty(tau.value, tau.error) if tau.resolved else f"> {self.bound(name):.0f}"


def relative_pace(one: Runner, other: Runner) -> Estimate:
    """How many times longer a trajectory of one takes than of the other, in the rounds that both have run."""
    shared = min(len(one.pace), len(other.pace))
    return _median(np.asarray(one.pace[:shared]) / np.asarray(other.pace[:shared]))


def _median(values: NDArray[np.float64]) -> Estimate:
    """With its error; unlike a mean, it forgets bursts of noise."""
    middle = float(np.median(values))
    if len(values) < 2:
        return Estimate(middle, middle)  # one round does not tell
    # 1.4826 × the median deviation estimates σ; the error of a median is √(π/2) times that of a mean.
    spread = 1.4826 * float(np.median(np.abs(values - middle)))
    return Estimate(middle, math.sqrt(math.pi / 2 / len(values)) * spread)


def scalars(target: Target) -> tuple[str, ...]:
    """Observables that are one real number for each chain: samplers are judged by no others."""
    field = jax.ShapeDtypeStruct((*target.geometry.shape, 1), target.geometry.dtype(jnp.dtype(jnp.result_type(float))))
    shapes = jax.eval_shape(target.observables, field)
    return tuple(name for name, a in shapes.items() if a.ndim == 1 and not np.issubdtype(a.dtype, np.complexfloating))


def race(runners: list[Runner], precision: float, budget: float, display: Display, interruption: Interruption) -> float:
    """Run until all are measured or dropped, the time is over, or a signal comes; returns the seconds it took."""
    started = time.monotonic()

    def elapsed() -> float:
        return time.monotonic() - started

    def any_running() -> bool:
        return any(runner.status == "running" for runner in runners)

    rounds, halvings = 0, list(_HALVINGS)
    while not interruption and elapsed() < budget and (rounds < _ROUNDS_AT_LEAST or any_running()):
        seconds_of = turns(runners)
        for runner in runners:
            if runner.status == "dropped":
                continue
            # In the first round all take their turn, even if the time is over: each has something to show then.
            if interruption or (rounds and elapsed() > budget):
                break
            runner.turn(seconds_of[runner.contestant.kind] if runner.status == "running" else _SHORT_TURN_SECONDS)
            runner.look()
            if runner.known_to(precision):
                runner.status = "measured"
        rounds += 1
        share_variance(runners)
        if rounds >= _ROUNDS_AT_LEAST:
            drop_the_clearly_worse(runners)
        if halvings and elapsed() > halvings[0] * budget:
            halvings.pop(0)
            drop_the_worse_half(runners)
        display.update(min(int(elapsed()), math.ceil(budget) - 1), _facts(runners))
    seconds = elapsed()
    for runner in runners:
        runner.look(now=True)
    share_variance(runners)
    for runner in runners:
        if not runner.resolved:
            runner.look(now=True)
    return seconds


def turns(runners: list[Runner]) -> dict[Kind, float]:
    """Seconds of a turn of what is still running, by its kind: learned samplers have at least half of a round."""
    running = Counter(runner.contestant.kind for runner in runners if runner.status == "running")
    others = running.total() - running["model"]
    longer = max(1.0, others / max(1, running["model"]))
    return {kind: _TURN_SECONDS * (longer if kind == "model" else 1) for kind in running}


def share_variance(runners: list[Runner]) -> None:
    """Let all learn σ² of the sector from the sampler that knows it best.

    It is in units of the squared changes: where those of samplers differ, of the largest, which makes limits smaller.
    """
    known = [v for runner in runners if (v := runner.variance) is not None and 0 < v.error < math.inf]
    if known:
        best = min(known, key=lambda variance: variance.error / variance.value)
        unit = max(runner.smallest_jump for runner in runners)
        for runner in runners:
            runner.learn(Estimate(best.value / unit, best.error / unit))


def drop_the_clearly_worse(runners: list[Runner]) -> None:
    """Drop each HMC that is known to cost more than another one, in steps and in time."""
    rivals = _hmc(runners)
    best = np.min([_costs(runner, runner.slowest().high) for runner in rivals], axis=0, initial=math.inf)
    for runner in rivals:
        if runner.status == "running" and np.all(_costs(runner, runner.slowest().low) > best):
            runner.status = "dropped"


def drop_the_worse_half(runners: list[Runner]) -> None:
    """Of HMC not yet measured, keep the half that seems to cost less, in steps or in time.

    What nothing is known of yet stays, and so does what seems to cost as much as the last that is kept.
    """
    guesses = [(runner, runner.guess()) for runner in _hmc(runners) if runner.status == "running"]
    judged = [(runner, _costs(runner, guess)) for runner, guess in guesses if guess is not None]
    if len(judged) <= _FINALISTS:
        return
    costs = np.array([cost for _, cost in judged])
    handicaps = (costs / costs.min(axis=0)).min(axis=1)
    last = np.sort(handicaps)[max(_FINALISTS, len(judged) // 2) - 1]
    for (runner, _), handicap in zip(judged, handicaps, strict=True):
        if handicap > last:
            runner.status = "dropped"


def _hmc(runners: list[Runner]) -> list[Runner]:
    return [runner for runner in runners if runner.contestant.kind == "hmc" and runner.pace]


def _costs(runner: Runner, tau: float) -> NDArray[np.float64]:
    """In steps and in time."""
    return tau * np.array([runner.contestant.leapfrog_steps, runner.seconds_per_trajectory.value])


def _facts(runners: list[Runner]) -> str:
    measured = sum(runner.status == "measured" for runner in runners)
    dropped = sum(runner.status == "dropped" for runner in runners)
    running = [runner for runner in runners if runner.status == "running"]
    shown = [f"{runner.contestant.name}: τ {runner.shown_tau()}" for runner in running[:6]]
    more = [f"and {len(running) - 6} more"] if len(running) > 6 else []
    return "  ".join([f"{measured} of {len(runners)} measured, {dropped} dropped", *shown, *more])
