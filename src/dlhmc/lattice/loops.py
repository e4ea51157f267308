"""Loops of 1 × 1 and 2 × 1 links, the sums of those through each link, and the derivatives of both.

Links are matrices, x[N, N, μ, *site, chain], or angles, x[μ, *site, chain], which add up.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float
from numpy.typing import NDArray

from dlhmc.geometry.torus import wrap_angle
from dlhmc.geometry.unitary import Matrices, adjoint, determinant, multiply, square_norm, trace_of_product
from dlhmc.lattice.links import Links, dimensions_of, is_angles, line, shift, shifted
from dlhmc.numerics import trig
from dlhmc.numerics.devices import lattice_is_split

#: one for each pair of directions, in the order of `shapes`, and each site
Loops = Float[Array, "shape *site chain"]


def planes(dimensions: int) -> list[tuple[int, int]]:
    """Pairs of directions μ < ν."""
    return list(itertools.combinations(range(dimensions), 2))


def shapes(dimensions: int, length: int) -> list[tuple[int, int]]:
    """Of loops of `length` × 1 links: the direction of the long side, and that of the short one."""
    return planes(dimensions) if length == 1 else list(itertools.permutations(range(dimensions), 2))


def loops_with(links: NDArray[np.bool_], length: int = 1) -> NDArray[np.bool_]:
    """Loops that contain any of these links [direction, *site]: [shape, *site]."""

    def of_shape(mu: int, nu: int) -> NDArray[np.bool_]:
        side = links[mu] if length == 1 else links[mu] | np.roll(links[mu], -1, axis=mu)
        far = np.roll(links[nu], -length, axis=mu) | np.roll(side, -1, axis=nu)
        return np.asarray(side | links[nu] | far)

    return np.stack([of_shape(mu, nu) for mu, nu in shapes(len(links), length)])


def lines(x: Links, length: int) -> Links:
    """The product of one link or two, along each direction from each site."""
    if length == 1:
        return x
    d = dimensions_of(x)
    return jnp.stack([line(x[:, :, mu], length, mu, d) for mu in range(d)], axis=2)


def corners(x: Links, shape: tuple[int, int], length: int = 1, sides: Links | None = None) -> tuple[Matrices, Matrices]:
    """Both ways to the far corner of a loop W = A·B†: first along the long side μ, of which `sides` has all, or ν."""
    (mu, nu), d = shape, dimensions_of(x)
    u, w = (x if sides is None else sides)[:, :, mu], x[:, :, nu]
    return multiply(u, shifted(w, length, mu, d)), multiply(w, shifted(u, 1, nu, d))


@jax.custom_jvp
def plaquettes(x: Links) -> Float[Array, "x t chain"]:
    """x_P = x_0(n) + x_1(n + 0̂) − x_0(n + 1̂) − x_1(n) of angles in two dimensions, not wrapped."""
    return x[0] + shift(x[1], -1, axis=0) - shift(x[0], -1, axis=1) - x[1]


@plaquettes.defjvp
def _plaquettes_jvp(primals: tuple[Links], tangents: tuple[Links]) -> tuple[Array, Array]:
    """The same from rows of one list of links: backwards a scatter to rows, which is faster than to pad x_0 and x_1."""
    (dx,) = tangents
    if lattice_is_split():
        return plaquettes(primals[0]), plaquettes(dx)
    link = np.arange(dx[..., 0].size).reshape(dx.shape[:-1])
    rows = dx.reshape(-1, dx.shape[-1]).at

    def pick(links: np.ndarray[Any, Any]) -> Array:
        return rows[links].get(mode="promise_in_bounds", unique_indices=True, wrap_negative_indices=False)

    corner = pick(link[0]) + pick(np.roll(link[1], -1, axis=0)) - pick(np.roll(link[0], -1, axis=1)) - pick(link[1])
    return plaquettes(primals[0]), corner


def loop_traces(x: Links, length: int = 1) -> Loops:
    """Re tr W/N."""
    return trig.cos(plaquettes(x))[None] if is_angles(x) else _by_shape(_real_trace, length, x) / x.shape[0]


def loop_defects(x: Links, length: int = 1) -> Loops:
    """1 − Re tr W/N = |A − B|²/2N, which keeps its relative precision where W is close to 1; 2 sin²(x/2) of angles."""
    if is_angles(x):
        half_sine = trig.sin(0.5 * plaquettes(x))
        return (2 * half_sine * half_sine)[None]
    return _by_shape(_square_distance, length, x) / (2 * x.shape[0])


def plaquette_phases(x: Links) -> Loops:
    """Arg det P in [−π, π): its sum over a plane is 2π times an integer."""
    return wrap_angle(plaquettes(x))[None] if is_angles(x) else jnp.angle(loop_determinants(x))


def plaquette_sines(x: Links) -> Loops:
    """Im det P."""
    return trig.sin(plaquettes(x))[None] if is_angles(x) else loop_determinants(x).imag


def loop_determinants(x: Links, length: int = 1) -> Complex[Array, "shape *site chain"]:
    """Det W."""
    d, u = dimensions_of(x), determinant(x)
    sides = u if length == 1 else jnp.stack([u[mu] * shifted(u[mu], 1, mu, d) for mu in range(d)])
    found = [
        sides[mu] * shifted(u[nu], length, mu, d) * jnp.conj(shifted(sides[mu], 1, nu, d) * u[nu])
        for mu, nu in shapes(d, length)
    ]
    return jnp.stack(found)


def _real_trace(a: Matrices, b: Matrices) -> Float[Array, "*site chain"]:
    return trace_of_product(a, adjoint(b)).real


def _square_distance(a: Matrices, b: Matrices) -> Float[Array, "*site chain"]:
    return square_norm(a - b)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _by_shape(function: Callable[[Matrices, Matrices], Float[Array, "*site chain"]], length: int, x: Links) -> Loops:
    """A function of the corners of each shape; shapes take turns, so that only the products of one are in memory."""
    pairs, sides = shapes(dimensions_of(x), length), lines(x, length)
    branches = [lambda pair=pair: function(*corners(x, pair, length, sides)) for pair in pairs]
    return jax.lax.map(lambda index: jax.lax.switch(index, branches), jnp.arange(len(pairs)))


@_by_shape.defjvp
def _by_shape_jvp(function: Any, length: int, primals: tuple[Links], tangents: tuple[Links]) -> tuple[Loops, Loops]:
    return jax.jvp(lambda x: function(*_Shapes(x, length).corners), primals, tangents)


def loops_of_links(x: Links, length: int = 1, weights: Loops | None = None) -> Links:
    """For each link the sum of the loops of `length` × 1 through it, each starting with it, and with its weight.

    The two long and two short sides of a loop have staples that share the products A and B of `corners`. Shapes take
    turns here too.
    """
    return _loops_of_links(length, x, weights)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _loops_of_links(length: int, x: Links, weights: Loops | None) -> Links:
    d, sides = dimensions_of(x), lines(x, length)

    def with_staples_of(index: int, staples: Links) -> Links:
        mu, nu = shapes(d, length)[index]
        u, w = sides[:, :, mu], x[:, :, nu]
        u_far, w_far = shifted(u, 1, nu, d), shifted(w, length, mu, d)
        a, b = corners(x, (mu, nu), length, sides)
        if weights is not None:
            a, b = (weights[index].astype(x.dtype) * way for way in (a, b))
        of_u = multiply(w_far, adjoint(b)) + shifted(multiply(adjoint(a), w), -1, nu, d)
        of_w = multiply(u_far, adjoint(a)) + shifted(multiply(adjoint(b), u), -length, mu, d)
        return staples.at[:, :, mu].add(of_u).at[:, :, (length - 1) * d + nu].add(of_w)

    branches = [functools.partial(with_staples_of, index) for index in range(len(shapes(d, length)))]
    # Those of long sides come first, those of links after them, where these are not the same.
    staples = jax.lax.fori_loop(
        0,
        len(branches),
        lambda index, found: jax.lax.switch(index, branches, found),
        jnp.zeros((*x.shape[:2], length * d, *x.shape[3:]), x.dtype),
    )
    if length == 2:
        staples = staples[:, :, d:] + _of_halves(x, staples[:, :, :d])
    return multiply(x, staples)


def _of_halves(x: Links, staples: Links) -> Links:
    """The staples of links, from those of two links in a row."""
    d = dimensions_of(x)

    def of_direction(mu: int) -> Matrices:
        u, s = x[:, :, mu], staples[:, :, mu]
        return multiply(shifted(u, 1, mu, d), s) + shifted(multiply(s, u), -1, mu, d)

    return jnp.stack([of_direction(mu) for mu in range(d)], axis=2)


def curl(flow: Loops, length: int = 1) -> Float[Array, "direction *site chain"]:
    """For each link the sum over the loops through it, with the sign of its direction in each."""
    d = flow.ndim - 2
    found = [jnp.zeros_like(flow[0])] * d
    for of_loop, (mu, nu) in zip(flow, shapes(d, length), strict=True):
        of_side = of_loop if length == 1 else of_loop + shifted(of_loop, -1, mu, d)
        found[mu] = found[mu] + (of_side - shifted(of_side, -1, nu, d))
        found[nu] = found[nu] + (shifted(of_loop, -length, mu, d) - of_loop)
    return jnp.stack(found)


@_loops_of_links.defjvp
def _loops_of_links_jvp(length: int, primals: Any, tangents: Any) -> tuple[Links, Links]:
    return jax.jvp(lambda x, weights: loops_of_links_at_once(x, length, weights), primals, tangents)


# Derivatives keep the products of all shapes, and in a loop of branches even those of the shapes whose turn it is not.
# So for them all shapes are there at once: a smaller program, which runs faster.


def loops_of_links_at_once(x: Links, length: int = 1, weights: Loops | None = None) -> Links:
    """What `loops_of_links` is, with all shapes at once: more memory, and a smaller program."""
    every = _Shapes(x, length)
    (a, b), (u, w), (u_far, w_far) = every.corners, every.near, every.far
    if weights is not None:
        a, b = (weights.astype(x.dtype) * way for way in (a, b))
    of_u = every.sums(multiply(w_far, adjoint(b)) + every.shifted(multiply(adjoint(a), w), -1, 1), 0)
    of_w = every.sums(multiply(u_far, adjoint(a)) + every.shifted(multiply(adjoint(b), u), -length, 0), 1)
    return multiply(x, of_w + (of_u if length == 1 else _of_halves(x, of_u)))


def loops(x: Links, length: int = 1) -> Complex[Array, "N N shape *site chain"]:
    """W of all shapes at once: what is made of them can be differentiated in many windows side by side."""
    a, b = _Shapes(x, length).corners
    return multiply(a, adjoint(b))


class _Shapes:
    """Sides of the loops of all shapes, [N, N, shape, *site, chain]."""

    def __init__(self, x: Links, length: int) -> None:
        self.d = dimensions_of(x)
        #: of the long and of the short side of each shape
        self.directions = tuple(zip(*shapes(self.d, length), strict=True))
        self.near = tuple(
            _joined([jnp.split(links, self.d, axis=2)[mu] for mu in of])
            for links, of in zip((lines(x, length), x), self.directions, strict=True)
        )
        u, w = self.near
        self.far = self.shifted(u, 1, 1), self.shifted(w, length, 0)

    @property
    def corners(self) -> tuple[Matrices, Matrices]:
        """Those of each shape."""
        (u, w), (u_far, w_far) = self.near, self.far
        return multiply(u, w_far), multiply(w, u_far)

    def shifted(self, fields: Matrices, by: int, which: int) -> Matrices:
        """The value at n + by·μ̂, where μ is the direction of the long or the short side of each shape."""
        directions = self.directions[which]
        parts = jnp.split(fields, len(directions), axis=2)
        return _joined([shifted(part, by, mu, self.d) for part, mu in zip(parts, directions, strict=True)])

    def sums(self, fields: Matrices, which: int) -> Links:
        """For each direction the sum over the shapes whose long or short side has it."""
        directions = self.directions[which]
        parts = jnp.split(fields, len(directions), axis=2)
        found = [jnp.zeros_like(parts[0])] * self.d
        for mu, part in zip(directions, parts, strict=True):
            found[mu] = found[mu] + part
        return _joined(found)


def _joined(fields: Sequence[Matrices]) -> Matrices:
    return jnp.concatenate(fields, axis=2)
