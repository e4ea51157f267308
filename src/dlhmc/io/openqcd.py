"""openQCD's configurations in double precision: what `export_cnfg` writes (modules/archive/archive.c), for SU(3).

Little endian: the sides N0 (time), N1, N2, N3 of the lattice, the average of Re tr U_p, and the 8 links +0, −0, …, +3,
−3 of each odd site, sites (x0, x1, x2, x3) in lexicographic order. There is no checksum. The order needs even sides.
"""

import math
import struct
from collections.abc import Sequence

import numpy as np

from dlhmc.io.configuration import Configuration, native, plaquette, require_size, shown, verified

TITLE = "an openQCD configuration"
_HEADER = struct.Struct("<4id")
#: no lattice has more sites on a side, which tells its file from others
_MOST_SIDE = 4096


def recognises(head: bytes) -> bool:
    """Whether a file could be openQCD's: it says so by nothing but plausible sides."""
    return len(head) >= 16 and all(0 < side <= _MOST_SIDE for side in struct.unpack("<4i", head[:16]))


def decode(data: bytes) -> Configuration:
    """The configuration in a file; ValueError for whatever is wrong with it."""
    if len(data) < _HEADER.size:
        raise ValueError("it is truncated")
    *sides, stored = _HEADER.unpack_from(data)
    require_size(sides, 3, 4 * 9 * 16, len(data) - _HEADER.size)
    _require_even(sides)
    at_odd = np.frombuffer(data, "<c16", offset=_HEADER.size).reshape(-1, 4, 2, 3, 3)
    odd = _odd_sites(sides)
    links = np.empty((4, *sides, 3, 3), np.complex128)
    backward = np.empty_like(links[0])
    for mu in range(4):
        backward[odd] = at_odd[:, mu, 1]  # U_μ(x−μ) at x
        links[mu] = np.roll(backward, -1, axis=mu)
        links[mu, odd] = at_odd[:, mu, 0]
    links = native(np.moveaxis(links, 1, 4)[[1, 2, 3, 0]])  # time last
    # openQCD refuses what is off by √(6V) ε. Others add up in another order.
    rounding = 8 * math.sqrt(6 * math.prod(sides)) * np.finfo(float).eps
    return verified(links, {"plaquette": stored / 3}, {}, rounding, format="openqcd", precision=64)


def encode(configuration: Configuration) -> bytes:
    """A file that `import_cnfg` reads."""
    if configuration.colors != 3:
        raise ValueError(f"openQCD's format is for SU(3), and these are links of SU({configuration.colors})")
    links = configuration.links
    # time first: x0 is t, and x1, x2, x3 are x, y, z
    ordered = np.moveaxis(links[[3, 0, 1, 2]], 4, 1)
    sides = ordered.shape[1:5]
    _require_even(sides)
    odd = _odd_sites(sides)
    at_odd = [
        np.stack([ordered[mu, odd], np.roll(ordered[mu], 1, axis=mu)[odd]], axis=1)  # U_μ(x), U_μ(x−μ)
        for mu in range(4)
    ]
    return _HEADER.pack(*sides, 3 * plaquette(links)) + np.stack(at_odd, axis=1).astype("<c16").tobytes()


def _odd_sites(sides: Sequence[int]) -> np.ndarray:
    return np.indices(sides).sum(axis=0) % 2 == 1


def _require_even(sides: Sequence[int]) -> None:
    if any(side % 2 for side in sides):
        raise ValueError(f"openQCD's dimensions are even, and these are {shown(sides)} (t, x, y, z)")
