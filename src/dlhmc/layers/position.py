"""Rules for the position update Λ, eq. (2), each a bijection of one half of x with its inverse and log-determinant.

All have the shape x′ = drift(S(x), ε[v·e^{εq} + t]): a scaling S of x, then a motion by the geometry, which is an
addition for vectors and angles and a multiplication in a group. The inverse moves back first, then undoes the scaling.
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from dlhmc.geometry import Field, FlatSpace, Geometry, Momentum, Torus
from dlhmc.names import RuleName
from dlhmc.numerics import trig

Derivative = Float[Array, "*momentum chain"]


class PositionRule(eqx.Module):
    """How x is scaled. `log_scale` is ε s; the scaling of −ε s is the inverse of the scaling of ε s."""

    @abstractmethod
    def suits(self, geometry: Geometry) -> bool:
        """Whether the scaling is a bijection there."""

    @abstractmethod
    def scale(self, x: Field, log_scale: Momentum) -> tuple[Field, Derivative]:
        """The scaled x, and the logarithm of its derivative, element by element."""

    def forward(self, geometry: Geometry, x: Field, shift: Momentum, log_scale: Momentum) -> tuple[Field, Derivative]:
        """x′ and log |∂x′/∂x| of each element."""
        scaled, log_derivative = self.scale(x, log_scale)
        return geometry.moved(scaled, shift), log_derivative

    def inverse(self, geometry: Geometry, x: Field, shift: Momentum, log_scale: Momentum) -> tuple[Field, Derivative]:
        """The x that `forward` maps to this one, and log |∂x/∂x′| of each element."""
        return self.scale(geometry.moved(x, -shift), -log_scale)


class Affine(PositionRule):
    """The paper's x·e^{εs}, for vectors. On a circle it would not be a bijection."""

    def suits(self, geometry: Geometry) -> bool:
        """Vectors only."""
        return isinstance(geometry, FlatSpace)

    def scale(self, x: Field, log_scale: Momentum) -> tuple[Field, Derivative]:
        """x·e^{εs}, with derivative e^{εs}."""
        return x * jnp.exp(log_scale), log_scale


class Circle(PositionRule):
    """2·atan(e^{εs} tan(x/2)) for angles: a bijection of the circle with the fixed points 0 and π."""

    def suits(self, geometry: Geometry) -> bool:
        """Angles only."""
        return isinstance(geometry, Torus)

    def scale(self, x: Field, log_scale: Momentum) -> tuple[Field, Derivative]:
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
    """No scaling: s is not used. It suits every geometry, groups among them."""

    def suits(self, geometry: Geometry) -> bool:
        """Always."""
        return True

    def scale(self, x: Field, log_scale: Momentum) -> tuple[Field, Derivative]:
        """x itself."""
        return x, jnp.zeros_like(log_scale)


RULES: dict[RuleName, type[PositionRule]] = {"affine": Affine, "circle": Circle, "shift": Shift}


def default_rule(geometry: Geometry) -> RuleName:
    """The rule that scales where one does, else the shift."""
    return next(name for name, rule in RULES.items() if rule().suits(geometry))
