"""Coordinates that are real numbers, and vectors of them."""

import equinox as eqx
from jaxtyping import Array, Float

from dlhmc.geometry.contract import Field, Geometry, Momentum


class Coordinates(Geometry):
    """A real number for each element, in any shape; to move is to add."""

    sides: tuple[int, ...] = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """Coordinates."""
        return self.sides

    def resized(self, elements: tuple[int, ...]) -> "Coordinates":
        """As many coordinates."""
        return type(self)(elements)

    def central(self, t: Float[Array, "*element chain"]) -> Momentum:
        """The numbers."""
        return t

    def drift(self, x: Field, v: Momentum, displacement: Momentum) -> tuple[Field, Momentum]:
        """x + displacement, which is not projected."""
        return x + displacement, v


class FlatSpace(Coordinates):
    """Vectors.

    >>> FlatSpace((2, 3)).elements
    (2, 3)
    """

    def difference(self, start: Field, end: Field) -> Momentum:
        """End − start."""
        return end - start

    def features(self, x: Field) -> Float[Array, "1 *element chain"]:
        """The coordinates."""
        return x[None]
