"""Fair timing on a shared machine: all contestants in turn, several rounds over, and the fastest round of each."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

K = TypeVar("K")


class Contestant(NamedTuple):
    """A function to time, and how many steps one call does."""

    call: Callable[[], Any]
    steps: int


def fastest(
    contestants: dict[K, Contestant], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[K, float]:
    """Seconds of a step in the fastest of several rounds, in each of which all take their turn."""
    for contestant in contestants.values():
        jax.block_until_ready(contestant.call())  # compile, warm the caches
    best = dict.fromkeys(contestants, np.inf)
    for _ in range(rounds):
        for name, contestant in contestants.items():
            started = clock()
            jax.block_until_ready(contestant.call())
            best[name] = min(best[name], (clock() - started) / contestant.steps)
    return best
