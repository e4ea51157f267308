"""Exact configurations stay exact: the test that every kernel has to pass."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key
from numpy.typing import NDArray
from scipy import stats

from dlhmc.geometry.contract import Field, PerChain, real_dtype
from dlhmc.kernels.contract import Kernel
from dlhmc.targets.contract import known_functions
from dlhmc.testing.checks import evaluate

# Combinations of functions are left out that are no more normal than an event that comes about in fewer chains.
_FEWEST = 10
# Combinations of unit functions with less variance are constant, but for rounding.
_CONSTANT = 1e-8


class Stationarity(NamedTuple):
    """The outcome of `check_stationarity`."""

    #: probability of a deviation as large as the one seen, if the kernel is exact
    p_value: float
    #: deviation from the exact value in standard errors, by name; of an event in a few chains it is not normal
    pulls: dict[str, float]
    #: how far e^{−ΔH} (with the Jacobian, where there is one) is from what it must be on average, in standard errors
    weight_pull: float
    acceptance: float


def check_stationarity(kernel: Kernel, *, steps: int = 10, chains: int = 10_000, seed: int = 0) -> Stationarity:
    """Start many chains in equilibrium, step, and ask whether they are in equilibrium still.

    The chains are independent, so after the last step the means of all functions with known expectation values are
    normal, up to the central limit theorem: Hotelling's T² puts them to one test, with the covariance of the exact
    configurations that the chains started from. An exact kernel fails at level p with probability p, a biased one for
    every p as the number of chains grows. Rare events would spoil this: what comes about in few chains only is not
    normal, nor are certain sums of more common functions, and such combinations are left out.

    In equilibrium a proposal and the way back are seen with probabilities whose ratio is e^{−ΔH}, so that
    ⟨f(ΔH)·e^{−ΔH}⟩ = ⟨f(−ΔH)⟩ for every f. With f = 1 this is ⟨e^{−ΔH}⟩ = 1, a mean that hangs on a few huge weights
    where ΔH is not small. `weight_pull` takes f = e^{−|ΔH|}, whose terms are between −1 and 1, and is normal. Steps of
    one chain are averaged first, as they depend on each other.

    >>> from dlhmc import HMC, Gaussian
    >>> check_stationarity(HMC(Gaussian([1.0, 2.0]), step_size=0.3, steps=5), chains=2000).p_value > 1e-3
    True
    """
    start, run_key = exact_start(kernel, chains, seed)
    x, weight, acceptance = _walk(kernel, start, run_key, jnp.asarray(np.int32(steps)))
    exact = kernel.target.exact()
    values = [evaluate(known_functions, kernel.target, y) for y in (start, x)]
    names = sorted(values[0].keys() & exact.keys())
    means = np.array([[exact[name]] for name in names])
    before, after = (np.stack([np.asarray(v[name], np.float64) for name in names]) for v in values)
    weights = np.asarray(weight, np.float64)
    return Stationarity(
        p_value=p_value_of_means(after - means, before - means),
        pulls=dict(zip(names, _pulls(after, before, means).tolist(), strict=True)),
        weight_pull=_over(weights.mean(), weights.std() / np.sqrt(chains)),
        acceptance=float(np.mean(acceptance)),
    )


def p_value_of_means(sample: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """Of the means of sample[function, chain] being 0, with the covariance of `reference`, by Hotelling's T².

    Functions may depend on each other. Of their principal components, those are left out that are constant in the
    reference, and those with a fourth moment so large that the mean is not normal: 1/p is that of an event with the
    small probability p.
    """
    if not np.isfinite(sample).all():
        return 0.0
    chains = sample.shape[1]
    centred = reference - reference.mean(axis=1, keepdims=True)
    unit = centred.std(axis=1, keepdims=True)
    unit = np.where(unit > 0, unit, 1)
    variances, axes = np.linalg.eigh(np.atleast_2d(np.cov(centred / unit)))
    axes = (axes / np.sqrt(np.maximum(variances, _CONSTANT))) * (variances > _CONSTANT)
    fourth = np.mean((axes.T @ (centred / unit)) ** 4, axis=1)
    axes = axes[:, (fourth > 0) & (fourth < chains / _FEWEST)]
    number = axes.shape[1]
    if number == 0:
        raise ValueError(f"{chains} chains are too few to test any mean")
    t_squared = chains * float(np.sum((axes.T @ (sample / unit).mean(axis=1)) ** 2))
    return float(stats.f.sf(t_squared * (chains - number) / (number * (chains - 1)), number, chains - number))


def _pulls(after: NDArray[np.float64], before: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each mean by itself, functions that are 0 or 1 with their exact variance."""
    binary = np.all(np.isin(np.hstack([before, after]), (0, 1)), axis=1)
    variances = np.where(binary, means[:, 0] * (1 - means[:, 0]), before.var(axis=1))
    errors = np.sqrt(variances / after.shape[1])
    return np.array([_over(*pair) for pair in zip(after.mean(axis=1) - means[:, 0], errors, strict=True)])


def _over(deviation: float, error: float) -> float:
    return float(deviation / error) if error > 0 else 0.0


def exact_start(kernel: Kernel, chains: int, seed: int) -> tuple[Field, Key[Array, ""]]:
    """Independent exact configurations, and a key for what comes after them."""
    draws = kernel.target.exact_draws()
    if draws is None:
        raise ValueError("exactness can be tested for targets with exact draws only")
    start_key, run_key = jax.random.split(jax.random.key(seed))
    return evaluate(draws.draw, start_key, chains, jnp.dtype(jnp.result_type(float))), run_key


def bounded_weight(energy_change: PerChain) -> PerChain:
    """(e^{−ΔH} − 1)·e^{−|ΔH|}, between −1 and 1, with the mean 0 in equilibrium; 0 where ΔH is not finite."""
    size = jnp.abs(energy_change)
    weight = jnp.exp(-(energy_change + size)) - jnp.exp(-size)
    return jnp.where(jnp.isfinite(energy_change), weight, 0)


@eqx.filter_jit
def _walk(kernel: Kernel, x: Field, key: Key[Array, ""], steps: Int[Array, ""]) -> tuple[Field, PerChain, PerChain]:
    """All steps; weight and acceptance averaged over them for each chain."""

    def step(index: Int[Array, ""], carry: tuple) -> tuple:  # type: ignore[type-arg]
        state, weight, acceptance = carry
        state, info = kernel.step(jax.random.fold_in(key, index), state)
        return state, weight + bounded_weight(info.energy_change), acceptance + info.acceptance

    nothing = jnp.zeros(x.shape[-1], real_dtype(x))
    state, weight, acceptance = jax.lax.fori_loop(0, steps, step, (kernel.init(x), nothing, nothing))
    count = steps.astype(real_dtype(x))
    return state.x, weight / count, acceptance / count
