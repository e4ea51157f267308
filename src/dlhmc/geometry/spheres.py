"""Unit vectors: a sphere for each element, x[*element, *vector, chain].

Vectors come last, so that the numbers of an inner product are neighbours. Momenta are tangent vectors.
"""

import math
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from dlhmc.geometry.contract import Field, Geometry, Momentum, PerChain, real_dtype
from dlhmc.numerics import rng, trig

PerElement = Float[Array, "*element 1 chain"]


class Spheres(Geometry):
    """Unit vectors of any shape, such as complex ones as (real, imaginary) × components.

    >>> Spheres((4, 4), (2, 10)).shape
    (4, 4, 2, 10)
    """

    moves_momentum: ClassVar[bool] = True

    sides: tuple[int, ...] = eqx.field(static=True)
    vector: tuple[int, ...] = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """A vector for each element."""
        return (*self.sides, *self.vector)

    @property
    def elements(self) -> tuple[int, ...]:
        """Vectors."""
        return self.sides

    @property
    def trailing(self) -> int:
        return len(self.vector)

    @property
    def dimension(self) -> int:
        """One less than that of the space, for each vector."""
        return math.prod(self.sides) * (math.prod(self.vector) - 1)

    def resized(self, elements: tuple[int, ...]) -> "Spheres":
        """As many vectors."""
        return type(self)(elements, self.vector)

    def dot(self, a: Field, b: Field) -> PerElement:
        """The inner product of each two vectors, with axes of length 1 in place of theirs."""
        first = len(self.sides)
        return jnp.sum(a * b, axis=tuple(range(first, first + len(self.vector))), keepdims=True)

    def tangent(self, x: Field, v: Field) -> Momentum:
        """The part of v that is orthogonal to x."""
        return v - self.dot(x, v) * x

    def origin(self, chains: int, dtype: jnp.dtype) -> Field:
        """All vectors along the first component."""
        flat = jnp.zeros((*self.sides, math.prod(self.vector), chains), dtype)
        return flat.at[..., 0, :].set(1).reshape(*self.shape, chains)

    def scatter(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Field:
        return self.project(super().scatter(key, chains, dtype))

    @rng.by_chain
    def momentum(self, key: Key[Array, ""], x: Field) -> Momentum:
        """Standard normal in each tangent space."""
        return self.tangent(x, rng.normal(key, x.shape, real_dtype(x)))

    def drift(self, x: Field, v: Momentum, displacement: Momentum) -> tuple[Field, Momentum]:
        """x cos θ + d sin θ/θ with θ = |d|; v is transported parallel to itself along this arc."""
        square, along = self.dot(displacement, displacement), self.dot(displacement, v)
        # Written out: XLA would compute them again for each component.
        cosine, ratio, versine, along = jax.lax.optimization_barrier((*_sines(square), along))
        return cosine * x + ratio * displacement, v - along * (versine * displacement + ratio * x)

    def difference(self, start: Field, end: Field) -> Momentum:
        """The shorter arc from start to end."""
        cosine, across = self.dot(start, end), self.tangent(start, end)
        square = self.dot(across, across)
        small = square < jnp.finfo(square.dtype).tiny
        sine = jnp.sqrt(jnp.where(small, 1, square))
        return jnp.where(small, 1, jnp.arctan2(sine, cosine) / sine) * across

    def project(self, x: Field) -> Field:
        """Of length 1."""
        return x / jnp.sqrt(self.dot(x, x))

    def features(self, x: Field) -> Float[Array, "feature *element chain"]:
        """The components."""
        flat = x.reshape(*self.sides, -1, x.shape[-1])
        return jnp.moveaxis(flat, -2, 0)

    def gradient(self, function: Callable[[Field], PerChain], x: Field) -> Momentum:
        """The tangent part of the derivative by all components."""
        return self.tangent(x, super().gradient(function, x))


def _sines(square: Array) -> tuple[Array, Array, Array]:
    """cos θ, sin θ/θ and (1 − cos θ)/θ² of θ², smooth at 0."""
    small = square < 1e-3
    angle = jnp.sqrt(jnp.where(small, 1, square))
    sine, half = trig.sin(angle), trig.sin(0.5 * angle)
    ratio = jnp.where(small, 1 - square / 6 * (1 - square / 20 * (1 - square / 42)), sine / angle)
    versine = jnp.where(small, 0.5 - square / 24 * (1 - square / 30 * (1 - square / 56)), 2 * (half / angle) ** 2)
    return 1 - square * versine, ratio, versine
