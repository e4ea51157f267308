"""Leaves of pytrees: numbers as leaves, and leaves by name."""

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from dlhmc.settings import checked

T = TypeVar("T")


def leaf(value: ArrayLike) -> Array:
    """A number or NumPy array in the precision that JAX is set to; arrays of JAX stay as they are.

    It stays on the host, because a copy to the device (`jnp.asarray`) compiles a program for every new shape.
    """
    if isinstance(value, jax.Array):
        return value
    array = np.asarray(value)
    return cast(Array, array.astype(jnp.result_type(float if array.dtype.kind == "f" else int)))


def parameter(name: str, value: ArrayLike | Sequence[float], hint: Any) -> Array:
    """A number, or several, as a leaf, checked as the setting of that name; what is being traced cannot be."""
    if isinstance(value, jax.core.Tracer):
        return value
    number = checked(name, np.asarray(value).tolist(), hint)
    return leaf(value if isinstance(value, jax.Array) else number)


def integer(value: int, dtype: type[np.integer[Any]] = np.int32) -> Array:
    """A counter, index or seed that a compiled program takes as an array: a new value does not recompile."""
    return cast(Array, np.asarray(value, dtype))


def on_host(tree: T) -> T:
    """All arrays as NumPy's: a program takes them to whatever devices it runs on, those of other processes included."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    moved: T = eqx.combine(jax.device_get(arrays), rest)
    return moved


def in_double(tree: T) -> T:
    """All numbers in double precision, which JAX must be set to."""

    def doubled(a: Any) -> Any:
        return jnp.asarray(a, jnp.complex128 if jnp.iscomplexobj(a) else jnp.float64)

    numbers, rest = eqx.partition(tree, eqx.is_inexact_array)
    result: T = eqx.combine(jax.tree.map(doubled, numbers), rest)
    return result


def by_name(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by their path in it."""
    leaves, _ = jax.tree.flatten_with_path(tree)
    return {jax.tree_util.keystr(path): value for path, value in leaves}
