"""Group elements on the links of a periodic lattice of any dimension, and what can be done to them without a coupling.

Links are x[N, N, μ, *site, chain], with U_μ(n) from the site n to n + μ̂; those of one direction u[N, N, *site, chain].
"""

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Inexact, Int

from dlhmc.geometry.unitary import Matrices, adjoint, determinant, multiply, square_norm, trace, trace_of_product

Links = Complex[Array, "N N direction *site chain"]
#: one for each pair of directions μ < ν, in the order of `planes`, and each site
Plaquettes = Float[Array, "plane *site chain"]


def planes(dimensions: int) -> list[tuple[int, int]]:
    """Pairs of directions μ < ν."""
    return list(itertools.combinations(range(dimensions), 2))


def dimensions_of(x: Links) -> int:
    """Of the lattice."""
    return int(x.shape[2])


def total(parts: Sequence[Array]) -> Array:
    """The sum of arrays."""
    return functools.reduce(operator.add, parts)


def shifted(field: Inexact[Array, "..."], by: int, direction: int, dimensions: int) -> Inexact[Array, "..."]:
    """The value at n + by·μ̂, for a field whose last axes are sites and chains."""
    axis = field.ndim - 1 - dimensions + direction
    # Not `roll`, which is made of slices: in derivatives each of them is filled up with zeros.
    return jnp.concatenate(jnp.split(field, [by % field.shape[axis]], axis)[::-1], axis)


def corners(x: Links, plane: tuple[int, int]) -> tuple[Matrices, Matrices]:
    """Both ways from n to n + μ̂ + ν̂: first along μ, and first along ν. A plaquette is P = A·B†."""
    (mu, nu), d = plane, dimensions_of(x)
    u, w = x[:, :, mu], x[:, :, nu]
    return multiply(u, shifted(w, 1, mu, d)), multiply(w, shifted(u, 1, nu, d))


def plaquette_traces(x: Links) -> Plaquettes:
    """Re tr P/N."""
    return _by_plane(_real_trace, x) / x.shape[0]


def plaquette_phases(x: Links) -> Plaquettes:
    """Im tr P."""
    return _by_plane(_imaginary_trace, x)


def plaquette_determinants(x: Links) -> Complex[Array, "plane *site chain"]:
    """Det P."""
    d = dimensions_of(x)
    u = determinant(x)
    found = [u[mu] * shifted(u[nu], 1, mu, d) * jnp.conj(shifted(u[mu], 1, nu, d) * u[nu]) for mu, nu in planes(d)]
    return jnp.stack(found)


def plaquette_defects(x: Links) -> Plaquettes:
    """1 − Re tr P/N = |A − B|²/2N, which keeps its relative precision where P is close to 1."""
    return _by_plane(_square_distance, x) / (2 * x.shape[0])


def _real_trace(a: Matrices, b: Matrices) -> Float[Array, "*site chain"]:
    return trace_of_product(a, adjoint(b)).real


def _imaginary_trace(a: Matrices, b: Matrices) -> Float[Array, "*site chain"]:
    return trace_of_product(a, adjoint(b)).imag


def _square_distance(a: Matrices, b: Matrices) -> Float[Array, "*site chain"]:
    return square_norm(a - b)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _by_plane(function: Callable[[Matrices, Matrices], Float[Array, "*site chain"]], x: Links) -> Plaquettes:
    """A function of the corners of each plane; planes take turns, so that only the products of one are in memory."""
    pairs = planes(dimensions_of(x))
    branches = [lambda plane=plane: function(*corners(x, plane)) for plane in pairs]
    return jax.lax.map(lambda index: jax.lax.switch(index, branches), jnp.arange(len(pairs)))


@_by_plane.defjvp
def _by_plane_jvp(function: Any, primals: tuple[Links], tangents: tuple[Links]) -> tuple[Plaquettes, Plaquettes]:
    return jax.jvp(lambda x: function(*_Planes(x).corners), primals, tangents)


