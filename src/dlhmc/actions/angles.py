"""Actions that are a function of the angles of plaquettes, for links that are angles in two dimensions."""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from numpy.typing import NDArray

from dlhmc.actions.contract import CellAction, Numbers, Terms
from dlhmc.geometry.contract import Geometry, Momentum
from dlhmc.lattice.links import Links
from dlhmc.lattice.loops import curl, loops_with, plaquettes
from dlhmc.numerics import trig
from dlhmc.numerics.leaves import leaf

Angles = Float[Array, "*shape chain"]


class PlaquetteFunction(CellAction):
    """Σ_P s(x_P) for any periodic s."""

    reach: ClassVar[int] = 1

    @abstractmethod
    def function(self, angles: Angles) -> Angles:
        """s(x_P) of each plaquette."""

    def derivative(self, angles: Angles) -> Angles:
        """s′(x_P)."""
        return jax.grad(lambda a: jnp.sum(self.function(a)))(angles)

    def terms(self, x: Links) -> Terms:
        return self.function(plaquettes(x)[None])

    def force(self, geometry: Geometry, x: Links) -> Momentum:
        return curl(self.derivative(plaquettes(x)[None]))

    def stiffness(self, geometry: Geometry) -> Float[Array, ""]:
        """s″(0): plaquettes fluctuate by about its inverse root."""
        origin = jnp.zeros((1, 1, 1, 1), jnp.result_type(float))
        return jax.grad(lambda a: jnp.sum(self.derivative(a)))(origin).reshape(())

    def cells_of(self, elements: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Plaquettes that contain a link."""
        return loops_with(elements)

    def heads(self, geometry: Geometry) -> tuple[int, int]:
        return 1, 1

    def numbers(self, geometry: Geometry, x: Links) -> Numbers:
        return angle_numbers(plaquettes(x)[None])

    def pushed_force(self, geometry: Geometry, x: Links, weights: Numbers, pushes: Numbers) -> Momentum:
        """The curl of w·s′(x_P) + t: the density of the charge is x_P."""
        return curl(weights[0] * self.derivative(plaquettes(x)[None]) + pushes[0])


class Cosine(PlaquetteFunction):
    """c Σ_P (1 − cos n x_P), of plaquettes that wind n times."""

    coefficient: Float[Array, ""]
    winding: int = eqx.field(static=True)

    def __init__(self, coefficient: ArrayLike, winding: int = 2) -> None:
        self.coefficient, self.winding = leaf(coefficient), winding

    def function(self, angles: Angles) -> Angles:
        """2c sin²(nx/2), which is precise for small x."""
        sine = trig.sin((0.5 * self.winding) * angles)
        return 2 * self.coefficient.astype(angles.dtype) * sine * sine

    def derivative(self, angles: Angles) -> Angles:
        return (self.winding * self.coefficient.astype(angles.dtype)) * trig.sin(self.winding * angles)


def angle_numbers(angles: Angles) -> Numbers:
    """Sine and cosine, shifted and scaled."""
    sine, cosine = trig.sin_cos(angles)
    return jnp.stack([2 * sine, 2.5 - 3 * cosine])
