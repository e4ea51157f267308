"""The CP^{N−1} action on a periodic lattice in two dimensions, with its U(1) links integrated out.

Unit vectors z(n) ∈ C^N are real numbers z[i, j, part, color, chain], with real and imaginary parts apart. Links λ turn
their phases, S = −2βN Σ [Re(z̄(n + μ̂)·z(n) λ_μ(n)) − 1], and ∫dλ leaves a function of w_μ(n) = z̄(n + μ̂)·z(n).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i0e, i1e
from jaxtyping import Array, Float

from dlhmc.actions.contract import Action, Terms
from dlhmc.geometry.contract import Geometry, PerChain, sum_sites
from dlhmc.lattice.links import shift
from dlhmc.numerics.leaves import leaf

Vectors = Float[Array, "x t 2 color chain"]
#: a complex number for each site
Parts = tuple[Float[Array, "x t chain"], Float[Array, "x t chain"]]


class Bonds(Action):
    """−Σ log I₀(2βN |w_μ(n)|) + 4βNV."""

    beta: Float[Array, ""] = eqx.field(converter=leaf)

    def stiffness(self, x: Vectors) -> Float[Array, ""]:
        """2βN."""
        return (2 * x.shape[3]) * self.beta.astype(x.dtype)

    def terms(self, x: Vectors) -> Terms:
        """−log I₀(2βN|w|) + 2βN for each link, which does not cancel: log I₀(κ) = log i0e(κ) + κ."""
        stiffness = self.stiffness(x)
        sizes = jnp.stack([jnp.sqrt(_square(w)) for w in _links(x)])
        return stiffness * (1 - sizes) - jnp.log(i0e(stiffness * sizes))

    def force(self, geometry: Geometry, x: Vectors) -> Vectors:
        """Σ h (|w|² z − w z′) over the four neighbours z′ of z, with h = 2βN A(2βN|w|)/|w| and A = I₁/I₀."""
        stiffness = self.stiffness(x)
        total = jnp.zeros((), x.dtype)
        for axis, (real, imaginary) in enumerate(_links(x)):
            square = _square((real, imaginary))
            size = jnp.sqrt(jnp.maximum(square, jnp.finfo(x.dtype).tiny))
            pull = stiffness * _bessel_ratio(stiffness * size) / size
            # Written out: XLA would compute Bessel functions again for each color.
            forward = jax.lax.optimization_barrier((pull * real, pull * imaginary, pull * square))
            back = tuple(shift(part, 1, axis) for part in forward)
            radial = (forward[2] + back[2])[:, :, None, None]
            neighbours = times(forward[:2], shift(x, -1, axis)) + times((back[0], -back[1]), shift(x, 1, axis))
            total = total + radial * x - neighbours
        return total


def energy(beta: Float[Array, ""], x: Vectors) -> PerChain:
    """⟨1 − Re wλ⟩ of a link, averaged over λ given z."""
    stiffness = Bonds(beta).stiffness(x)
    sizes = jnp.stack([jnp.sqrt(_square(w)) for w in _links(x)])
    return sum_sites(1 - sizes * _bessel_ratio(stiffness * sizes)) / sizes[..., 0].size


def charge(x: Vectors) -> PerChain:
    """(1/2π) Σ arg(z̄₁z₂·z̄₂z₃·z̄₃z₁) over the two triangles of each plaquette: an integer.

    B. Berg, M. Lüscher, Nucl. Phys. B 190 (1981) 412.
    """
    along, across = (jax.lax.complex(*w) for w in _links(x))
    diagonal = jax.lax.complex(*_product(jnp.roll(x, (-1, -1), (0, 1)), x))
    lower = jnp.conj(along * jnp.roll(across, -1, 0)) * diagonal
    upper = jnp.conj(diagonal) * jnp.roll(along, -1, 1) * across
    return jnp.round(sum_sites(jnp.angle(lower) + jnp.angle(upper)) / (2 * np.pi))


def _product(a: Vectors, b: Vectors) -> Parts:
    """ā·b."""
    real, imaginary = a[:, :, 0], a[:, :, 1]
    of_b, times_i = b[:, :, 0], b[:, :, 1]
    return jnp.sum(real * of_b + imaginary * times_i, axis=2), jnp.sum(real * times_i - imaginary * of_b, axis=2)


def _links(x: Vectors) -> list[Parts]:
    """w_μ(n) = z̄(n + μ̂)·z(n) in both directions."""
    return [jax.lax.optimization_barrier(_product(shift(x, -1, axis), x)) for axis in (0, 1)]


def times(factor: Parts, x: Vectors) -> Vectors:
    """A complex number times the vector of each site."""
    real, imaginary = (part[:, :, None, None] for part in factor)
    signs = jnp.asarray([-1, 1], x.dtype)[:, None, None]
    return real * x + imaginary * signs * jnp.flip(x, 2)


def _square(w: Parts) -> Float[Array, "x t chain"]:
    return w[0] * w[0] + w[1] * w[1]


def _bessel_ratio(argument: Array) -> Array:
    """A = I₁/I₀, the mean of the cosine."""
    return i1e(argument) / i0e(argument)
