"""log |det D| by LU decomposition, in double precision whatever the precision of the run.

Of order V, it would lose in single precision the digits that its changes have. What leaves here is therefore the sum of
two numbers in the precision of the field, the second being what rounding takes from the first: differences are formed
of each apart.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from dlhmc.fermions.dirac import Dirac
from dlhmc.lattice.links import Links

Mass = Float[Array, ""]
Terms = Float[Array, "2 chain"]
Matrix = Complex[Array, "chain row column"]


@jax.custom_jvp
def log_determinant(x: Links, mass: Mass) -> Terms:
    """log |det D| as two terms. It can be differentiated, in the precision of x."""
    with jax.enable_x64(True):
        return _rounded(Dirac.at(x.astype(jnp.float64), mass).log_determinant(), x)


@log_determinant.defjvp
def _derivative(at: tuple[Links, Mass], along: tuple[Links, Mass]) -> tuple[Terms, Terms]:
    """d log |det D| = Re tr Â⁻¹ dÂ + V d log(m + 2)."""
    value, inverse = _value_and_inverse(*at)

    def work(x: Links, mass: Mass) -> Float[Array, " chain"]:
        dirac = Dirac.at(x, mass)
        return _trace(inverse, dirac.matrix()) + inverse.shape[-1] * jnp.log(dirac.diagonal)

    change = jax.jvp(work, at, along)[1]
    return value, jnp.stack([change, jnp.zeros_like(change)])


@jax.custom_jvp
def _value_and_inverse(x: Links, mass: Mass) -> tuple[Terms, Matrix]:
    """log |det D| and Â⁻¹ from one decomposition."""
    with jax.enable_x64(True):
        dirac = Dirac.at(x.astype(jnp.float64), mass)
        factors = jax.scipy.linalg.lu_factor(dirac.matrix())
        size = factors[0].shape[-1]  # half of the sites, two spins
        inverse = jax.scipy.linalg.lu_solve(factors, jnp.broadcast_to(jnp.eye(size, dtype=complex), factors[0].shape))
        pivots = jnp.abs(jnp.diagonal(factors[0], axis1=1, axis2=2))
        value = _rounded(jnp.sum(jnp.log(pivots), axis=1) + size * jnp.log(dirac.diagonal), x)
        return value, jax.lax.complex(inverse.real.astype(x.dtype), inverse.imag.astype(x.dtype))


@_value_and_inverse.defjvp
def _change_of_inverse(
    at: tuple[Links, Mass], along: tuple[Links, Mass]
) -> tuple[tuple[Terms, Matrix], tuple[Terms, Matrix]]:
    """dÂ⁻¹ = −Â⁻¹ dÂ Â⁻¹."""
    value, inverse = _value_and_inverse(*at)
    change = jax.jvp(lambda x, mass: Dirac.at(x, mass).matrix(), at, along)[1]
    return (value, inverse), (jax.jvp(log_determinant, at, along)[1], -inverse @ change @ inverse)


def _rounded(number: Float[Array, " chain"], like: Links) -> Terms:
    high = number.astype(like.dtype)
    return jnp.stack([high, (number - high.astype(number.dtype)).astype(like.dtype)])


def _trace(a: Matrix, b: Matrix) -> Float[Array, " chain"]:
    """Re tr ab."""
    return jnp.sum((a * jnp.swapaxes(b, 1, 2)).real, axis=(1, 2))
