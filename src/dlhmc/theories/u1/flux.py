"""How a unit of flux is taken from one plaquette and spread over its surroundings."""

import math
from collections.abc import Sequence

import numpy as np

from dlhmc.theories.gauge.radial import Numbers, plane_distances


def flux_potential(radii: Sequence[float]) -> Numbers:
    """φ at the radii, with −Δφ = 2π at plaquette (0, 0) and −2π spread evenly over the disc within the last radius.

    Moving the links by curl φ takes a unit of flux from the centre and gives it to the disc.
    """
    reach = radii[-1]
    side = 4 * math.ceil(reach) + 1
    distances = plane_distances(side, side)
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