@jax.custom_jvp
def plaquette_loops(x: Links, weights: Plaquettes | None = None) -> Links:
    """For each link the sum of the plaquettes through it, each starting with that link, and with its weight.

    The plaquette P of a plane contains four links, whose staples share the products A and B of `corners`. Planes take
    turns here too.
    """
    d = dimensions_of(x)

    def with_staples_of(index: int, staples: Links) -> Links:
        mu, nu = planes(d)[index]
        u, w = x[:, :, mu], x[:, :, nu]
        u_side, w_side = shifted(u, 1, nu, d), shifted(w, 1, mu, d)
        a, b = corners(x, (mu, nu))
        if weights is not None:
            a, b = (weights[index].astype(x.dtype) * way for way in (a, b))
        of_u = multiply(w_side, adjoint(b)) + shifted(multiply(adjoint(a), w), -1, nu, d)
        of_w = multiply(u_side, adjoint(a)) + shifted(multiply(adjoint(b), u), -1, mu, d)
        return staples.at[:, :, mu].add(of_u).at[:, :, nu].add(of_w)

    branches = [functools.partial(with_staples_of, index) for index in range(len(planes(d)))]
    staples = jax.lax.fori_loop(
        0, len(branches), lambda index, found: jax.lax.switch(index, branches, found), jnp.zeros_like(x)
    )
    return multiply(x, staples)


def curl(flow: Plaquettes, dimensions: int) -> Float[Array, "direction *site chain"]:
    """For each link the sum over the plaquettes through it, with the sign of its direction in each."""
    found = [jnp.zeros_like(flow[0])] * dimensions
    for of_plane, (mu, nu) in zip(flow, planes(dimensions), strict=True):
        found[mu] = found[mu] + of_plane - shifted(of_plane, -1, nu, dimensions)
        found[nu] = found[nu] - of_plane + shifted(of_plane, -1, mu, dimensions)
    return jnp.stack(found)


@plaquette_loops.defjvp
def _plaquette_loops_jvp(primals: Any, tangents: Any) -> tuple[Links, Links]:
    return jax.jvp(all_plaquette_loops, primals, tangents)


# Derivatives keep the products of all planes, and in a loop of branches even those of the planes whose turn it is not.
# So for them all planes are there at once: a smaller program, which runs faster.


def all_plaquette_loops(x: Links, weights: Plaquettes | None = None) -> Links:
    """What `plaquette_loops` is, with all planes at once: more memory, and a smaller program."""
    all_planes = _Planes(x)
    (a, b), (u, w), (u_side, w_side) = all_planes.corners, all_planes.near, all_planes.far
    if weights is not None:
        a, b = (weights.astype(x.dtype) * way for way in (a, b))
    of_u = multiply(w_side, adjoint(b)) + all_planes.shifted(multiply(adjoint(a), w), -1, 1)
    of_w = multiply(u_side, adjoint(a)) + all_planes.shifted(multiply(adjoint(b), u), -1, 0)
    return multiply(x, all_planes.sums(of_u, of_w))


class _Planes:
    """Links of all planes, [N, N, plane, *site, chain]."""

    def __init__(self, x: Links) -> None:
        self.d = dimensions_of(x)
        #: the first and the second direction of each plane
        self.directions = tuple(zip(*planes(self.d), strict=True))
        self.near = tuple(_joined([jnp.split(x, self.d, axis=2)[mu] for mu in of]) for of in self.directions)
        u, w = self.near
        self.far = self.shifted(u, 1, 1), self.shifted(w, 1, 0)

    @property
    def corners(self) -> tuple[Matrices, Matrices]:
        """Those of each plane."""
        (u, w), (u_side, w_side) = self.near, self.far
        return multiply(u, w_side), multiply(w, u_side)

    def shifted(self, fields: Matrices, by: int, which: int) -> Matrices:
        """The value at n + by·μ̂, where μ is the first or the second direction of each plane."""
        directions = self.directions[which]
        parts = jnp.split(fields, len(directions), axis=2)
        return _joined([shifted(part, by, mu, self.d) for part, mu in zip(parts, directions, strict=True)])

    def sums(self, of_first: Matrices, of_second: Matrices) -> Links:
        """For each direction the sum of what belongs to it, the first or the second one of a plane."""
        number, chosen = len(self.directions[0]), sum(self.directions, ())
        parts = jnp.split(of_first, number, axis=2) + jnp.split(of_second, number, axis=2)
        return _joined(
            [total([part for part, nu in zip(parts, chosen, strict=True) if nu == mu]) for mu in range(self.d)]
        )


