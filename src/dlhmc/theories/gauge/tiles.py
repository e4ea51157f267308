"""A periodic lattice cut into equal tiles around a place drawn at random.

Where a proposal changes the links of each tile on their own, and no plaquette sees links of two tiles, the energy is a
sum over tiles, and accept/reject may decide for each of them: the number of moves grows with the lattice, and the
acceptance of each does not fall.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int, Num


def periods(sides: tuple[int, ...], window: float) -> tuple[int, ...]:
    """The smallest sides of tiles such that windows of this radius in their middles share no plaquette.

    >>> periods((16, 24), 2.6), periods((8, 8), 5.0)
    ((8, 8), (8, 8))
    """
    # A link is half a step from its plaquettes.
    least = 2 * window + 1
    return tuple(min([part for part in _divisors(side) if part > least], default=side) for side in sides)


def _divisors(side: int) -> list[int]:
    return [part for part in range(1, side + 1) if side % part == 0]


class Tiles(NamedTuple):
    """Tiles around `place` and around what lies whole periods from it."""

    place: Int[Array, " direction"]
    sides: tuple[int, ...]
    periods: tuple[int, ...]

    @property
    def number(self) -> int:
        """Of tiles."""
        return math.prod(self.sides) // math.prod(self.periods)

    def total(self, local: Num[Array, "..."]) -> Num[Array, "*tile chain"]:
        """The sums of a local field, whose last axes are sites and chains, over each tile."""
        d = len(self.sides)
        field = jnp.sum(local, axis=tuple(range(local.ndim - 1 - d)))
        # Blocks, not products with matrices of zeros and ones: 0·NaN would spoil the other tiles, too.
        starts = jnp.asarray(self.periods, jnp.int32) // 2 - self.place
        field = jnp.roll(field, starts, axis=tuple(range(d)))
        for axis, period in enumerate(self.periods):
            # The axes before this one are those of tiles by now.
            field = jnp.sum(field.reshape(*field.shape[:axis], -1, period, *field.shape[axis + 1 :]), axis=axis + 1)
        return field

    def spread(self, of_tiles: Num[Array, "*tile chain"]) -> Num[Array, "*site chain"]:
        """At each site the value of its tile."""
        return of_tiles[jnp.ix_(*self._tiles_of_sites())]

    def _tiles_of_sites(self) -> list[Int[Array, " site"]]:
        """Which tile a site belongs to, along each axis; the place is in the middle of the first."""
        return [
            (jnp.arange(side, dtype=jnp.int32) - self.place[axis] + period // 2) % side // period
            for axis, (side, period) in enumerate(zip(self.sides, self.periods, strict=True))
        ]
