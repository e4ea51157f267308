"""Actions Σ c (1 − Re tr W/N) of links, over plaquettes and over rectangles.

With c₀ + 8c₁ = 1 for those of plaquettes and rectangles, the classical limit does not change, and lattice artefacts do.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from numpy.typing import NDArray

from dlhmc.actions.angles import angle_numbers
from dlhmc.actions.contract import CellAction, Numbers, Terms
from dlhmc.geometry.contract import Geometry, Momentum
from dlhmc.geometry.unitary import UnitaryMatrices, determinant, trace
from dlhmc.lattice import loops
from dlhmc.lattice.links import Links, colors_of, is_angles, sides_of
from dlhmc.numerics import trig
from dlhmc.numerics.leaves import leaf


class LoopAction(CellAction):
    """c Σ_W (1 − Re tr W/N) over all loops W of one shape."""

    #: links along the first side; the other one is a link
    length: eqx.AbstractClassVar[int]

    coefficient: eqx.AbstractVar[Float[Array, ""]]

    def terms(self, x: Links) -> Terms:
        return self._scaled(loops.loop_defects(x, self.length))

    def force(self, geometry: Geometry, x: Links) -> Momentum:
        """(c/N) Im tr(T_a M), with the sum M of the loops that start with the link; the curl of c sin x for angles."""
        return self._weighted_force(geometry, x, None)

    def stiffness(self, geometry: Geometry) -> Float[Array, ""]:
        """Loops through a link come in pairs: as a part of the first side, and for rectangles as the other one."""
        pairs = (len(sides_of(geometry)) - 1) * (1 if self.length == 1 else self.length + 1)
        return _norm(geometry) / colors_of(geometry)[0] * pairs * self.coefficient

    def cells_of(self, elements: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Loops that contain a link."""
        return loops.loops_with(elements, self.length)

    def heads(self, geometry: Geometry) -> tuple[int, int]:
        """Weights along the generators of SU(N) and along the unit matrix, which can be pushed."""
        colors, special = colors_of(geometry)
        return (1 if special or colors == 1 else 2), (0 if special else 1)

    def numbers(self, geometry: Geometry, x: Links) -> Numbers:
        """Im and Re of tr W/N, and of det W for U(N) beyond U(1); for SU(2) they are real."""
        if is_angles(x):
            return angle_numbers(loops.plaquettes(x)[None])
        colors, special = colors_of(geometry)
        every = loops.loops(x, self.length)
        found = []
        for z in [trace(every) / colors] + ([] if special or colors == 1 else [determinant(every)]):
            found += [2 * z.imag, 2.5 - 3 * z.real]
        return jnp.stack(found[1:] if special and colors == 2 else found)

    def pushed_force(self, geometry: Geometry, x: Links, weights: Numbers, pushes: Numbers) -> Momentum:
        """The force of all loops with their weights, and the curl of t along the unit matrix."""
        force, (colors, special) = self._weighted_force(geometry, x, weights[0]), colors_of(geometry)
        if special:
            return force
        along_one = loops.curl(pushes[0], self.length)
        if colors == 1:
            return force + (along_one if is_angles(x) else along_one[None])
        phases = weights[1] * trace(loops.loops(x, self.length)).imag
        strength = _norm(geometry) / colors * np.sqrt(2 / colors)
        return force.at[-1].set(
            along_one + self._scaled(loops.curl(phases, self.length)) * strength.astype(force.dtype)
        )

    def _weighted_force(self, geometry: Any, x: Links, weights: Terms | None) -> Momentum:
        if is_angles(x):
            slope = self._scaled(trig.sin(loops.plaquettes(x)))[None]
            return loops.curl(slope if weights is None else weights * slope, self.length)
        components = geometry.components(loops.loops_of_links(x, self.length, weights))
        return self._scaled(components) * (geometry.norm / geometry.colors)

    def _scaled(self, field: Any) -> Any:
        return self.coefficient.astype(field.dtype) * field


def _norm(geometry: Geometry) -> float:
    return geometry.norm if isinstance(geometry, UnitaryMatrices) else 1.0


class Plaquette(LoopAction):
    """c Σ_P (1 − Re tr P/N): the Wilson action at β = c."""

    length: ClassVar[int] = 1
    reach: ClassVar[int] = 1

    coefficient: Float[Array, ""]

    def __init__(self, coefficient: ArrayLike) -> None:
        self.coefficient = leaf(coefficient)


class Rectangle(LoopAction):
    """c Σ_R (1 − Re tr R/N) over all loops of two links by one, of matrices."""

    length: ClassVar[int] = 2
    reach: ClassVar[int] = 2

    coefficient: Float[Array, ""]

    def __init__(self, coefficient: ArrayLike) -> None:
        self.coefficient = leaf(coefficient)
