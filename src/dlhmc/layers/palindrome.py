"""Parameters of a trajectory whose second half is the mirror image of the first; arrays hold the first half."""

import jax.numpy as jnp
from jaxtyping import Array


def mirrored(half: Array, number: int) -> Array:
    """First half and middle → all."""
    return jnp.concatenate([half, half[: number // 2][::-1]])


def mirrored_odd(half: Array, number: int) -> Array:
    """First half → all, with the opposite sign in the second half and zero in the middle."""
    return jnp.concatenate([padded(half, (number + 1) // 2), -half[::-1]])


def padded(half: Array, length: int) -> Array:
    """Zeros for the middle, where there is one."""
    return jnp.concatenate([half, jnp.zeros((length - half.shape[0], *half.shape[1:]), half.dtype)])
