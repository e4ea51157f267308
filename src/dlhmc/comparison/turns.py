"""Samplers in turn, in one process: noise of the machine disturbs all alike."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from dlhmc.comparison.lineup import Competitor
from dlhmc.geometry.contract import Field
from dlhmc.numerics.leaves import integer, leaf
from dlhmc.run.engine import Schedule, advance, begin_at, told
from dlhmc.statistics import integrated_autocorrelation_time
from dlhmc.statistics.autocorrelation import AutocorrelationTime
from dlhmc.statistics.quantity import median

_TURN_SECONDS = 0.25
# What became of proposals.
_FATES = ("accepted", "nonfinite")
# Records of a call wait in memory until it is done.
_CAPACITY = 512
_FIRST_LOOK, _GROWTH_BETWEEN_LOOKS = 32, 1.15
# Speeds are medians over rounds: enough of them for a median.
_FEWEST_ROUNDS = 8
#: of the time of a comparison, for choosing among HMC
SHARE_OF_SELECTION = 0.2
_FINALISTS = 2


class Sampler:
    """A competitor at work: its chains, their history, and the time that they took."""

    def __init__(
        self,
        competitor: Competitor,
        slow: Mapping[str, float | None],
        scalars: Sequence[str],
        x: Field,
        seed: int,
    ) -> None:
        self.competitor = competitor
        #: observables by which it is judged with their exact means, and all that are numbers
        self.slow, self.scalars = slow, scalars
        #: seconds of a trajectory of all chains, for each turn
        self.pace: list[float] = []
        self.taus: dict[str, AutocorrelationTime] = {}
        self._carry = begin_at(competitor.kernel, x)
        #: records that count work
        self.work = [name for name, counts in told(competitor.kernel, self._carry.state).items() if counts]
        self._schedule = Schedule(integer(seed, np.uint32), integer(0), leaf(1.0))
        self._chunks: dict[str, list[NDArray[Any]]] = {}
        self.rows = 0
        self._rate = 0.0
        self._next_look = float(_FIRST_LOOK)

    @property
    def chains(self) -> int:
        """Side by side."""
        return int(self._carry.state.x.shape[-1])

    @property
    def records(self) -> dict[str, NDArray[Any]]:
        """All rows so far, [trajectory, …, chain]."""
        self._chunks = {name: [np.concatenate(chunks)] for name, chunks in self._chunks.items()}
        return {name: chunks[0] for name, chunks in self._chunks.items()}

    def compile(self) -> None:
        """Before the clock starts; a few trajectories tell how many make a turn."""
        self._advance(0)
        count, elapsed = 1, self._advance(1)
        while elapsed < _TURN_SECONDS / 10 and count < _CAPACITY:
            count = min(4 * count, _CAPACITY)
            elapsed = self._advance(count)
        self._rate = count / elapsed

    def take_turn(self, seconds: float = _TURN_SECONDS) -> None:
        """Run for about this long."""
        used, count = 0.0, 0
        while used < 0.8 * seconds:
            chunk = max(1, min(_CAPACITY, round(self._rate * (seconds - used))))
            used += self._advance(chunk)
            count += chunk
            self._rate = count / used
        self.pace.append(used / count)

    def _advance(self, count: int) -> float:
        started = time.perf_counter()
        numbers = integer(self.rows), integer(count)
        step = advance(self.competitor.kernel, self._schedule, self._carry, *numbers, _CAPACITY, False)
        self._carry, buffers = jax.block_until_ready(step)
        elapsed = time.perf_counter() - started
        for name in (*self.scalars, *_FATES, *self.work):
            self._chunks.setdefault(name, []).append(np.asarray(buffers[name])[:count])
        self.rows += count
        return elapsed

    def look(self, variance: Callable[[str], float | None], *, now: bool = False) -> None:
        """Estimate autocorrelation times of what is slow, if there is enough new."""
        if not now and self.rows < self._next_look:
            return
        self._next_look = self.rows * _GROWTH_BETWEEN_LOOKS
        records = self.records
        for name, mean in self.slow.items():
            self.taus[name] = integrated_autocorrelation_time(records[name], mean, variance=variance(name))

    def is_known_to(self, precision: float) -> bool:
        """Whether all autocorrelation times are known to a relative precision."""
        known = [tau.resolved and tau.error <= precision * tau.value for tau in self.taus.values()]
        return bool(known) and all(known)

    def costs_of_a_jump(self) -> NDArray[np.float64]:
        """Leapfrog steps and seconds for each unit of ⟨Δ²⟩, which falls as 1/τ: [observable, currency]."""
        squared = np.array([np.mean(np.diff(self.records[name].astype(float), axis=0) ** 2) for name in self.slow])
        currencies = np.array([self.competitor.kernel.leapfrog_steps, median(self.pace).figure])
        with np.errstate(divide="ignore"):
            costs: NDArray[np.float64] = currencies / squared[:, None]
        return costs


def select(samplers: Sequence[Sampler], budget: float, stop: Callable[[], bool]) -> list[Sampler]:
    """Of all HMC the few that move slow observables at least cost, after a short turn each; and all others."""
    hmc = [sampler for sampler in samplers if sampler.competitor.kind == "hmc"]
    if len(hmc) <= _FINALISTS:
        return list(samplers)
    for sampler in hmc:
        if stop():
            return list(samplers)
        sampler.take_turn(SHARE_OF_SELECTION * budget / len(hmc))
    best = set()
    for currency in range(2):
        # What has not jumped at all costs infinitely much; then the next observable decides.
        order = sorted(range(len(hmc)), key=lambda index: tuple(hmc[index].costs_of_a_jump()[:, currency]))
        best |= set(order[:_FINALISTS])
    for sampler in hmc:
        sampler.pace.clear()  # speeds are compared turn by turn, and others have had none yet
    left_out = [sampler for index, sampler in enumerate(hmc) if index not in best]
    return [sampler for sampler in samplers if sampler not in left_out]


def take_turns(
    samplers: Sequence[Sampler],
    precision: float,
    budget: float,
    variance: Callable[[str], float | None],
    stop: Callable[[], bool],
    progress: Callable[[float, str], None],
) -> float:
    """Equal times for all, until all are known to the precision or the time is over; returns the seconds it took."""
    started, rounds = time.monotonic(), 0
    while not stop():
        for sampler in samplers:
            sampler.take_turn()
            sampler.look(variance)
        rounds += 1
        elapsed, known = time.monotonic() - started, sum(sampler.is_known_to(precision) for sampler in samplers)
        progress(elapsed, f"{known} of {len(samplers)} measured")
        if rounds >= _FEWEST_ROUNDS and (known == len(samplers) or elapsed > budget):
            break
    for sampler in samplers:
        sampler.look(variance, now=True)
    return time.monotonic() - started
