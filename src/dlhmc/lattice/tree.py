"""Links in a maximal-tree gauge."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def from_plaquettes(p: Float[Array, "x t chain"], holonomies: Float[Array, "2 chain"]) -> Float[Array, "2 x t chain"]:
    """Links in a maximal-tree gauge with the given plaquettes (their sum a multiple of 2π) and holonomies.

    The tree holds all links along 1 but the last of each row, and the links along 0 of column 0 but the last:
    they are 0, and the other links follow from the plaquettes one after the other.
    """
    inclusive = jnp.cumsum(p, axis=1)
    along_0 = p - inclusive  # x_0(i, j) = −Σ_{j′<j} p(i, j′)
    along_0 = along_0.at[-1].add(holonomies[0])
    columns = inclusive[:, -1]
    closing = jnp.cumsum(columns, axis=0) - columns  # x_1(i, Lt − 1) = Σ_{i′<i} Σ_j p(i′, j)
    along_1 = jnp.zeros_like(p).at[:, -1].set(closing + holonomies[1])
    return jnp.stack([along_0, along_1])
