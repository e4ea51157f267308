"""Actions of gauge fields, of which a target is put together: Σ c (1 − Re tr W/N) over plaquettes, over rectangles.

With c₀ + 8c₁ = 1 for those of plaquettes and rectangles, the classical limit does not change, and lattice artefacts do.
"""

import functools
from typing import Any, ClassVar, Protocol

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from numpy.typing import NDArray

from dlhmc.geometry.contract import Momentum
from dlhmc.geometry.unitary import UnitaryMatrices, determinant, trace
from dlhmc.numerics.leaves import leaf
from dlhmc.theories.gauge import lattice
from dlhmc.theories.gauge.lattice import Links, Loops

Numbers = Float[Array, "number shape *site chain"]


class Action(Protocol):
    """A sum over cells, which have a place in an array [shape, *site]."""

    #: sites over which a cell extends
    reach: ClassVar[int]

    def shapes(self, dimensions: int) -> int:
        """Kinds of cells at each site."""

    def terms(self, x: Links) -> Loops:
        """Terms that add up to the action, one for each cell."""

    def force(self, geometry: UnitaryMatrices, x: Links) -> Momentum:
        """The derivative along all generators."""

    def curvature(self, dimensions: int) -> Float[Array, ""]:
        """Half of the second derivative by the phase of one link of a cold configuration."""

    def cells_of(self, links: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which cells see any of these links."""

    def numbers(self, geometry: UnitaryMatrices, x: Links) -> Numbers:
        """What networks see of each cell: gauge-invariant numbers of order one."""

    def pushed_force(self, geometry: UnitaryMatrices, x: Links, weights: Numbers, pushes: Numbers) -> Momentum:
        """Σ_c [w_c ∂S_c + t_c ∂q_c], the weights w and t held fixed; q_c is the phase of the determinant."""


class LoopAction(eqx.Module):
    """c Σ_W (1 − Re tr W/N) over all loops W of one shape."""

    #: links along the first side; the other one is a link
    length: eqx.AbstractClassVar[int]
    reach: eqx.AbstractClassVar[int]

    coefficient: eqx.AbstractVar[Float[Array, ""]]

    def shapes(self, dimensions: int) -> int:
        """Pairs of directions."""
        return len(lattice.shapes(dimensions, self.length))

    def terms(self, x: Links) -> Loops:
        """c (1 − Re tr W/N)."""
        return self._scaled(lattice.loop_defects(x, self.length))

    def force(self, geometry: UnitaryMatrices, x: Links) -> Momentum:
        """(c/N) Im tr(T_a M), with the sum M of the loops that start with the link."""
        return self._along(geometry, x, None)

    def curvature(self, dimensions: int) -> Float[Array, ""]:
        """Loops through a link come in pairs: as a part of the first side, and for rectangles as the other one."""
        pairs = (dimensions - 1) * (1 if self.length == 1 else self.length + 1)
        return pairs * self.coefficient

    def cells_of(self, links: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Loops that contain a link."""
        return lattice.loops_with(links, self.length)

    def numbers(self, geometry: UnitaryMatrices, x: Links) -> Numbers:
        """Re and Im of tr W/N, and of det W for U(N) beyond U(1); for SU(2) they are real."""
        colors, loops = geometry.colors, lattice.loops(x, self.length)
        traces = trace(loops) / colors
        found = [2.5 - 3 * traces.real]
        if not geometry.special or colors > 2:
            found.append(2 * traces.imag)
        if not geometry.special and colors > 1:
            determinants = determinant(loops)
            found += [2.5 - 3 * determinants.real, 2 * determinants.imag]
        return jnp.stack(found)

    def pushed_force(self, geometry: UnitaryMatrices, x: Links, weights: Numbers, pushes: Numbers) -> Momentum:
        """The force of all loops with their weights, and the curl of t along the unit matrix."""
        force, colors = self._along(geometry, x, weights[0]), geometry.colors
        if geometry.special:
            return force
        curl = functools.partial(lattice.curl, dimensions=lattice.dimensions_of(x), length=self.length)
        along_one = curl(pushes[0])
        if colors == 1:
            return force + along_one[None]
        phases = weights[1] * trace(lattice.loops(x, self.length)).imag
        strength = geometry.norm / colors * np.sqrt(2 / colors)
        return force.at[-1].set(along_one + self._scaled(curl(phases)) * strength.astype(force.dtype))

    def _along(self, geometry: UnitaryMatrices, x: Links, weights: Loops | None) -> Momentum:
        components = geometry.components(lattice.loops_of_links(x, self.length, weights))
        return self._scaled(components) * (geometry.norm / geometry.colors)

    def _scaled(self, field: Any) -> Any:
        return self.coefficient.astype(field.dtype) * field


class Plaquette(LoopAction):
    """c Σ_P (1 − Re tr P/N): with c = 1 the Wilson action at β = 1."""

    length: ClassVar[int] = 1
    reach: ClassVar[int] = 1

    coefficient: Float[Array, ""] = eqx.field(converter=leaf, default=1.0)


class Rectangle(LoopAction):
    """c Σ_R (1 − Re tr R/N) over all loops of two links by one."""

    length: ClassVar[int] = 2
    reach: ClassVar[int] = 2

    coefficient: Float[Array, ""] = eqx.field(converter=leaf)


def with_rectangles(c1: ArrayLike) -> tuple[Action, ...]:
    """(1 − 8c₁) plaquettes and c₁ rectangles."""
    c1 = leaf(c1)
    return Plaquette(1 - 8 * c1), Rectangle(c1)
