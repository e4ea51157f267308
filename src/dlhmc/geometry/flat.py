"""Vectors: coordinates that are real numbers."""

import equinox as eqx
from jaxtyping import Array, Float

from dlhmc.geometry.contract import Field, Geometry, Momentum


class FlatSpace(Geometry):
    """Real numbers in any shape.

    >>> FlatSpace((2, 3)).elements
    (2, 3)
    """

    sides: tuple[int, ...] = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """Coordinates."""
        return self.sides

    def drift(self, x: Field, v: Momentum, displacement: Momentum) -> tuple[Field, Momentum]:
        """x + displacement."""
        return x + displacement, v

    def difference(self, start: Field, end: Field) -> Momentum:
        """End − start."""
        return end - start

    def features(self, x: Field) -> Float[Array, "1 *element chain"]:
        """The coordinates."""
        return x[None]
