"""Leaves of pytrees: numbers as leaves, leaves by name, and their fingerprints."""

import hashlib
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike
from numpy.typing import NDArray


def leaf(value: ArrayLike) -> Array:
    """A number or NumPy array in the precision that JAX is set to; arrays of JAX stay as they are.

    It stays on the host, because a copy to the device (`jnp.asarray`) compiles a program for every new shape.
    """
    if isinstance(value, jax.Array):
        return value
    array = np.asarray(value)
    return cast(Array, array.astype(jnp.result_type(float if array.dtype.kind == "f" else int)))


def by_name(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by their path in it."""
    leaves, _ = jax.tree.flatten_with_path(tree)
    return {jax.tree_util.keystr(path): value for path, value in leaves}


def digest(array: NDArray[Any]) -> str:
    """SHA-256 of dtype, shape and values."""
    header = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(header + np.ascontiguousarray(array).tobytes()).hexdigest()
