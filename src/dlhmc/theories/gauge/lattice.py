"""Group elements on the links of a periodic lattice of any dimension, and what can be done to them without a coupling.

Links are x[N, N, μ, *site, chain], with U_μ(n) from the site n to n + μ̂; those of one direction u[N, N, *site, chain].
"""

import functools
import itertools
import operator
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Complex, Float, Inexact, Int

from dlhmc.geometry.contract import Momentum
from dlhmc.geometry.unitary import Matrices, UnitaryMatrices, adjoint, multiply, square_norm, trace, trace_of_product

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
    return jnp.roll(field, -by, axis=field.ndim - 1 - dimensions + direction)


def corners(x: Links, plane: tuple[int, int]) -> tuple[Matrices, Matrices]:
    """Both ways from n to n + μ̂ + ν̂: first along μ, and first along ν. A plaquette is P = A·B†."""
    (mu, nu), d = plane, dimensions_of(x)
    u, w = x[:, :, mu], x[:, :, nu]
    return multiply(u, shifted(w, 1, mu, d)), multiply(w, shifted(u, 1, nu, d))


def plaquette_traces(x: Links) -> Plaquettes:
    """Re tr P/N."""
    return _by_plane(lambda a, b: trace_of_product(a, adjoint(b)).real, x) / x.shape[0]


def plaquette_defects(x: Links) -> Plaquettes:
    """1 − Re tr P/N = |A − B|²/2N, which keeps its relative precision where P is close to 1."""
    return _by_plane(lambda a, b: square_norm(a - b), x) / (2 * x.shape[0])


def _by_plane(function: Callable[[Matrices, Matrices], Float[Array, "*site chain"]], x: Links) -> Plaquettes:
    """A function of the corners of each plane; planes take turns, so that only the products of one are in memory."""
    pairs = planes(dimensions_of(x))
    branches = [lambda plane=plane: function(*corners(x, plane)) for plane in pairs]
    return jax.lax.map(lambda index: jax.lax.switch(index, branches), jnp.arange(len(pairs)))


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


class LatticeTransformation(eqx.Module):
    """Centre, charge conjugation, exchange of axes, reflections and translation, one after the other."""

    geometry: UnitaryMatrices
    phases: Float[Array, " d"]
    conjugated: Bool[Array, ""]
    #: pairs of axes of the same length, and whether they are exchanged
    pairs: tuple[tuple[int, int], ...] = eqx.field(static=True)
    transposed: Bool[Array, " pair"]
    reflected: Bool[Array, " d"]
    shift: Int[Array, " d"]

    def apply(self, x: Links, v: Momentum) -> tuple[Links, Momentum]:
        """The transformed links and momenta."""
        x, m = turn(x, self.phases), self.geometry.hermitian(v)
        for chosen, step in self._steps():
            x, m = _where(chosen, step(x, m), (x, m))
        return translate(x, self.shift), self._components(translate(m, self.shift))

    def undo(self, x: Links, v: Momentum) -> tuple[Links, Momentum]:
        """Those that `apply` maps to these."""
        x, m = translate(x, -self.shift), translate(self.geometry.hermitian(v), -self.shift)
        for chosen, step in reversed(self._steps()):
            x, m = _where(chosen, step(x, m), (x, m))
        return turn(x, -self.phases), self._components(m)

    def _steps(self) -> list[tuple[Bool[Array, ""], Callable[[Links, Links], tuple[Links, Links]]]]:
        """Those between centre and translation, and whether they are taken; each is its own inverse."""
        swaps = [lambda x, m, pair=pair: (transpose(x, *pair), transpose(m, *pair)) for pair in self.pairs]
        mirrors = [functools.partial(reflect, axis=axis) for axis in range(len(self.shift))]
        return [
            (self.conjugated, conjugate),
            *zip(self.transposed, swaps, strict=True),
            *zip(self.reflected, mirrors, strict=True),
        ]

    def _components(self, m: Links) -> Momentum:
        return self.geometry.components(1j * m)


def _where(condition: Bool[Array, ""], yes: tuple[Links, Links], no: tuple[Links, Links]) -> tuple[Links, Links]:
    return jnp.where(condition, yes[0], no[0]), jnp.where(condition, yes[1], no[1])
