"""What a geometry is: a space of configurations with its momenta, and how one moves there.

A field is x[*component, *element, chain] and a momentum v[*component, *element, chain]: elements (an angle, a link, a
coordinate) move independently of each other, and their components together. Coordinates of a vector and angles have one
component; an SU(2) link has four complex numbers and three momenta. Components of spheres come after their elements.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Inexact, Key

from dlhmc.numerics import rng

Field = Inexact[Array, "*field chain"]
Momentum = Float[Array, "*momentum chain"]
PerChain = Float[Array, " chain"]


class Geometry(eqx.Module):
    """A space with standard normal momenta, K(v) = ½ Σ v²; geodesics are followed by `drift`."""

    #: whether fields are complex numbers; momenta are real
    is_complex: ClassVar[bool] = False
    #: whether `drift` changes the momentum; layers that move by more than the momentum need that it does not
    moves_momentum: ClassVar[bool] = False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one configuration, without the chain axis."""

    @property
    def momentum_shape(self) -> tuple[int, ...]:
        """Shape of the momenta of one configuration."""
        return self.shape

    @property
    def elements(self) -> tuple[int, ...]:
        """Shape of what moves independently: the last axes of fields and momenta, but for `trailing` ones."""
        return self.momentum_shape

    @property
    def trailing(self) -> int:
        """Axes of components after those of elements."""
        return 0

    @property
    def dimension(self) -> int:
        """Of the tangent space of a configuration."""
        return math.prod(self.momentum_shape)

    def to_scale(self, numbers: Float[Array, "*element chain"]) -> Float[Array, "..."]:
        """A number for each element, with axes such that it multiplies tangent vectors."""
        return numbers.reshape(*numbers.shape[:-1], *(1,) * self.trailing, numbers.shape[-1])

    def resized(self, elements: tuple[int, ...]) -> "Geometry":
        """The same space with another number of elements, for those that have any number."""
        raise TypeError(f"{type(self).__name__} has no other sizes")

    def central(self, t: Float[Array, "*element chain"]) -> Momentum | None:
        """Tangent vectors that do not depend on the choice of coordinates, a number for each element; None for none."""
        return None

    def dtype(self, real: jnp.dtype) -> jnp.dtype:
        """The dtype of fields at this precision."""
        return jnp.dtype(np.result_type(real, np.complex64) if self.is_complex else real)

    def origin(self, chains: int, dtype: jnp.dtype) -> Field:
        """The point from which the coordinates count, such as the unit matrix."""
        return jnp.zeros((*self.shape, chains), self.dtype(dtype))

    def scatter(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Field:
        """Points far apart: uniform in a compact space, else normal."""
        return rng.normal(key, (*self.shape, chains), dtype)

    @rng.by_chain
    def momentum(self, key: Key[Array, ""], x: Field) -> Momentum:
        """Momenta v ~ e^{−K(v)} in the tangent spaces at x."""
        return rng.normal(key, (*self.momentum_shape, x.shape[-1]), real_dtype(x))

    def local_kinetic(self, v: Momentum) -> Float[Array, "*sites chain"]:
        """Terms that add up to the kinetic energy K(v) = ½ Σ v²."""
        return 0.5 * v * v

    @abstractmethod
    def drift(self, x: Field, v: Momentum, displacement: Momentum) -> tuple[Field, Momentum]:
        """x moved along the geodesic of a tangent vector, and the momentum that x takes along."""

    def moved(self, x: Field, displacement: Momentum) -> Field:
        """x moved along the geodesic of a tangent vector."""
        return self.drift(x, displacement, displacement)[0]

    @abstractmethod
    def difference(self, start: Field, end: Field) -> Momentum:
        """The shortest tangent vector by which `moved` leads from start to end."""

    def project(self, x: Field) -> Field:
        """The point of the space that x stands for: its canonical coordinates, free of what rounding has added."""
        return x

    @abstractmethod
    def features(self, x: Field) -> Float[Array, "feature *element chain"]:
        """How a network sees x: numbers for each element that are as periodic as it is."""

    @property
    def feature_count(self) -> int:
        """Features of one element."""
        real = jnp.result_type(float)
        return int(jax.eval_shape(self.features, jax.ShapeDtypeStruct((*self.shape, 1), self.dtype(real))).shape[0])

    def gradient(self, function: Callable[[Field], PerChain], x: Field) -> Momentum:
        """The derivative of a function of x along all tangent vectors, by autodiff."""
        nowhere = jnp.zeros((*self.momentum_shape, x.shape[-1]), real_dtype(x))
        return jax.grad(lambda displacement: jnp.sum(function(self.moved(x, displacement))))(nowhere)


def real_dtype(x: Inexact[Array, "..."]) -> jnp.dtype:
    """The precision of real numbers that go with a field."""
    return jnp.dtype(jnp.finfo(x.dtype).dtype)


def sum_sites(terms: Float[Array, "*sites chain"]) -> PerChain:
    """Sum over all axes but the chains.

    As a product with ones, which XLA computes on CPUs in a fifth of the time of a sum over leading axes.
    """
    ones = jnp.ones(terms.shape[:-1], terms.dtype)
    return jnp.tensordot(ones, terms, axes=terms.ndim - 1, precision=jax.lax.Precision.HIGHEST)


def all_finite(x: Field) -> Bool[Array, " chain"]:
    """Whether every number of a configuration is finite."""
    return sum_sites((~jnp.isfinite(x)).astype(real_dtype(x))) == 0
