"""log |det D| by LU decomposition, in double precision whatever the precision of the run.

Of order V, it would lose in single precision the digits that its changes have. What leaves here is therefore the sum of
two numbers in the precision of the field, the second being what rounding takes from the first: differences are formed
of each apart.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from dlhmc.theories.schwinger.dirac import Dirac
from dlhmc.theories.u1.links import Links

Mass = Float[Array, ""]
Terms = Float[Array, "2 chain"]


@jax.custom_jvp
def log_determinant(x: Links, mass: Mass) -> Terms:
    """log |det D| as two terms. It can be differentiated once, in the precision of x."""
    with jax.enable_x64(True):
        return _rounded(Dirac.at(x.astype(jnp.float64), mass).log_determinant(), x)


@log_determinant.defjvp
def _derivative(at: tuple[Links, Mass], along: tuple[Links, Mass]) -> tuple[Terms, Terms]:
    """d log |det D| = Re tr Â⁻¹ dÂ + V d log(m + 2): one decomposition gives value and inverse."""
    x, mass = at
    with jax.enable_x64(True):
        dirac = Dirac.at(x.astype(jnp.float64), mass)
        factors = jax.scipy.linalg.lu_factor(dirac.matrix())
        size = factors[0].shape[-1]  # half of the sites, two spins
        inverse = jax.scipy.linalg.lu_solve(factors, jnp.broadcast_to(jnp.eye(size, dtype=complex), factors[0].shape))
        pivots = jnp.abs(jnp.diagonal(factors[0], axis1=1, axis2=2))
        value = _rounded(jnp.sum(jnp.log(pivots), axis=1) + size * jnp.log(dirac.diagonal), x)
        weights = jax.lax.complex(inverse.real.astype(x.dtype), inverse.imag.astype(x.dtype))

    def work(x: Links, mass: Mass) -> Float[Array, " chain"]:
        dirac = Dirac.at(x, mass)
        return _trace(weights, dirac.matrix()) + size * jnp.log(dirac.diagonal)

    change = jax.jvp(work, at, along)[1]
    return value, jnp.stack([change, jnp.zeros_like(change)])


def _rounded(number: Float[Array, " chain"], like: Links) -> Terms:
    high = number.astype(like.dtype)
    return jnp.stack([high, (number - high.astype(number.dtype)).astype(like.dtype)])


def _trace(a: Complex[Array, "chain row column"], b: Complex[Array, "chain row column"]) -> Float[Array, " chain"]:
    """Re tr ab."""
    return jnp.sum((a * jnp.swapaxes(b, 1, 2)).real, axis=(1, 2))
