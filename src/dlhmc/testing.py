"""Tests of exactness for any kernel on any target with exact draws, and checks of objects of one's own."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key
from numpy.typing import NDArray
from scipy import stats

from dlhmc.conformance import (
    Checked,
    ConformanceError,
    check_kernel,
    check_loss,
    check_network,
    check_observable,
    check_rule,
    check_schedule,
    check_target,
    check_trajectory,
)
from dlhmc.kernels.contract import Kernel, State
from dlhmc.targets.contract import ExactDraws, Field, PerChain, Target

__all__ = [
    "Checked",
    "ConformanceError",
    "Stationarity",
    "check_kernel",
    "check_loss",
    "check_network",
    "check_observable",
    "check_rule",
    "check_schedule",
    "check_stationarity",
    "check_target",
    "check_trajectory",
]


class Stationarity(NamedTuple):
    """The outcome of `check_stationarity`."""

    #: probability of a deviation as large as the one seen, if the kernel is exact
    p_value: float
    #: deviation from the exact value in standard errors, by name
    pulls: dict[str, float]
    #: ⟨e^{−ΔH}⟩ (with the Jacobian, where there is one) minus 1, in standard errors
    weight_pull: float
    acceptance: float


def check_stationarity(kernel: Kernel, *, steps: int = 10, chains: int = 10_000, seed: int = 0) -> Stationarity:
    """Start many chains in equilibrium, step, and ask whether they are in equilibrium still.

    The chains are independent, so after the last step a χ² test over all known expectation values is exact up to
    the central limit theorem: an exact kernel fails at level p with probability p, and a biased one fails for
    every p as the number of chains grows.

    >>> from dlhmc.kernels import HMC
    >>> from dlhmc.targets import U1
    >>> check_stationarity(HMC(U1((4, 4), 2.0), step_size=0.3, steps=5), chains=2000).p_value > 1e-3
    True
    """
    draws = kernel.target.exact_draws()
    if draws is None:
        raise ValueError("stationarity can be checked for targets with exact draws only")
    dtype = jnp.dtype(jnp.result_type(float))
    start_key, run_key = jax.random.split(jax.random.key(seed))
    x = _draw(draws, start_key, chains, dtype)
    x, weight, acceptance = _walk(kernel, x, run_key, jnp.asarray(np.int32(steps)))
    exact = kernel.target.exact()
    values = _evaluate(kernel.target, x)
    names = sorted(values.keys() & exact.keys())
    sample = np.stack([np.asarray(values[name], np.float64) - exact[name] for name in names])
    varies = sample.std(axis=1) > 0  # on tiny lattices some charges never occur
    names, sample = [name for name, keep in zip(names, varies, strict=True) if keep], sample[varies]
    mean = sample.mean(axis=1)
    covariance = _covariance(sample, np.array([exact[name] for name in names])) / chains
    chi_squared = float(mean @ np.linalg.pinv(covariance, rcond=1e-10, hermitian=True) @ mean)
    freedom = int(np.linalg.matrix_rank(covariance, rtol=1e-10, hermitian=True))
    weights = np.asarray(weight, np.float64)
    spread = weights.std() / np.sqrt(chains)
    return Stationarity(
        p_value=float(stats.chi2.sf(chi_squared, freedom)),
        pulls=dict(zip(names, (mean / np.sqrt(np.diag(covariance))).tolist(), strict=True)),
        weight_pull=float((weights.mean() - 1) / spread) if spread > 0 else 0.0,
        acceptance=float(np.mean(acceptance)),
    )


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
    without the central limit theorem. Equal values, as of a charge, are ranked at random. Every chain has random
    numbers of its own: what a kernel draws for all chains together (the place of a defect, a symmetry) would make
    their ranks depend on each other.

    Kernels that are not reversible (one kernel after another) are put to it part by part.

    >>> from dlhmc.kernels import HMC
    >>> from dlhmc.targets import U1
    >>> check_ranks(HMC(U1((4, 4), 2.0), step_size=0.3, steps=5), chains=1001).p_value > 1e-3
    True
    """
    draws = kernel.target.exact_draws()
    if draws is None:
        raise ValueError("ranks can be checked for targets with exact draws only")
    dtype = jnp.dtype(jnp.result_type(float))
    start_key, run_key = jax.random.split(jax.random.key(seed))
    x = _draw(draws, start_key, chains, dtype)
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


