"""Does this jaxlib add up? Some versions do not, now and then (docs/limits.md, "Machines")."""

import jax
import jax.numpy as jnp
import numpy as np


def wrong_sums(calls: int = 300) -> int:
    """Of so many calls each of two compiled sums of whole numbers: how many are wrong.

    The first adds an array that is repeated along a leading axis and shared by threads (tensorflow issue 126812); one
    thread alone adds rightly. The second adds squares of small products of matrices (jax issue 39103).
    """
    ones = jnp.ones((1024, 1), jnp.float32)
    rows = jnp.arange(40_000, dtype=jnp.float32)[:, None] % 4096 * jnp.array([1, 0, 0], jnp.float32)
    unit = jnp.eye(3, dtype=jnp.float32)
    sums = (
        (jax.jit(lambda x: jnp.sum(jnp.broadcast_to(x, (2, 1024, 1024)), (0, 1))), ones, 2048),
        (jax.jit(jax.vmap(lambda row: jnp.sum((unit @ row) ** 2))), rows, np.asarray(rows)[:, 0] ** 2),
    )
    return sum(bool((np.asarray(add(x)) != expected).any()) for add, x, expected in sums for _ in range(calls))
