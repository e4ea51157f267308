"""All samplers in turn, in one process, until each is measured: noise of the machine hits all alike.

A round gives every sampler that is still running the same time. One whose autocorrelation times are known well enough
only takes short turns from then on, so that its speed is that of the whole race. HMC that costs more than other HMC is
dropped: early on the worse half by how often the charge changes, later what is known to cost more than the best.
"""

import math
import time
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dlhmc.comparison.contestants import Contestant
from dlhmc.comparison.streams import Streams
from dlhmc.kernels.tuning import StepSizeTuner
from dlhmc.numerics.leaves import integer
from dlhmc.runs.engine import Carry, Schedule, advance
from dlhmc.runs.interruption import Interruption
from dlhmc.runs.progress import Display
from dlhmc.statistics import AutocorrelationTime, Estimate, format_uncertainty, integrated_autocorrelation_time
from dlhmc.statistics.autocorrelation import ONE_SIDED_SIGMA
from dlhmc.targets.contract import Field, Target

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


class Limits(NamedTuple):
    """Where a number lies."""

    low: float
    high: float


class Runner:
    """A sampler in the race: its chains, what they have shown, and the time they took."""

    def __init__(self, contestant: Contestant, target: Target, x: Field, seed: int) -> None:
        self.contestant = contestant
        self.status: Status = "running"
        self.taus: dict[str, AutocorrelationTime] = {}
        self.streams = Streams(_observables(target, x), target.sector, x.shape[-1])
        self.accepted = self.nonfinite = 0
        self.seconds = 0.0
        self._target = target
        self._variances = {name: target.exact().get(f"{name}_squared") for name in target.slow}
        self._carry = Carry(contestant.kernel.init(x), StepSizeTuner.start(jnp.ones((), x.dtype)))
        zero = integer(0)
        self._schedule = Schedule(integer(seed, np.uint32), zero, jnp.ones((), x.dtype))
        self._rate = 0.0
        #: seconds of a trajectory of all chains, for each round
        self.pace: list[float] = []
        self._next_look = float(_FIRST_LOOK)
        self._last_sector: NDArray[Any] | None = None
        self._squared_jumps = self._fourth_jumps = 0

    @property
    def rows(self) -> int:
        """Trajectories of each chain so far."""
        return self.streams.rows

    @property
    def chains(self) -> int:
        """Chains side by side."""
        return int(self._carry.state.x.shape[-1])

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

    def _advance(self, count: int) -> float:
        numbers = (integer(self.rows), integer(count))
        started = time.perf_counter()
        self._carry, buffers = jax.block_until_ready(
            advance(self.contestant.kernel, self._schedule, self._carry, *numbers, _CAPACITY, False)
        )
        elapsed = time.perf_counter() - started
        self._take_in({name: np.asarray(buffer)[:count] for name, buffer in buffers.items()})
        return elapsed

    def _take_in(self, records: dict[str, NDArray[Any]]) -> None:
        self.streams.extend(records)
        self.accepted += int(records["accepted"].sum(dtype=np.int64))
        self.nonfinite += int(records["nonfinite"].sum(dtype=np.int64))
        if self._target.sector is not None and len(records["accepted"]):
            sectors = records[self._target.sector].astype(np.int64)
            before = sectors[:1] if self._last_sector is None else self._last_sector
            squares = np.diff(np.concatenate([before, sectors]), axis=0) ** 2
            self._squared_jumps += int(squares.sum())
            self._fourth_jumps += int((squares**2).sum())
            self._last_sector = sectors[-1:]

    def look(self, *, now: bool = False) -> None:
        """Autocorrelation times, as often as the histories have grown by a good part."""
        if self.rows < 2 or (self.rows < self._next_look and not now):
            return
        self._next_look = self.rows * _GROWTH_BETWEEN_LOOKS
        for name, mean in self._target.slow.items():
            variance = self._variances[name] if name == self._target.sector else None
            self.taus[name] = integrated_autocorrelation_time(self.streams[name], mean, variance=variance)

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
        jumps = self._from_jumps() if name == self._target.sector and not tau.resolved else 0.0
        return max(tau.lower_bound, jumps)

    def slowest(self) -> Limits:
        """Where the longest autocorrelation time lies."""
        if not self.resolved:
            return Limits(max((self.bound(name) for name in self.taus), default=0.5), math.inf)
        tau = max(self.taus.values(), key=lambda tau: tau.value)
        margin = ONE_SIDED_SIGMA * tau.error
        return Limits(tau.value - margin, tau.value + margin)

    def guess(self) -> float:
        """The longest autocorrelation time, or what the jumps of the charge tell of it as long as it is not known."""
        return max(tau.value for tau in self.taus.values()) if self.resolved else self._from_jumps(sigmas=0.0)

    def _from_jumps(self, sigmas: float = ONE_SIDED_SIGMA) -> float:
        """The bound 2σ²/⟨(ΔQ)²⟩ − ½ on τ_int of a reversible chain (see `dlhmc.statistics`), which HMC is.

        Jumps are counted as rare and independent, their sum of squares as one of a compound Poisson process.
        """
        variance = self._variances.get(self._target.sector or "")
        if variance is None or self.contestant.kind != "hmc" or self.rows < 2:
            return 0.0
        steps = (self.rows - 1) * self.chains
        # None seen in n steps still allows three (95 %).
        most = self._squared_jumps + sigmas * math.sqrt(self._fourth_jumps) + (3 if sigmas else 1)
        return 2 * variance * steps / most - 0.5

    def shown_tau(self) -> str:
        """The autocorrelation time that judges the sampler, for the progress line."""
        name = next(iter(self._target.slow))
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


