"""A periodic lattice cut into tiles around a place drawn at random.

Where a proposal changes the links of each tile on their own, and no plaquette sees links of two tiles, the energy is a
sum over tiles, and accept/reject may decide for each of them: the number of moves grows with the lattice, and the
acceptance of each does not fall.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Num

from dlhmc.theories.gauge.radial import spread_out


def tiles_along(sides: tuple[int, ...], window: float) -> tuple[int, ...]:
    """How many tiles along each axis can have a window of this radius in the middle that shares no plaquette.

    >>> tiles_along((16, 24), 2.6), tiles_along((16, 16), 2.4), tiles_along((8, 8), 5.0)
    ((2, 3), (3, 3), (1, 1))
    """
    if math.isinf(window):
        return (1,) * len(sides)
    # Links of a window that are closest to its edge lie across an axis, at half-integer distances below its radius;
    # their plaquettes reach half a step farther.
    least = 2 * math.ceil(window - 0.5) + 1
    return tuple(max(1, side // least) for side in sides)


class Tiles(NamedTuple):
    """Tiles around `place` and places spread out from it, `numbers` along each axis."""

    place: Int[Array, " direction"]
    sides: tuple[int, ...]
    numbers: tuple[int, ...]

    @property
    def number(self) -> int:
        """Of all tiles."""
        return math.prod(self.numbers)

    def total(self, local: Num[Array, "..."]) -> Num[Array, "*tile chain"]:
        """The sums of a local field, whose last axes are sites and chains, over each tile."""
        d = len(self.sides)
        field = jnp.sum(local, axis=tuple(range(local.ndim - 1 - d)))
        firsts = [_first_sites(side, number) for side, number in zip(self.sides, self.numbers, strict=True)]
        origin = self.place + jnp.asarray([first[0] for first in firsts], jnp.int32)
        field = jnp.roll(field, -origin, axis=tuple(range(d)))
        for axis, first in enumerate(firsts):
            # Pieces, not products with matrices of zeros and ones: 0·NaN would spoil the other tiles, too.
            pieces = jnp.split(field, [site - first[0] for site in first[1:]], axis=axis)
            field = jnp.concatenate([jnp.sum(piece, axis=axis, keepdims=True) for piece in pieces], axis=axis)
        return field

    def spread(self, of_tiles: Num[Array, "*tile chain"]) -> Num[Array, "*site chain"]:
        """At each site the value of its tile."""
        return of_tiles[jnp.ix_(*self._tiles_of_sites())]

    def _tiles_of_sites(self) -> list[Int[Array, " site"]]:
        """Which tile a site belongs to, along each axis; the place is in the middle of the first."""
        found = []
        for axis, (side, number) in enumerate(zip(self.sides, self.numbers, strict=True)):
            first = _first_sites(side, number)
            tiles = np.repeat(np.arange(number, dtype=np.int32), np.diff([*first, first[0] + side]))
            site = jnp.arange(side, dtype=jnp.int32) - self.place[axis] - first[0]
            found.append(jnp.asarray(tiles)[site % side])
        return found


def _first_sites(side: int, number: int) -> list[int]:
    """The first site of each tile, counted from the place: half-way from the middle of the tile before to its own."""
    middles = spread_out(side, number)
    before = [middles[-1] - side, *middles[:-1]]
    return [own - (own - other) // 2 for other, own in zip(before, middles, strict=True)]
