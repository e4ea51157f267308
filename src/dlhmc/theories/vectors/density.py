"""Densities in flat space, x[dim, chain]: the toy problems of the L2HMC paper, a funnel, and a user's own.

The toys are those of Levy, Hoffman, Sohl-Dickstein, "Generalizing Hamiltonian Monte Carlo with neural networks"
(ICLR 2018): each is hard in one way only, and each is solved exactly here, for every annealing factor γ.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

from dlhmc.actions.contract import Action
from dlhmc.geometry.contract import PerChain
from dlhmc.geometry.flat import FlatSpace
from dlhmc.names import Start
from dlhmc.numerics import rng
from dlhmc.targets.contract import ExactDraws, Known, Moment, Symmetry, Target

Points = Float[Array, "dim chain"]
Gamma = Float[Array, ""]
Host = NDArray[np.float64]

# In standard deviations, where integrals are cut off: e^{−12²/2} = 5e-32.
REACH = 12.0
# Coordinates that are looked at one by one.
WATCHED = 3


class Density(Action):
    """−log p(x) of vectors, with what is known of it, for every annealing factor γ."""

    dim: eqx.AbstractVar[int]

    @abstractmethod
    def width(self) -> Float[Array, ""]:
        """The largest standard deviation, or a guess at it."""

    @abstractmethod
    def observe(self, x: Points) -> dict[str, PerChain]:
        """What is measured."""

    def centre(self, chains: int, dtype: jnp.dtype) -> Points:
        """A cold start."""
        return jnp.zeros((self.dim, chains), dtype)

    def exact(self, gamma: float) -> dict[str, float]:
        """Exact values of moments and functions."""
        return {}

    def functions(self, x: Points) -> dict[str, PerChain]:
        """What tests of exactness look at beside the moments."""
        return {}

    def symmetries(self) -> dict[str, Symmetry]:
        return {}


class Drawable(Density):
    """One that can be drawn from."""

    @abstractmethod
    def draw(self, key: Key[Array, ""], gamma: Gamma, chains: int, dtype: jnp.dtype) -> Points:
        """Independent points of p^γ."""


class Draws(eqx.Module):
    """Independent points."""

    density: Drawable
    gamma: Gamma

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Points:
        return self.density.draw(key, self.gamma.astype(dtype), chains, dtype)


class _Observables(eqx.Module):
    density: Density

    def __call__(self, x: Points) -> dict[str, PerChain]:
        return self.density.observe(x)


def of_density(density: Density, known: Known, gamma: ArrayLike = 1.0) -> Target:
    """The target of p^γ."""
    return Target(FlatSpace((density.dim,)), [density], _Observables(density), known, gamma)


def known_of(moments: Mapping[str, Moment], slow: Sequence[str], **more: Any) -> Known:
    """What densities know of themselves, with the exact means of slow observables where there are any."""
    return Known(
        moments=moments,
        slow=lambda target: {name: target.exact().get(name) for name in slow},
        symmetries=lambda target: _density(target).symmetries(),
        functions=lambda target, x: _density(target).functions(x),
        exact=lambda target: _density(target).exact(float(target.gamma)) if len(target.actions) == 1 else {},
        exact_draws=_draws,
        start=_start,
        **more,
    )


def _density(target: Target) -> Density:
    density = target.actions[0]
    if not isinstance(density, Density):
        raise TypeError(f"{type(density).__name__} is no density in flat space")
    return density


def _draws(target: Target) -> ExactDraws | None:
    density = _density(target)
    return Draws(density, target.gamma) if isinstance(density, Drawable) and len(target.actions) == 1 else None


def _start(target: Target, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Points:
    """Hot: an isotropic Gaussian as wide as the density at its widest; cold: its centre."""
    density = _density(target)
    if kind == "cold":
        return density.centre(chains, dtype)
    return density.width().astype(dtype) * rng.normal(key, (density.dim, chains), dtype)


# Parameters.


def host(leaf: Array) -> Host:
    """A leaf as numbers on the host."""
    return np.asarray(leaf, np.float64)


def positive(name: str, value: ArrayLike | Sequence[float], *, ndim: int = 0, least: float = 0.0) -> Array:
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


def quadrature(low: float, high: float, width: float) -> tuple[Host, Host]:
    """Nodes and weights of Gauss–Legendre in panels of at most this width."""
    nodes, weights = leggauss(16)
    edges = np.linspace(low, high, math.ceil((high - low) / width) + 1)
    centre, half = (edges[1:] + edges[:-1])[:, None] / 2, np.diff(edges)[:, None] / 2
    return (centre + half * nodes).ravel(), (half * weights).ravel()


def mean_functional(x: Host, weight: Host, log_density: Host) -> Callable[[Callable[[Host], Host]], float]:
    """The functional f ↦ ∫ f p / ∫ p, with p known up to a factor at the nodes x."""
    probability = weight * np.exp(log_density - log_density.max())
    probability /= probability.sum()
    return lambda f: float(f(x) @ probability)
