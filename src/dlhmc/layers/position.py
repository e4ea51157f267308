"""Rules for the position update Λ, eq. (2), each a bijection of one half of x with its inverse and log-determinant.

All have the shape x′ = S(x) + ε[v·e^{εq} + t]: a scaling S of x, then a shift. The inverse subtracts the shift
first and undoes the scaling then.
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from dlhmc.numerics import trig
from dlhmc.targets.contract import Field

Scalar = Float[Array, ""]


class PositionRule(eqx.Module):
    """How x is scaled. `log_scale` is ε s; the scaling of −ε s is the inverse of the scaling of ε s."""

    @abstractmethod
    def scale(self, x: Field, log_scale: Field) -> tuple[Field, Field]:
        """The scaled x, and the logarithm of its derivative, component by component."""

    def forward(self, x: Field, shift: Field, log_scale: Field) -> tuple[Field, Field]:
        """x′ and log |∂x′/∂x| of each component."""
        scaled, log_derivative = self.scale(x, log_scale)
        return scaled + shift, log_derivative

    def inverse(self, x: Field, shift: Field, log_scale: Field) -> tuple[Field, Field]:
        """The x that `forward` maps to this one, and log |∂x/∂x′| of each component."""
        return self.scale(x - shift, -log_scale)


class Affine(PositionRule):
    """The paper's x·e^{εs}, for vectors. On a circle it would not be a bijection."""

    def scale(self, x: Field, log_scale: Field) -> tuple[Field, Field]:
        """X e^{εs}, with derivative e^{εs}."""
        return x * jnp.exp(log_scale), log_scale


class Circle(PositionRule):
    """2·atan(e^{εs} tan(x/2)) for angles: a bijection of the circle with the fixed points 0 and π."""

    def scale(self, x: Field, log_scale: Field) -> tuple[Field, Field]:
        """With a = e^{εs} the derivative is a/(cos²(x/2) + a² sin²(x/2)).

        The turn away from x is 2·atan((a − 1)·sin·cos/(cos² + a·sin²)), with sine and cosine of x/2: this needs no
        quadrant, so x may be any representative of its angle, and x′ is the one next to it.
        """
        half = 0.5 * x
        sine, cosine = trig.sin_cos(half)
        a = jnp.exp(log_scale)
        stretched = a * sine
        turn = trig.atan((stretched - sine) * cosine / (cosine * cosine + stretched * sine))
        return x + 2 * turn, log_scale - jnp.log(cosine * cosine + stretched * stretched)


class Shift(PositionRule):
    """No scaling: s is not used."""

    def scale(self, x: Field, log_scale: Field) -> tuple[Field, Field]:
        """X itself."""
        return x, jnp.zeros_like(x)


RULES: dict[str, type[PositionRule]] = {"affine": Affine, "circle": Circle, "shift": Shift}
