"""The exact rank test of reversible kernels, and p-values of many tests."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key
from numpy.typing import NDArray
from scipy import stats

from dlhmc.geometry.contract import Field
from dlhmc.kernels.contract import Kernel
from dlhmc.targets.contract import known_functions
from dlhmc.testing.stationarity import exact_start


class Ranks(NamedTuple):
    """The outcome of `check_ranks`."""

    #: probability of ranks as uneven as these, if the kernel is exact: the smallest over all statistics, times
    #: their number
    p_value: float
    #: the same for each statistic alone
    p_values: dict[str, float]
    #: how often each rank came about, by name of the statistic
    counts: dict[str, NDArray[np.int64]]


def check_ranks(kernel: Kernel, *, steps: int = 9, chains: int = 10_001, seed: int = 0) -> Ranks:
    """The exact rank test of a reversible kernel (Gandy and Scott, arXiv:2001.06465, algorithm 3).

    An exact configuration is put at a random place of a short history: `steps` steps of the kernel, some of them
    before it and the others after it. Because the kernel is reversible, the steps before it are made by the kernel
    itself, away from it. If the kernel is exact, all places of the history are alike, and the rank of any statistic
    there among its values in the whole history is exactly uniform, without any expectation value being known and
    without the central limit theorem. Equal values, as of an integer, are ranked at random. Every chain has random
    numbers of its own: what a kernel draws for all chains together (the place of a defect, a symmetry) would make
    their ranks depend on each other.

    Kernels that are not reversible (one kernel after another) are put to it part by part.

    >>> from dlhmc import HMC, Gaussian
    >>> check_ranks(HMC(Gaussian([1.0, 2.0]), step_size=0.3, steps=5), chains=1001).p_value > 1e-3
    True
    """
    x, run_key = exact_start(kernel, chains, seed)
    generator = np.random.default_rng(seed)
    before = generator.integers(0, steps + 1, chains)
    length = jnp.asarray(np.int32(steps))
    below, equal = _compare(kernel, x, run_key, length, jnp.asarray(before.astype(np.int32)))
    counts, p_values = {}, {}
    for name in sorted(below):
        ranks = np.asarray(below[name]) + generator.integers(0, np.asarray(equal[name]) + 1)
        counts[name] = np.bincount(ranks, minlength=steps + 1)
        p_values[name] = float(stats.chisquare(counts[name]).pvalue)
    return Ranks(min(1.0, len(p_values) * min(p_values.values())), p_values, counts)


@eqx.filter_jit
def _compare(
    kernel: Kernel, x: Field, key: Key[Array, ""], steps: Int[Array, ""], before: Int[Array, " chain"]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """How many of the other values of the history are below that at x, and how many equal; `before` come before x."""
    reference = known_functions(kernel.target, x)
    nothing = {name: jnp.zeros(x.shape[-1], jnp.int32) for name in reference}
    keys = jax.random.split(key, x.shape[-1])

    @functools.partial(jax.vmap, in_axes=(0, -1), out_axes=-1)
    def alone(key: Key[Array, ""], state: Any) -> Any:
        state, _ = kernel.step(key, jax.tree.map(lambda array: array[..., None], state))
        return jax.tree.map(lambda array: array[..., 0], state)

    def step(index: Int[Array, ""], carry: tuple) -> tuple:  # type: ignore[type-arg]
        state, below, equal = carry
        # All steps of the one side have been made: begin anew, for the other side.
        state = jax.tree.map(lambda now, first: jnp.where(index == before, first, now), state, kernel.init(x))
        state = alone(jax.vmap(jax.random.fold_in, (0, None))(keys, index), state)
        values = known_functions(kernel.target, state.x)
        for name in reference:
            # A chain that stays, or comes back, has the same value, but perhaps rounded in another way.
            rounding = 100 * jnp.finfo(x.dtype).eps * (1 + jnp.abs(reference[name]))
            difference = values[name] - reference[name]
            below[name] += (difference < -rounding).astype(jnp.int32)
            equal[name] += (jnp.abs(difference) <= rounding).astype(jnp.int32)
        return state, below, equal

    _, below, equal = jax.lax.fori_loop(0, steps, step, (kernel.init(x), nothing, nothing))
    return below, equal


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for their number: of tests that are all passed, one is below p with probability p at most.

    S. Holm, Scand. J. Statist. 6 (1979) 65.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    weighted = np.asarray(p_values)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(1, np.maximum.accumulate(weighted))
    return [float(p) for p in adjusted]