@eqx.filter_jit
def _compare(
    kernel: Kernel, x: Field, key: Key[Array, ""], steps: Int[Array, ""], before: Int[Array, " chain"]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """How many of the other values of the history are below that at x, and how many equal; `before` come before x."""
    reference = kernel.target.test_functions(x)
    nothing = {name: jnp.zeros(x.shape[-1], jnp.int32) for name in reference}
    keys = jax.random.split(key, x.shape[-1])

    @functools.partial(jax.vmap, in_axes=(0, -1), out_axes=-1)
    def alone(key: Key[Array, ""], state: State) -> State:
        state, _ = kernel.step(key, jax.tree.map(lambda array: array[..., None], state))
        return jax.tree.map(lambda array: array[..., 0], state)

    def step(index: Int[Array, ""], carry: tuple) -> tuple:  # type: ignore[type-arg]
        state, below, equal = carry
        # All steps of the one side have been made: begin anew, for the other side.
        state = jax.tree.map(lambda now, first: jnp.where(index == before, first, now), state, kernel.init(x))
        state = alone(jax.vmap(jax.random.fold_in, (0, None))(keys, index), state)
        values = kernel.target.test_functions(state.x)
        for name in reference:
            # A chain that stays, or comes back, has the same value, but perhaps rounded in another way.
            rounding = 100 * jnp.finfo(x.dtype).eps * (1 + jnp.abs(reference[name]))
            difference = values[name] - reference[name]
            below[name] += (difference < -rounding).astype(jnp.int32)
            equal[name] += (jnp.abs(difference) <= rounding).astype(jnp.int32)
        return state, below, equal

    _, below, equal = jax.lax.fori_loop(0, steps, step, (kernel.init(x), nothing, nothing))
    return below, equal


def _covariance(sample: NDArray[np.float64], exact: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of deviations [function, chain] from their exact means; functions that are 0 or 1 get their exact variance.

    A rare charge that happens to be rarer still in the sample would have too small a variance there, and raise a
    false alarm.
    """
    covariance = np.atleast_2d(np.cov(sample))
    values = sample + exact[:, None]
    binary = np.all(np.isclose(values, 0) | np.isclose(values, 1), axis=1)
    variance = np.where(binary, exact * (1 - exact), np.diag(covariance))
    rescale = np.sqrt(variance / np.diag(covariance))
    return np.asarray(rescale[:, None] * covariance * rescale)


@eqx.filter_jit
def _draw(draws: ExactDraws, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Field:
    return draws.draw(key, chains, dtype)


@eqx.filter_jit
def _evaluate(target: Target, x: Field) -> dict[str, PerChain]:
    return target.test_functions(x)


@eqx.filter_jit
def _walk(kernel: Kernel, x: Field, key: Key[Array, ""], steps: Int[Array, ""]) -> tuple[Field, PerChain, PerChain]:
    """All steps; e^{−ΔH} and the acceptance averaged over them for each chain."""

    def step(index: Int[Array, ""], carry: tuple) -> tuple:  # type: ignore[type-arg]
        state, weight, acceptance = carry
        state, info = kernel.step(jax.random.fold_in(key, index), state)
        return state, weight + jnp.exp(-info.energy_change), acceptance + info.acceptance

    nothing = jnp.zeros(x.shape[-1], x.dtype)
    state, weight, acceptance = jax.lax.fori_loop(0, steps, step, (kernel.init(x), nothing, nothing))
    count = steps.astype(x.dtype)
    return state.x, weight / count, acceptance / count
