"""Phases inside a window of a U(N) theory in two dimensions: there it is a U(1) theory, and its layers serve.

Let v₀ be an eigenvector of the holonomy W of the window's rim, which does not move, and X = v₀v₀†. Carried along the
lowest row and up the columns of links, it gives X(n) at every site. Each plaquette, carried back, is a matrix L_j, and
L_1 L_2 ⋯ L_n = W. With angles a_j, where a_0 = 0, a_n is a multiple of 2π, and e^{2πiX} = 1,

    L_j → e^{−i a_{j−1} X} L_j e^{i a_j X}    leaves W as it is, and makes of tr L_j  tr L_j e^{i(a_j − a_{j−1})X}:

what does not commute with X is turned, and stays as large as it was. So the action depends on angles α of the links as
one of U(1) does, with the plaquette angles θ_j + (curl α)_j and the couplings (β/N)|z_j|, where v₀†L_jv₀ = z_j =
|z_j|e^{iθ_j}. Where the angles of a window wind, one eigenvalue does, and Q changes by one.

The α of all links act on configurations as a group that leaves the Haar measure alone, so that log|J| is that of U(1).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Key

from dlhmc.actions.angles import PlaquetteFunction
from dlhmc.errors import UserError
from dlhmc.geometry.contract import Field, Geometry, Momentum
from dlhmc.geometry.torus import Torus
from dlhmc.geometry.unitary import Matrices, UnitaryMatrices, adjoint, eigenvectors, multiply
from dlhmc.lattice.links import Links
from dlhmc.lattice.loops import corners
from dlhmc.layers.contract import Phase, Trajectory
from dlhmc.numerics import trig
from dlhmc.targets.contract import Target
from dlhmc.targets.windows import Layout, stiffness, window_in, windowed
from dlhmc.theories.gauge.known import has_charge, observe_angles, wilson_coupling

Vectors = Complex[Array, "N *site chain"]
Angles = Float[Array, "2 x t chain"]
Plaquettes = Float[Array, "x t chain"]


class Couplings(PlaquetteFunction):
    """s(x_P) = −β_P cos x_P, with a coupling for each plaquette of a patch."""

    of_plaquettes: Plaquettes
    #: about which they lie
    typical: Float[Array, ""]

    def function(self, angles: Plaquettes) -> Plaquettes:
        return -self.of_plaquettes * trig.cos(angles)

    def derivative(self, angles: Plaquettes) -> Plaquettes:
        return self.of_plaquettes * trig.sin(angles)

    def stiffness(self, geometry: Geometry) -> Float[Array, ""]:
        """That of a cold configuration."""
        return self.typical


class Fibre(eqx.Module):
    """All that can be reached from a configuration by angles of its links."""

    #: as a window of a U(1) theory
    window: Target
    #: what moves, as it is now
    origin: Float[Array, "link chain"]
    #: of all links of the patch
    links: Links
    #: v(n), with X(n) = v(n)v(n)†
    vectors: Vectors
    matrices: UnitaryMatrices
    layout: Layout = eqx.field(static=True)

    @classmethod
    def through(cls, target: Target, x: Field) -> "Fibre":
        """The fibre of x."""
        window = windowed(target)
        whole, layout = window.whole, window.layout
        matrices: Any = whole.geometry
        if wilson_coupling(whole) is None or not has_charge(whole):
            raise TypeError("layers on phases are for the Wilson action of U(N) in two dimensions")
        links, block = window.embed(x), layout.block
        if min(layout.patch) <= block:
            # Its rim would be links that move, or none at all.
            raise UserError(f"A window of {block} cells on phases needs a lattice of {block + 1} or more a side.")
        vectors = _carried_everywhere(_nearest_to_minus_one(cls.enclosed(links, block)), links)
        z = _diagonal(links, vectors)
        # Half of the curvature along a generator is β/N of its norm.
        strength = (stiffness(whole) / matrices.norm).astype(z.real.dtype)
        couplings = Couplings(strength * jnp.abs(z), strength)
        # Links along the rows whose plaquettes are the phases, up to those of the seam.
        theta = jnp.angle(z)
        rows = jnp.cumsum(theta, axis=1) - theta
        patch = jnp.stack([-rows, jnp.zeros_like(rows)]).reshape(-1, rows.shape[-1])
        angles = Target(Torus((2, *layout.patch)), [couplings], observe_angles)
        return cls(window_in(angles, patch, layout), patch[layout.inside], links, vectors, matrices, layout)

    @staticmethod
    def enclosed(links: Links, block: int) -> Matrices:
        """The holonomy of the rim, from the first corner."""
        along, up = jnp.moveaxis(links[:, :, 0], 2, 0), jnp.moveaxis(links[:, :, 1], 3, 0)
        bottom, top = (_product(along[:block, ..., row, :]) for row in (0, block))
        left, right = (_product(up[:block, :, :, column]) for column in (0, block))
        return multiply(multiply(bottom, right), adjoint(multiply(left, top)))

    def along(self, v: Momentum) -> Float[Array, "link chain"]:
        """The momentum of the angles."""
        return jnp.sum(self.direction() * v, axis=0)

    def lifted(self, v: Momentum, end: Phase) -> Phase:
        """The phase of matrices for one of the angles."""
        turned = jnp.zeros_like(windowed(self.window).patch).at[self.layout.inside].set(end.x - self.origin)
        moved = self._inside(self._turned(turned.reshape(2, *self.layout.patch, -1)))
        return Phase(moved, v + self.direction() * (end.v - self.along(v)), end.log_jacobian)

    def direction(self) -> Float[Array, "generator link chain"]:
        """The unit vector along X(n) in the algebra of each link."""
        projector = self.vectors[:, None] * jnp.conj(self.vectors)[None]
        both = jnp.stack([projector, projector], axis=2)
        components = self.matrices.components(1j * both)
        return np.sqrt(self.matrices.norm).item() * self._inside(components)

    def _inside(self, field: Float[Array, "..."]) -> Field:
        """The part that moves of a field of the patch, whose last axes are directions, sites and chains."""
        return field.reshape(*field.shape[:-4], -1, field.shape[-1])[..., self.layout.inside, :]

    def rows_from_the_right(self, angles: Angles) -> Plaquettes:
        """r(n): minus the angles of the column to the right, from n up to the rim."""
        below = jnp.cumsum(angles[1], axis=1) - angles[1]
        block = self.layout.block
        return jnp.roll(below - below[:, block : block + 1], -1, axis=0)

    def _turned(self, angles: Angles) -> Links:
        """e^{iαX(n)}U along the columns, which leaves X as it is, and e^{i(α − r)X(n)} U e^{irX(n + 0̂)} along rows."""
        right = self.rows_from_the_right(angles)
        rows, columns = self.links[:, :, 0], self.links[:, :, 1]
        rows = _turn(self.vectors, angles[0] - right, rows)
        rows = adjoint(_turn(jnp.roll(self.vectors, -1, axis=1), -right, adjoint(rows)))
        return jnp.stack([rows, _turn(self.vectors, angles[1], columns)], axis=2)


class OnPhases(Trajectory):
    """Layers for windows of U(1), which see plaquettes and move links by angles, on those of U(N)."""

    inside: Trajectory
    fibre: type[Fibre] = eqx.field(default=Fibre, static=True)

    def __len__(self) -> int:
        return len(self.inside)

    @property
    def forces(self) -> int:
        """As many as there are of the U(1) theory, each at less cost than a force."""
        return self.inside.forces

    def forward(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F along the angles, all else as it is."""
        return self._moved(self.inside.forward, target, x, v)

    def inverse(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F⁻¹, likewise."""
        return self._moved(self.inside.inverse, target, x, v)

    def layer_by_layer(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F, with the phase after each layer."""
        fibre = self.fibre.through(target, x)
        ends = self.inside.layer_by_layer(fibre.window, fibre.origin, fibre.along(v))
        return jax.vmap(lambda end: fibre.lifted(v, end))(ends)

    def propose(self, key: Key[Array, ""], target: Target, x: Field, v: Momentum) -> Phase:
        """As the layers inside."""
        return self._moved(lambda *given: self.inside.propose(key, *given), target, x, v)

    def _moved(self, run: Any, target: Target, x: Field, v: Momentum) -> Phase:
        fibre = self.fibre.through(target, x)
        return fibre.lifted(v, run(fibre.window, fibre.origin, fibre.along(v)))


def _turn(vectors: Vectors, angles: Float[Array, "*site chain"], u: Matrices) -> Matrices:
    """e^{iαX}U = U + (e^{iα} − 1) v (v†U)."""
    sine, half = trig.sin(angles), trig.sin(0.5 * angles)
    less_one = jax.lax.complex(-2 * half * half, sine)
    row = jnp.sum(jnp.conj(vectors)[:, None] * u, axis=0)
    return u + (less_one * vectors)[:, None] * row[None]


def _diagonal(links: Links, vectors: Vectors) -> Complex[Array, "x t chain"]:
    """z = v†Pv of the plaquette that starts at each site."""
    # v†AB†v is the product of the row v†A and the column (v†B)†.
    there, back = (jnp.sum(jnp.conj(vectors)[:, None] * way, axis=0) for way in corners(links, (0, 1)))
    return jnp.sum(there * jnp.conj(back), axis=0)


def _carried_everywhere(start: Vectors, links: Links) -> Vectors:
    """v(n) from v₀ at the first site: along the lowest row, then up the columns."""
    along, up = jnp.moveaxis(links[:, :, 0], 2, 0), jnp.moveaxis(links[:, :, 1], 3, 0)
    # Nothing of v₀ moves, and eigenvectors have no derivative where eigenvalues meet.
    row = _carried(jax.lax.stop_gradient(start), along[..., 0, :], axis=1)
    return _carried(row, up, axis=2)


def _product(links: Complex[Array, "step N N chain"]) -> Matrices:
    """U_0 U_1 … along a line."""
    return jax.lax.scan(lambda product, u: (multiply(product, u), None), links[0], links[1:])[0]


def _nearest_to_minus_one(w: Matrices) -> Vectors:
    """The eigenvector along which the angles inside can most cheaply gain or lose 2π."""
    vectors = eigenvectors(w)
    eigenvalues = jnp.einsum("jk...,ji...,ik...->k...", jnp.conj(vectors), w, vectors)
    chosen = jnp.argmin(eigenvalues.real, axis=0)
    return jnp.take_along_axis(vectors, chosen[None, None], axis=1)[:, 0]


def _carried(start: Vectors, links: Complex[Array, "step N N *site chain"], axis: int) -> Vectors:
    """U†…U†·v at the start of each link of a line, with sites along an axis."""

    def step(v: Vectors, u: Matrices) -> tuple[Vectors, Vectors]:
        return jnp.sum(jnp.conj(u) * v[:, None], axis=0), v

    return jnp.moveaxis(jax.lax.scan(step, start, links)[1], 0, axis)
