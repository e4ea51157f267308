"""What the backward pass through a trajectory finds in memory, and what it computes again.

A layer makes a hundred arrays of the size of the field. Products of matrices and polynomials are worth keeping; to
compute the others again is faster than to write all of them to memory and read them back.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array

_KEPT = "kept"


def keep(array: Array) -> Array:
    """Keep this array for the backward pass."""
    kept: Array = checkpoint_name(array, _KEPT)
    return kept


def recompute_the_rest(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, whose backward pass computes everything again that is not kept; for bodies of scans."""
    policy = jax.checkpoint_policies.save_only_these_names(_KEPT)
    again: Callable[..., Any] = jax.checkpoint(function, policy=policy, prevent_cse=False)
    return again
