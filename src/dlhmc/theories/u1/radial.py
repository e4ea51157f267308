"""Functions of the distance from one plaquette, given by their values at a few radii: the same on every lattice."""

import itertools
import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Place = tuple[int, int] | Int[Array, "2"]


def default_radii(reach: float) -> tuple[float, ...]:
    """Radii at which functions have a value: close together near the centre, then ever wider up to `reach`.

    >>> [round(r, 2) for r in default_radii(8.0)]
    [0.0, 1.0, 1.41, 2.0, 2.24, 3.0, 4.0, 5.0, 6.25, 8.0]
    """
    radii = [0.0, 1.0, math.sqrt(2), 2.0, math.sqrt(5), 3.0, 4.0]
    while (following := radii[-1] * 1.25) < 0.9 * reach:
        radii.append(following)
    return (*(r for r in radii if r < 0.9 * reach), reach)


def plaquette_distances(lattice: tuple[int, int], place: Place = (0, 0)) -> Array:
    """Distance of each plaquette from the plaquette `place` on the periodic lattice, [x, t]."""
    return _distances(lattice, place, (0.0, 0.0))


def link_distances(lattice: tuple[int, int], place: Place = (0, 0)) -> Array:
    """Distance of the middle of each link from that of the plaquette `place`, [μ, x, t]."""
    # The middle of plaquette n is n + (½, ½), that of link 0 at n is n + (½, 0), of link 1 n + (0, ½).
    return jnp.stack([_distances(lattice, place, (0.0, -0.5)), _distances(lattice, place, (-0.5, 0.0))])


def _distances(lattice: tuple[int, int], place: Place, offset: tuple[float, float]) -> Array:
    dtype = jnp.result_type(float)
    away = []
    for axis in (0, 1):
        side = lattice[axis]
        # Whole numbers first: the middle of a large lattice is as exact as its corner.
        centre = jnp.asarray(place[axis]).astype(jnp.int32)
        steps = (jnp.arange(side, dtype=jnp.int32) - centre + side // 2) % side - side // 2
        along = jnp.abs(steps.astype(dtype) + offset[axis])
        away.append(jnp.minimum(along, side - along))
    return jnp.sqrt(away[0][:, None] ** 2 + away[1][None, :] ** 2)


def basis(radii: Sequence[float], distances: Float[Array, "*field"]) -> Float[Array, "radius *field"]:
    """Hat functions: linear between neighbouring radii; beyond the last radius the last one is 1 (the bulk)."""
    one = jnp.ones_like(distances)
    rising = [one, *((distances - a) / (b - a) for a, b in itertools.pairwise(radii))]
    falling = [*((b - distances) / (b - a) for a, b in itertools.pairwise(radii)), one]
    return jnp.stack([jnp.clip(jnp.minimum(*sides), 0, 1) for sides in zip(rising, falling, strict=True)])


def inverse_sqrt_multiplicity(radii: Sequence[float]) -> Numbers:
    """1/√(number of plaquettes that a hat function moves), as on a large lattice; the bulk counts as a square.

    Parameters are multiplied by it: otherwise the bulk would move hundreds of links at the rate of one.
    """
    distances = _host_distances(2 * math.ceil(radii[-1]) + 1)
    hats = np.stack([np.interp(distances, radii, row) for row in np.eye(len(radii))])
    return 1 / np.sqrt(np.maximum(1, hats.sum(axis=(1, 2))))


def flux_potential(radii: Sequence[float]) -> Numbers:
    """φ at the radii, with −Δφ = 2π at plaquette (0, 0) and −2π spread evenly over the disc within the last radius.

    Moving the links by curl φ takes a unit of flux from the centre and gives it to the disc.
    """
    reach = radii[-1]
    side = 4 * math.ceil(reach) + 1
    distances = _host_distances(side)
    disc = np.clip(reach + 0.5 - distances, 0, 1)
    source = -2 * np.pi * disc / disc.sum()
    source[0, 0] += 2 * np.pi
    wave = 2 * np.cos(2 * np.pi * np.fft.fftfreq(side))
    laplacian = wave[:, None] + wave[None, :] - 4
    laplacian[0, 0] = 1  # the source has no constant part
    potential = np.fft.ifft2(np.fft.fft2(source) / -laplacian).real
    order = np.argsort(distances, axis=None)
    values = np.interp(radii, distances.ravel()[order], potential.ravel()[order])
    return np.asarray(values - values[-1])


def _host_distances(side: int) -> Numbers:
    """The distances of `plaquette_distances` on a square of odd side, in double precision whatever JAX is set to."""
    along = np.abs(np.fft.fftfreq(side, 1 / side))
    return np.hypot(along[:, None], along[None, :])
