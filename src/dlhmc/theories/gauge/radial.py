"""Functions of the distance from one place, given by their values at a few radii: the same on every lattice.

A place is the middle of the cell at a site n, n + (½, …, ½): in two dimensions the middle of a plaquette.
"""

import itertools
import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Place = Sequence[int] | Int[Array, " direction"]


def default_radii(reach: float) -> tuple[float, ...]:
    """Radii at which functions have a value: close together near the centre, then ever wider up to `reach`.

    >>> [round(r, 2) for r in default_radii(8.0)]
    [0.0, 1.0, 1.41, 2.0, 2.24, 3.0, 4.0, 5.0, 6.25, 8.0]
    """
    radii = [0.0, 1.0, math.sqrt(2), 2.0, math.sqrt(5), 3.0, 4.0]
    while (following := radii[-1] * 1.25) < 0.9 * reach:
        radii.append(following)
    return (*(r for r in radii if r < 0.9 * reach), reach)


def spread_out(side: int, number: int) -> list[int]:
    """So many places along a periodic axis, as far from each other as they can be.

    >>> spread_out(16, 3)
    [0, 5, 10]
    """
    return [k * side // number for k in range(number)]


def plaquette_distances(
    sides: tuple[int, ...], place: Place, numbers: tuple[int, ...] | None = None
) -> Float[Array, "plane *site"]:
    """Distance of the middle of each plaquette from a place on the periodic lattice.

    With `numbers`, from the nearest of as many places along each axis, spread out from this one.
    """
    planes = itertools.combinations(range(len(sides)), 2)
    return jnp.stack([_distances(sides, place, plane, numbers) for plane in planes])


def link_distances(
    sides: tuple[int, ...], place: Place, numbers: tuple[int, ...] | None = None
) -> Float[Array, "direction *site"]:
    """Distance of the middle of each link from a place, likewise."""
    return jnp.stack([_distances(sides, place, (axis,), numbers) for axis in range(len(sides))])


def _distances(
    sides: tuple[int, ...], place: Place, extended: tuple[int, ...], numbers: tuple[int, ...] | None
) -> Float[Array, "*site"]:
    """Of the middles of what extends from each site along some directions; along the others it is half a step away."""
    dtype = jnp.result_type(float)
    total = jnp.zeros((1,) * len(sides), dtype)
    for axis, (side, number) in enumerate(zip(sides, numbers or (1,) * len(sides), strict=True)):
        # Whole numbers first: the middle of a large lattice is as exact as its corner.
        centres = jnp.asarray(spread_out(side, number), jnp.int32)[:, None] + jnp.asarray(place[axis]).astype(jnp.int32)
        steps = (jnp.arange(side, dtype=jnp.int32) - centres) % side
        along = jnp.abs(steps.astype(dtype) - (0.0 if axis in extended else 0.5))
        away = jnp.min(jnp.minimum(along, side - along), axis=0)
        total = total + jnp.expand_dims(away**2, [other for other in range(len(sides)) if other != axis])
    return jnp.sqrt(total)


def basis(radii: Sequence[float], distances: Float[Array, "*field"]) -> Float[Array, "radius *field"]:
    """Hat functions: linear between neighbouring radii; beyond the last radius the last one is 1 (the bulk)."""
    one = jnp.ones_like(distances)
    rising = [one, *((distances - a) / (b - a) for a, b in itertools.pairwise(radii))]
    falling = [*((b - distances) / (b - a) for a, b in itertools.pairwise(radii)), one]
    return jnp.stack([jnp.clip(jnp.minimum(*sides), 0, 1) for sides in zip(rising, falling, strict=True)])


def inverse_sqrt_multiplicity(radii: Sequence[float]) -> Numbers:
    """1/√(number of plaquettes that a hat function moves), as on a large plane; the bulk counts as a square.

    Parameters are multiplied by it: otherwise the bulk would move hundreds of links at the rate of one.
    """
    side = 2 * math.ceil(radii[-1]) + 1
    distances = plane_distances(side, side)
    hats = np.stack([np.interp(distances, radii, row) for row in np.eye(len(radii))])
    return 1 / np.sqrt(np.maximum(1, hats.sum(axis=(1, 2))))


def plane_distances(first: int, second: int) -> Numbers:
    """Distances from a plaquette on a periodic lattice, in double precision whatever JAX is set to."""
    along = [np.abs(np.fft.fftfreq(side, 1 / side)) for side in (first, second)]
    return np.hypot(along[0][:, None], along[1][None, :])
