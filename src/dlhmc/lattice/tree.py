"""Links in a maximal-tree gauge."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from dlhmc.geometry.unitary import Matrices, adjoint, identity, multiply


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


def matrices_from_plaquettes(
    p: Complex[Array, "N N x t chain"], a: Matrices, b: Matrices
) -> Complex[Array, "N N 2 x t chain"]:
    """Links in the same gauge with the plaquettes P(i, j) = p[:, :, Lx − 1 − i, j]: their product is A B A† B†.

    P(i, j) = U_0(i, j) U_0(i, j + 1)† except in the last column, and with c(i) = U_1(i, Lt − 1) the product of row i is
    c(i + 1) c(i)†, or A B A† c(i)† for the last row.
    """
    p = p[:, :, ::-1]
    one = identity(p[:, :, :, 0])

    def along_row(u: Matrices, p: Matrices) -> tuple[Matrices, Matrices]:
        return multiply(adjoint(p), u), u

    last, along_0 = jax.lax.scan(along_row, one.at[:, :, -1].set(a), jnp.moveaxis(p, 3, 0))
    rows = jnp.moveaxis(adjoint(last), 2, 0)  # the products of the rows, in all but the last one

    def along_column(u: Matrices, row: Matrices) -> tuple[Matrices, Matrices]:
        return multiply(row, u), u

    _, closing = jax.lax.scan(along_column, b, rows)
    along_1 = identity(p).at[:, :, :, -1].set(jnp.moveaxis(closing, 0, 2))
    return jnp.stack([jnp.moveaxis(along_0, 0, 3), along_1], axis=2)
