"""Functions of the distance from one plaquette, given by their values at a few radii: the same on every lattice."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def default_radii(reach: float) -> tuple[float, ...]:
    """Radii at which functions have a value: close together near the centre, then ever wider up to `reach`.

    >>> [round(r, 2) for r in default_radii(8.0)]
    [0.0, 1.0, 1.41, 2.0, 2.24, 3.0, 4.0, 5.0, 6.25, 8.0]
    """
    radii = [0.0, 1.0, math.sqrt(2), 2.0, math.sqrt(5), 3.0, 4.0]
    while (following := radii[-1] * 1.25) < 0.9 * reach:
        radii.append(following)
    return (*(r for r in radii if r < 0.9 * reach), reach)


def plaquette_distances(lattice: tuple[int, int]) -> Numbers:
    """Distance of each plaquette from plaquette (0, 0) on the periodic lattice, [x, t]."""
    return _distances(lattice, (0.0, 0.0))


def link_distances(lattice: tuple[int, int]) -> Numbers:
    """Distance of the middle of each link from that of plaquette (0, 0), [μ, x, t]."""
    # The middle of plaquette n is n + (½, ½), that of link 0 at n is n + (½, 0), of link 1 n + (0, ½).
    return np.stack([_distances(lattice, (0.0, -0.5)), _distances(lattice, (-0.5, 0.0))])


def _distances(lattice: tuple[int, int], offset: tuple[float, float]) -> Numbers:
    away = []
    for side, shifted in zip(lattice, offset, strict=True):
        along = np.arange(side) + shifted
        away.append(np.abs((along + side / 2) % side - side / 2))
    return np.hypot(away[0][:, None], away[1][None, :])


def basis(radii: Sequence[float], distances: Numbers) -> Numbers:
    """Hat functions: linear between neighbouring radii; beyond the last radius the last one is 1 (the bulk)."""
    return np.stack([np.interp(distances, radii, row) for row in np.eye(len(radii))])


def moderation(radii: Sequence[float]) -> Numbers:
    """1/√(number of plaquettes that a hat function moves), as on a large lattice; the bulk counts as a square.

    Parameters are multiplied by it: otherwise the bulk would move hundreds of links at the rate of one.
    """
    side = 2 * math.ceil(radii[-1]) + 1
    return 1 / np.sqrt(np.maximum(1, basis(radii, plaquette_distances((side, side))).sum(axis=(1, 2))))


def flux_potential(radii: Sequence[float]) -> Numbers:
    """φ at the radii, with −Δφ = 2π at plaquette (0, 0) and −2π spread evenly over the disc within the last radius.

    Moving the links by curl φ takes a unit of flux from the centre and gives it to the disc.
    """
    reach = radii[-1]
    side = 4 * math.ceil(reach) + 1
    distances = plaquette_distances((side, side))
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