def _observables(target: Target, x: Field) -> tuple[str, ...]:
    return tuple(jax.eval_shape(target.observables, x))


def race(runners: list[Runner], precision: float, budget: float, display: Display, interruption: Interruption) -> float:
    """Run until all are measured or dropped, the time is over, or a signal comes; returns the seconds it took."""
    started = time.monotonic()

    def elapsed() -> float:
        return time.monotonic() - started

    rounds, halvings = 0, list(_HALVINGS)
    while not interruption and elapsed() < budget and (rounds < _ROUNDS_AT_LEAST or _any_running(runners)):
        for runner in runners:
            if runner.status == "dropped":
                continue
            # In the first round all take their turn, even if the time is over: each has something to show then.
            if interruption or (rounds and elapsed() > budget):
                break
            runner.turn(_TURN_SECONDS if runner.status == "running" else _SHORT_TURN_SECONDS)
            runner.look()
            if runner.known_to(precision):
                runner.status = "measured"
        rounds += 1
        if rounds >= _ROUNDS_AT_LEAST:
            drop_the_clearly_worse(runners)
        if halvings and elapsed() > halvings[0] * budget:
            halvings.pop(0)
            drop_the_worse_half(runners)
        display.update(min(int(elapsed()), math.ceil(budget) - 1), _facts(runners))
    seconds = elapsed()
    for runner in runners:
        runner.look(now=True)
    return seconds


def _any_running(runners: list[Runner]) -> bool:
    return any(runner.status == "running" for runner in runners)


def drop_the_clearly_worse(runners: list[Runner]) -> None:
    """Drop each HMC that is known to cost more than another one, in steps and in time."""
    rivals = _hmc(runners)
    best = np.min([_costs(runner, runner.slowest().high) for runner in rivals], axis=0, initial=math.inf)
    for runner in rivals:
        if runner.status == "running" and np.all(_costs(runner, runner.slowest().low) > best):
            runner.status = "dropped"


def drop_the_worse_half(runners: list[Runner]) -> None:
    """Of HMC not yet measured, keep the half that seems to cost less, in steps or in time."""
    rivals = [runner for runner in _hmc(runners) if runner.status == "running"]
    costs = np.array([_costs(runner, runner.guess()) for runner in rivals])
    if len(rivals) <= _FINALISTS:
        return
    handicap = (costs / costs.min(axis=0)).min(axis=1)
    kept = max(_FINALISTS, len(rivals) // 2)
    for index in np.argsort(handicap)[kept:]:
        rivals[index].status = "dropped"


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
