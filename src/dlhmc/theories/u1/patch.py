"""Patch networks: a small network on a window around the defect, whose cost does not grow with the lattice.

What it sees and what it gives are gauge-invariant functions of plaquettes, so a layer with it stays gauge-equivariant.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from dlhmc.networks.dense import Linear
from dlhmc.theories.u1.links import Plaquettes

Cut = Float[Array, "side side chain"]


class Window(NamedTuple):
    """A square of plaquettes around a place on the periodic lattice."""

    centre: Int[Array, "2"]
    side: int

    def _index(self, field: Plaquettes) -> tuple[Array, Array]:
        around = jnp.arange(self.side, dtype=self.centre.dtype) - self.side // 2
        rows, columns = ((self.centre[axis] + around) % field.shape[axis] for axis in (0, 1))
        return rows[:, None], columns[None, :]

    def cut(self, field: Plaquettes) -> Cut:
        """The field inside the window."""
        return field[self._index(field)]

    def add(self, field: Plaquettes, values: Cut) -> Plaquettes:
        """The field with values added inside the window."""
        return field.at[self._index(field)].add(values)


class Patch(eqx.Module):
    """One hidden layer on features of the plaquettes in a window; one output for each of them, zero at the start."""

    first: Linear
    last: Linear
    side: int = eqx.field(static=True)

    @classmethod
    def random(cls, key: Key[Array, ""], side: int, features: int, hidden: int) -> "Patch":
        """Random hidden units, no output."""
        size = side * side
        return cls(Linear.random(key, features * size, hidden), Linear.zero(hidden, size), side)

    def __call__(self, features: Float[Array, "feature side side chain"]) -> Cut:
        """A number for each plaquette of the window."""
        chains = features.shape[-1]
        h = jnp.tanh(self.first(features.reshape(-1, chains)))
        return self.last(h).reshape(self.side, self.side, chains)

    @classmethod
    def stack(cls, key: Key[Array, ""], number: int, side: int, features: int, hidden: int) -> "Patch":
        """`number` of them with a leading axis, as a scan takes them."""
        keys = jax.random.split(key, number)
        return eqx.filter_vmap(lambda k: cls.random(k, side, features, hidden))(keys)
