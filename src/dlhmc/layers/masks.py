"""Masks m that divide the components of x into the half that a position update moves and the half that it sees."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Key


def random_mask(key: Key[Array, ""], shape: Sequence[int]) -> Bool[Array, "*field"]:
    """A random half of the components (one more than half if their number is odd)."""
    size = int(np.prod(shape))
    return (jax.random.permutation(key, size) % 2 == 0).reshape(tuple(shape))


def checkerboard_mask(shape: Sequence[int]) -> Bool[Array, "*field"]:
    """Every other component along every axis."""
    return jnp.asarray(np.indices(tuple(shape)).sum(axis=0) % 2 == 0)


def tiled(mask: Bool[Array, "*cell"], shape: Sequence[int]) -> Bool[Array, "*field"]:
    """The mask of a cell, repeated all over the field."""
    return jnp.tile(mask, [size // period for size, period in zip(shape, mask.shape, strict=True)])
