"""Two-dimensional U(1) gauge theory with a mixed action, of plaquettes that wind once and twice."""

from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, ArrayLike, Float

from dlhmc.numerics import trig
from dlhmc.numerics.leaves import leaf
from dlhmc.theories.u1.links import Plaquettes
from dlhmc.theories.u1.plaquette_action import PlaquetteAction


class Mixed(PlaquetteAction):
    """p(x) ∝ e^{−S(x)} with S(x) = β Σ_P (1 − cos x_P) + β₂ Σ_P (1 − cos 2x_P).

    >>> target = Mixed((8, 8), beta=2.0, beta2=-0.3)
    >>> round(float(target.stiffness()), 6)
    0.8
    """

    couplings: ClassVar[tuple[str, ...]] = ("beta", "beta2")

    lattice: tuple[int, int] = eqx.field(static=True)
    beta: Float[Array, ""]
    beta2: Float[Array, ""]

    def __init__(self, lattice: tuple[int, int], beta: ArrayLike, beta2: ArrayLike) -> None:
        self.lattice, self.beta, self.beta2 = lattice, leaf(beta), leaf(beta2)

    def resized(self, sides: tuple[int, ...]) -> "Mixed":
        """The same action on another lattice."""
        return Mixed((sides[0], sides[1]), self.beta, self.beta2)

    def plaquette_action(self, angles: Plaquettes) -> Plaquettes:
        """2 sin²(x/2) (β + 4β₂ cos²(x/2)), which is precise for small x."""
        beta, beta2 = self.beta.astype(angles.dtype), self.beta2.astype(angles.dtype)
        sine, cosine = trig.sin_cos(0.5 * angles)
        return 2 * sine * sine * (beta + 4 * beta2 * cosine * cosine)

    def plaquette_force(self, angles: Plaquettes) -> Plaquettes:
        """sin x (β + 4β₂ cos x)."""
        beta, beta2 = self.beta.astype(angles.dtype), self.beta2.astype(angles.dtype)
        sine, cosine = trig.sin_cos(angles)
        return sine * (beta + 4 * beta2 * cosine)
