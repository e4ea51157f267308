"""Links of a periodic lattice: matrices x[N, N, μ, *site, chain], or angles x[μ, *site, chain] with U = e^{ix}.

U_μ(n) leads from the site n to n + μ̂. What is written here needs to know how links are multiplied, inverted and
traced, and holds for both.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Inexact, Int

from dlhmc.geometry import unitary
from dlhmc.geometry.contract import Geometry
from dlhmc.geometry.torus import TWO_PI, Torus, wrap_angle
from dlhmc.geometry.unitary import UnitaryMatrices
from dlhmc.lattice.tree import from_plaquettes
from dlhmc.numerics import trig
from dlhmc.numerics.devices import lattice_is_split

Links = Inexact[Array, "*element chain"]
#: of one direction, or one for each site
Elements = Inexact[Array, "*element chain"]
Real = Float[Array, "*site chain"]


class Algebra(NamedTuple):
    """How elements are combined."""

    #: axes of an element, which come first
    axes: int
    multiply: Callable[[Elements, Elements], Elements]
    adjoint: Callable[[Elements], Elements]
    #: Re tr AB†/N
    overlap: Callable[[Elements, Elements], Real]
    #: tr A/N
    trace: Callable[[Elements], Complex[Array, "*site chain"]]


def as_matrices(x: Float[Array, "..."]) -> Complex[Array, "1 1 ..."]:
    """U = e^{ix}."""
    return _exponential(x)[None, None]


def _exponential(x: Float[Array, "..."]) -> Complex[Array, "..."]:
    sine, cosine = trig.sin_cos(x)
    return jax.lax.complex(cosine, sine)


def _overlap(a: Elements, b: Elements) -> Real:
    return unitary.trace_of_product(a, unitary.adjoint(b)).real / a.shape[0]


ANGLES = Algebra(0, operator.add, operator.neg, lambda a, b: trig.cos(a - b), _exponential)
MATRICES = Algebra(2, unitary.multiply, unitary.adjoint, _overlap, lambda a: unitary.trace(a) / a.shape[0])


def algebra(x: Links) -> Algebra:
    """Angles are real, matrices are complex."""
    return MATRICES if jnp.iscomplexobj(x) else ANGLES


def is_angles(x: Links) -> bool:
    """Whether links are angles."""
    return not jnp.iscomplexobj(x)


def dimensions_of(x: Links) -> int:
    """Of the lattice."""
    return int(x.shape[algebra(x).axes])


def sides_of(geometry: Geometry) -> tuple[int, ...]:
    """Of the lattice on whose links a field of this geometry lives."""
    return geometry.elements[1:]


def colors_of(geometry: Geometry) -> tuple[int, bool]:
    """N, and whether determinants are 1."""
    if isinstance(geometry, UnitaryMatrices):
        return geometry.colors, geometry.special
    if isinstance(geometry, Torus):
        return 1, False
    raise TypeError(f"links are matrices or angles, not points of {type(geometry).__name__}")


def along(x: Links, direction: int) -> Elements:
    """The links of one direction."""
    return x[(slice(None),) * algebra(x).axes + (direction,)]


def total(parts: Sequence[Array]) -> Array:
    """The sum of arrays."""
    return functools.reduce(operator.add, parts)


def shifted(field: Inexact[Array, "..."], by: int, direction: int, dimensions: int) -> Inexact[Array, "..."]:
    """The value at n + by·μ̂, for a field whose last axes are sites and chains."""
    axis = field.ndim - 1 - dimensions + direction
    if not jnp.iscomplexobj(field):
        return shift(field, -by, axis)
    # Not `roll`, which is made of slices: in derivatives each of them is filled up with zeros.
    return jnp.concatenate(jnp.split(field, [by % field.shape[axis]], axis)[::-1], axis)


def shift(field: Inexact[Array, "..."], by: int, axis: int) -> Inexact[Array, "..."]:
    """The periodic field moved by `by` sites along an axis: jnp.roll, as a gather on the CPU.

    XLA writes the two slices of a roll to memory there; a gather of rows fuses with the arithmetic around it, which
    makes a trajectory a quarter faster. On a lattice that is split over devices, a roll sends no more than the
    sites at the edges.
    """
    if lattice_is_split():
        return jnp.roll(field, by, axis=axis)
    sites = (np.arange(field.shape[axis]) - by) % field.shape[axis]

    def gather(f: Array) -> Array:
        rows = jnp.asarray(f).at[(slice(None),) * axis + (sites,)]
        return rows.get(mode="promise_in_bounds", unique_indices=True, wrap_negative_indices=False)

    return jax.lax.platform_dependent(field, cpu=gather, default=lambda f: jnp.roll(f, by, axis=axis))


def line(u: Elements, length: int, direction: int, dimensions: int) -> Elements:
    """The product of `length` links along their own direction, from each site."""
    multiply, product = algebra(u).multiply, u
    for step in range(1, length):
        product = multiply(product, shifted(u, step, direction, dimensions))
    return product


def wilson_loop(x: Links, plane: tuple[int, int], m: int, n: int) -> Real:
    """Re tr W/N of the m × n loop in a plane, m links along its first direction, from each site."""
    (mu, nu), d, of = plane, dimensions_of(x), algebra(x)
    bottom, left = line(along(x, mu), m, mu, d), line(along(x, nu), n, nu, d)
    return of.overlap(of.multiply(bottom, shifted(left, m, mu, d)), of.multiply(left, shifted(bottom, n, nu, d)))


def polyakov_loops(x: Links) -> Complex[Array, "direction chain"]:
    """Tr L/N of the loop that winds around each direction, averaged over the lattice."""
    d, of, means = dimensions_of(x), algebra(x), []
    for mu in range(d):
        loop = line(along(x, mu), x.shape[of.axes + 1 + mu], mu, d)
        means.append(jnp.mean(of.trace(loop), axis=tuple(range(d))))
    return jnp.stack(means)


# Symmetries.


def gauge_transform(x: Links, g: Elements) -> Links:
    """U_μ(n) → g(n)·U_μ(n)·g(n + μ̂)†."""
    d, of = dimensions_of(x), algebra(x)
    ends = jnp.stack([of.adjoint(shifted(g, 1, mu, d)) for mu in range(d)], axis=of.axes)
    return of.multiply(of.multiply(jnp.expand_dims(g, of.axes), x), ends)


def translate(x: Links, sites: Int[Array, " d"]) -> Links:
    """The field moved by so many sites along each direction."""
    first = algebra(x).axes + 1
    return jnp.roll(x, sites, axis=tuple(range(first, first + dimensions_of(x))))


def reflect(x: Links, axis: int) -> Links:
    """n_axis → −n_axis: links along the axis change their direction and start at their other end."""
    of = algebra(x)
    site = of.axes + 1 + axis
    # A link from n − μ̂ to n ends where the turned one starts: it is found one site further on.
    turned = jnp.roll(of.adjoint(along(x, axis)), 1, axis=site - 1)
    return jnp.roll(jnp.flip(x.at[(slice(None),) * of.axes + (axis,)].set(turned), axis=site), 1, axis=site)


def transpose(x: Links) -> Links:
    """(i, j) → (j, i) on a square lattice."""
    first = algebra(x).axes
    return jnp.flip(jnp.swapaxes(x, first + 1, first + 2), axis=first)


def rotate(x: Links) -> Links:
    """A quarter turn (i, j) → (−j, i) on a square lattice."""
    return reflect(transpose(x), 0)


# Angles in two dimensions.


def instanton(lattice: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "2 x t 1"]:
    """The field of charge one whose every plaquette is 2π/V (mod 2π)."""
    uniform = jnp.full((*lattice, 1), TWO_PI / (lattice[0] * lattice[1]), dtype)
    return wrap_angle(from_plaquettes(uniform, jnp.zeros((2, 1), dtype)))


def as_geometry_of_matrices(geometry: Geometry) -> UnitaryMatrices:
    """That of the same links as matrices."""
    return UnitaryMatrices(*colors_of(geometry), geometry.elements)
