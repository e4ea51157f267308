"""U(1) fields on the links of a periodic two-dimensional lattice, and what can be done to them without a coupling.

Links are x[μ, i, j, chain]; plaquettes p[i, j, chain].
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int

from dlhmc.geometry.torus import TWO_PI, wrap_angle
from dlhmc.lattice.tree import from_plaquettes
from dlhmc.numerics import trig
from dlhmc.numerics.devices import lattice_is_split
from dlhmc.targets.contract import Observables, Observed

Links = Float[Array, "2 x t chain"]
Plaquettes = Float[Array, "x t chain"]
Sites = Float[Array, "x t chain"]


def shift(field: Float[Array, "..."], by: int, axis: int) -> Float[Array, "..."]:
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


def as_matrices(x: Links) -> Complex[Array, "1 1 2 x t chain"]:
    """U = e^{ix}, as links of other groups are."""
    return jax.lax.complex(trig.cos(x), trig.sin(x))[None, None]


class OfAngles(eqx.Module):
    """What is measured of links that are matrices, for links that are angles."""

    of_matrices: Observables

    def __call__(self, x: Links) -> dict[str, Observed]:
        """Everything by name."""
        return self.of_matrices(as_matrices(x))


@jax.custom_jvp
def plaquettes(x: Links) -> Plaquettes:
    """x_P = x_0(n) + x_1(n + 0̂) − x_0(n + 1̂) − x_1(n), not wrapped."""
    return x[0] + shift(x[1], -1, axis=0) - shift(x[0], -1, axis=1) - x[1]


@plaquettes.defjvp
def _plaquettes_jvp(primals: tuple[Links], tangents: tuple[Links]) -> tuple[Plaquettes, Plaquettes]:
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


def curl(flow: Plaquettes) -> Links:
    """The derivative of a function of the plaquettes by the links, from its derivative `flow` by each plaquette.

    Each link is in two plaquettes, once with either orientation.
    """
    return jnp.stack([flow - shift(flow, 1, axis=1), shift(flow, 1, axis=0) - flow])


def gauge_transform(x: Links, alpha: Sites) -> Links:
    """x_μ(n) → α(n) + x_μ(n) − α(n + μ̂)."""
    return x + jnp.stack([alpha - jnp.roll(alpha, -1, axis=0), alpha - jnp.roll(alpha, -1, axis=1)])


def translate(x: Links, shift: Int[Array, "2"]) -> Links:
    """The configuration moved by `shift` sites along each direction."""
    return jnp.roll(x, shift, axis=(1, 2))


def reflect(x: Links, axis: int) -> Links:
    """n_axis → −n_axis: links along the axis change their direction and start at their other end."""
    flipped = jnp.roll(jnp.flip(x, axis=axis + 1), 1, axis=axis + 1)
    along = -jnp.roll(flipped[axis], -1, axis=axis)
    return flipped.at[axis].set(along)


def transpose(x: Links) -> Links:
    """(i, j) → (j, i) on a square lattice."""
    return jnp.swapaxes(x, 1, 2)[::-1]


def rotate(x: Links) -> Links:
    """A quarter turn (i, j) → (−j, i) on a square lattice."""
    return reflect(transpose(x), 0)


def instanton(lattice: tuple[int, int], dtype: jnp.dtype) -> Float[Array, "2 x t 1"]:
    """The field of charge one whose every plaquette is 2π/V (mod 2π)."""
    uniform = jnp.full((*lattice, 1), TWO_PI / (lattice[0] * lattice[1]), dtype)
    return wrap_angle(from_plaquettes(uniform, jnp.zeros((2, 1), dtype)))