def _joined(fields: Sequence[Matrices]) -> Matrices:
    return jnp.concatenate(fields, axis=2)


def line(u: Matrices, length: int, direction: int, dimensions: int) -> Matrices:
    """The product of `length` links along their own direction, from each site."""
    product = u
    for step in range(1, length):
        product = multiply(product, shifted(u, step, direction, dimensions))
    return product


def wilson_loop(x: Links, plane: tuple[int, int], m: int, n: int) -> Float[Array, "*site chain"]:
    """Re tr W/N of the m × n loop in a plane, m links along its first direction, from each site."""
    (mu, nu), d = plane, dimensions_of(x)
    bottom, left = line(x[:, :, mu], m, mu, d), line(x[:, :, nu], n, nu, d)
    first = multiply(bottom, shifted(left, m, mu, d))
    second = multiply(left, shifted(bottom, n, nu, d))
    return trace_of_product(first, adjoint(second)).real / x.shape[0]


def polyakov_loops(x: Links) -> Complex[Array, "direction chain"]:
    """Tr of the loop that winds around each direction, divided by N and averaged over the lattice."""
    d, means = dimensions_of(x), []
    for mu in range(d):
        loop = line(x[:, :, mu], x.shape[3 + mu], mu, d)
        means.append(jnp.mean(trace(loop), axis=tuple(range(d))) / x.shape[0])
    return jnp.stack(means)


# Symmetries. Each acts on links and on momenta V, as Hermitian matrices, of U̇ = iVU.


def gauge_transform(x: Links, v: Links, g: Matrices) -> tuple[Links, Links]:
    """U_μ(n) → g(n)·U_μ(n)·g(n + μ̂)†, V → g(n)·V·g(n)†."""
    d = dimensions_of(x)
    ends = jnp.stack([adjoint(shifted(g, 1, mu, d)) for mu in range(d)], axis=2)
    g = g[:, :, None]
    return multiply(multiply(g, x), ends), multiply(multiply(g, v), adjoint(g))


def translate(field: Links, shift: Int[Array, " d"]) -> Links:
    """The field moved by `shift` sites along each direction."""
    return jnp.roll(field, shift, axis=tuple(range(3, 3 + dimensions_of(field))))


def reflect(x: Links, v: Links, axis: int) -> tuple[Links, Links]:
    """n_axis → −n_axis: links along the axis change their direction and start at their other end.

    Of such a link the inverse moves, U̇† = −i(U†VU)U†: the momentum is transported along it.
    """
    site = 3 + axis

    def mirrored(field: Links) -> Links:
        return jnp.roll(jnp.flip(field, axis=site), 1, axis=site)

    u, w = (field[:, :, axis] for field in (x, v))
    turned = (adjoint(u), -multiply(adjoint(u), multiply(w, u)))
    # A link from n − μ̂ to n ends where the turned one starts: it is found one site further on.
    turned_back = (jnp.roll(part, 1, axis=site - 1) for part in turned)
    return tuple(  # type: ignore[return-value]
        mirrored(field.at[:, :, axis].set(part)) for field, part in zip((x, v), turned_back, strict=True)
    )


def transpose(field: Links, first: int, second: int) -> Links:
    """Two axes of the same length exchanged."""
    order = np.arange(dimensions_of(field))
    order[[first, second]] = order[[second, first]]
    return jnp.swapaxes(field, 3 + first, 3 + second)[:, :, order]


def conjugate(x: Links, v: Links) -> tuple[Links, Links]:
    """Charge conjugation, U → U*, V → −V*."""
    return jnp.conj(x), -jnp.conj(v)


def turn(x: Links, phases: Float[Array, " d"]) -> Links:
    """A centre transformation: U_μ → e^{iα_μ} U_μ on the links that leave n_μ = 0."""
    d = dimensions_of(x)
    for mu in range(d):
        face = (slice(None), slice(None), mu, *(0 if axis == mu else slice(None) for axis in range(d)))
        x = x.at[face].multiply(jax.lax.complex(jnp.cos(phases[mu]), jnp.sin(phases[mu])).astype(x.dtype))
    return x
