"""Expectation values without a Markov chain: exact draws of the gauge theory, weighted by the fermion determinant."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dlhmc.geometry.contract import Field, PerChain
from dlhmc.statistics import Estimate
from dlhmc.targets.contract import Target, known_functions
from dlhmc.theories.gauge.fermions import log_weight, quenched

_BATCH = 1000


class Reweighted(NamedTuple):
    """Means, and which fraction of the draws they are worth."""

    means: dict[str, Estimate]
    #: (Σw)²/(N Σw²): errors are to be trusted where N times this is large
    effective_fraction: float


def reweighted(
    target: Target,
    draws: int = 20_000,
    seed: int = 0,
    functions: Callable[[Field], dict[str, PerChain]] | None = None,
) -> Reweighted:
    """Means ⟨f det^{N_f}⟩/⟨det^{N_f}⟩ over exact draws of the gauge theory, for lattices on which it varies little.

    Args:
        target: with fermions.
        draws: independent configurations.
        seed: of the draws.
        functions: what to average; the moments of the target if not given.

    >>> from dlhmc import Schwinger
    >>> target = Schwinger((2, 2), beta=1.0, kappa=0.05)
    >>> found = reweighted(target, draws=2000)
    >>> found.effective_fraction > 0.9
    True
    """
    sampler = quenched(target).exact_draws()
    if sampler is None:
        raise TypeError("there are no exact draws of this gauge action")
    measured = functions or functools.partial(known_functions, target)
    dtype = jnp.dtype(jnp.result_type(float))

    @eqx.filter_jit
    def batch(key: jax.Array) -> tuple[PerChain, dict[str, PerChain]]:
        x = sampler.draw(key, min(_BATCH, draws), dtype)
        return log_weight(target, x), measured(x)

    logarithms: list[NDArray[np.float64]] = []
    values: dict[str, list[NDArray[np.float64]]] = {}
    for key in jax.random.split(jax.random.key(seed), math.ceil(draws / _BATCH)):
        logarithm, found = batch(key)
        logarithms.append(np.asarray(logarithm, np.float64))
        for name, value in found.items():
            values.setdefault(name, []).append(np.asarray(value, np.float64))
    exponents = np.concatenate(logarithms)
    weights = np.exp(exponents - exponents.max())
    weights /= weights.mean()
    means = {name: _mean(np.concatenate(parts), weights) for name, parts in values.items()}
    return Reweighted(means, 1 / float(np.mean(weights**2)))


def _mean(values: NDArray[np.float64], weights: NDArray[np.float64]) -> Estimate:
    """A ratio of means, with the error of its linear part."""
    mean = float(np.mean(weights * values))
    error = float(np.std(weights * (values - mean))) / math.sqrt(len(values))
    return Estimate(mean, error)
