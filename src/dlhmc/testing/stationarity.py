"""Exact configurations stay exact: the test that every kernel has to pass."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key
from numpy.typing import NDArray
from scipy import stats

from dlhmc.kernels.contract import Kernel
from dlhmc.targets.contract import ExactDraws, Field, PerChain, Target


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
    >>> from dlhmc.theories.u1.action import U1
    >>> check_stationarity(HMC(U1((4, 4), 2.0), step_size=0.3, steps=5), chains=2000).p_value > 1e-3
    True
    """
    x, run_key = exact_start(kernel, chains, seed)
    x, weight, acceptance = _walk(kernel, x, run_key, jnp.asarray(np.int32(steps)))
    exact = kernel.target.exact()
    values = _evaluate(kernel.target, x)
    names = sorted(values.keys() & exact.keys())
    sample = np.stack([np.asarray(values[name], np.float64) - exact[name] for name in names])
    varies = sample.std(axis=1) > 0  # on tiny lattices some charges never occur
    names, sample = [name for name, keep in zip(names, varies, strict=True) if keep], sample[varies]
    mean = sample.mean(axis=1)
    covariance = covariance_of(sample, np.array([exact[name] for name in names])) / chains
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


def exact_start(kernel: Kernel, chains: int, seed: int) -> tuple[Field, Key[Array, ""]]:
    """Independent exact configurations, and a key for what comes after them."""
    draws = kernel.target.exact_draws()
    if draws is None:
        raise ValueError("exactness can be tested for targets with exact draws only")
    start_key, run_key = jax.random.split(jax.random.key(seed))
    return _draw(draws, start_key, chains, jnp.dtype(jnp.result_type(float))), run_key


def covariance_of(sample: NDArray[np.float64], exact: NDArray[np.float64]) -> NDArray[np.float64]:
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
