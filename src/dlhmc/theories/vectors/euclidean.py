"""Targets in flat space, x[dim, chain]: the toy problems of the L2HMC paper, a funnel, and a user's own density.

The toys are those of Levy, Hoffman, Sohl-Dickstein, "Generalizing Hamiltonian Monte Carlo with neural networks"
(ICLR 2018): each is hard in one way only, and each is solved exactly here, for every annealing factor γ.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike, NDArray

from dlhmc.geometry.flat import FlatSpace
from dlhmc.names import Start
from dlhmc.numerics import rng
from dlhmc.targets.contract import Target

Points = Float[Array, "dim chain"]

# In standard deviations, where integrals are cut off: e^{−12²/2} = 5e-32.
REACH = 12.0
# Coordinates that are looked at one by one.
WATCHED = 3


class Euclidean(Target):
    """p(x) ∝ e^{−γ S(x)} on vectors; γ is an array leaf, as are all parameters."""

    couplings: ClassVar[tuple[str, ...]] = ("gamma",)

    gamma: eqx.AbstractVar[Float[Array, ""]]
    dim: eqx.AbstractVar[int]

    @property
    def geometry(self) -> FlatSpace:
        """Coordinates."""
        return FlatSpace((self.dim,))

    @abstractmethod
    def _spread(self) -> Float[Array, ""]:
        """The largest standard deviation, or a guess at it."""

    def start(self, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Points:
        """Hot: an isotropic Gaussian as wide as the target at its widest; cold: the origin."""
        shape = (*self.shape, chains)
        if kind == "cold":
            return jnp.zeros(shape, dtype)
        return self._spread().astype(dtype) * rng.normal(key, shape, dtype)


# Parameters.


def host(leaf: Array) -> NDArray[np.float64]:
    """A leaf as numbers on the host."""
    return np.asarray(leaf, np.float64)


def positive(name: str, value: ArrayLike, *, ndim: int = 0, least: float = 0.0) -> Array:
    """The value as a leaf; it must be positive unless it is being traced, when nobody knows."""
    leaf = jnp.asarray(value, dtype=jnp.result_type(float))
    if leaf.ndim != ndim or leaf.size == 0:
        raise ValueError(f"{name} must be {'a list of numbers' if ndim else 'a number'}, got {value!r}")
    if not isinstance(leaf, jax.core.Tracer):
        numbers = host(leaf)
        if not (np.isfinite(numbers) & (numbers > 0) & (numbers >= np.float32(least))).all():
            wanted = f"at least {least:g}" if least else "positive"
            raise ValueError(f"{name} must be {wanted} and finite, got {value!r}")
    return leaf


def whole(name: str, value: int, least: int) -> int:
    """A whole number that is large enough."""
    if not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value}")
    return int(value)


# Exact results.


def quadrature(low: float, high: float, width: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of Gauss–Legendre in panels of at most this width."""
    nodes, weights = leggauss(16)
    edges = np.linspace(low, high, math.ceil((high - low) / width) + 1)
    centre, half = (edges[1:] + edges[:-1])[:, None] / 2, np.diff(edges)[:, None] / 2
    return (centre + half * nodes).ravel(), (half * weights).ravel()


def mean_functional(
    x: NDArray[np.float64], weight: NDArray[np.float64], log_density: NDArray[np.float64]
) -> Callable[[Callable[[NDArray[np.float64]], NDArray[np.float64]]], float]:
    """The functional f ↦ ∫ f p / ∫ p, with p known up to a factor at the nodes x."""
    probability = weight * np.exp(log_density - log_density.max())
    probability /= probability.sum()
    return lambda f: float(f(x) @ probability)
