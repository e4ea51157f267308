"""The CP^{N−1} action on a periodic lattice in two dimensions, with its U(1) links integrated out.

Unit vectors z(n) ∈ C^N are real numbers z[i, j, part, color, chain], with real and imaginary parts apart. Links λ turn
their phases, S = −2βN Σ [Re(z̄(n + μ̂)·z(n) λ_μ(n)) − 1], and ∫dλ leaves a function of w_μ(n) = z̄(n + μ̂)·z(n).
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i0e, i1e
from jaxtyping import Array, Float
from numpy.typing import NDArray

from dlhmc.actions.contract import CellAction, Numbers, Terms
from dlhmc.geometry.contract import Geometry, PerChain, sum_sites
from dlhmc.lattice.links import shift
from dlhmc.numerics.leaves import leaf

Vectors = Float[Array, "x t 2 color chain"]
#: a complex number for each site
Parts = tuple[Float[Array, "x t chain"], Float[Array, "x t chain"]]


class Bonds(CellAction):
    """−Σ log I₀(2βN |w_μ(n)|) + 4βNV: cells are bonds from a site to the next."""

    reach: ClassVar[int] = 1
    links: ClassVar[bool] = False

    beta: Float[Array, ""] = eqx.field(converter=leaf)

    def terms(self, x: Vectors) -> Terms:
        """−log I₀(2βN|w|) + 2βN for each link, which does not cancel: log I₀(κ) = log i0e(κ) + κ."""
        concentration = _concentration(self.beta, x)
        sizes = jnp.stack([jnp.sqrt(_square(w)) for w in _links(x)])
        return concentration * (1 - sizes) - jnp.log(i0e(concentration * sizes))

    def force(self, geometry: Geometry, x: Vectors) -> Vectors:
        """Σ h (|w|² z − w z′) over the four neighbours z′ of z, with h = 2βN A(2βN|w|)/|w| and A = I₁/I₀."""
        return self._weighted_force(x, (1, 1))

    def stiffness(self, geometry: Geometry) -> Float[Array, ""]:
        """βN for each of the four bonds of a site."""
        return 4 * geometry.shape[-1] * self.beta

    def cells_of(self, elements: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Bonds that begin or end there."""
        (sites,) = elements
        return np.stack([sites | np.roll(sites, -1, axis) for axis in (0, 1)])

    def heads(self, geometry: Geometry) -> tuple[int, int]:
        return 1, 0

    def numbers(self, geometry: Geometry, x: Vectors) -> Numbers:
        """|w|²."""
        return jnp.stack([_square(w) for w in _links(x)])[None]

    def pushed_force(self, geometry: Geometry, x: Vectors, weights: Numbers, pushes: Numbers) -> Vectors:
        """A bond has no density of the charge."""
        return self._weighted_force(x, weights[0])

    def _weighted_force(self, x: Vectors, weights: Any) -> Vectors:
        concentration = _concentration(self.beta, x)
        total = jnp.zeros((), x.dtype)
        for axis, (real, imaginary) in enumerate(_links(x)):
            square = _square((real, imaginary))
            size = jnp.sqrt(jnp.maximum(square, jnp.finfo(x.dtype).tiny))
            pull = weights[axis] * (concentration * _bessel_ratio(concentration * size) / size)
            # Written out: XLA would compute Bessel functions again for each color.
            forward = jax.lax.optimization_barrier((pull * real, pull * imaginary, pull * square))
            back = tuple(shift(part, 1, axis) for part in forward)
            radial = (forward[2] + back[2])[:, :, None, None]
            neighbours = times(forward[:2], shift(x, -1, axis)) + times((back[0], -back[1]), shift(x, 1, axis))
            total = total + radial * x - neighbours
        return total


def energy(beta: Float[Array, ""], x: Vectors) -> PerChain:
    """⟨1 − Re wλ⟩ of a link, averaged over λ given z."""
    sizes = jnp.stack([jnp.sqrt(_square(w)) for w in _links(x)])
    return sum_sites(1 - sizes * _bessel_ratio(_concentration(beta, x) * sizes)) / sizes[..., 0].size


def charge(x: Vectors) -> PerChain:
    """(1/2π) Σ arg(z̄₁z₂·z̄₂z₃·z̄₃z₁) over the two triangles of each plaquette: an integer.

    B. Berg, M. Lüscher, Nucl. Phys. B 190 (1981) 412.
    """
    along, across = (jax.lax.complex(*w) for w in _links(x))
    diagonal = jax.lax.complex(*_product(jnp.roll(x, (-1, -1), (0, 1)), x))
    lower = jnp.conj(along * jnp.roll(across, -1, 0)) * diagonal
    upper = jnp.conj(diagonal) * jnp.roll(along, -1, 1) * across
    return jnp.round(sum_sites(jnp.angle(lower) + jnp.angle(upper)) / (2 * np.pi))


def _concentration(beta: Float[Array, ""], x: Vectors) -> Float[Array, ""]:
    """κ = 2βN."""
    return (2 * x.shape[3]) * beta.astype(x.dtype)


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
