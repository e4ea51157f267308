"""The CP^{N−1} model on a periodic lattice in two dimensions, with its U(1) links integrated out.

Unit vectors z(n) ∈ C^N are real numbers z[i, j, part, color, chain], with real and imaginary parts apart. Links λ turn
their phases, S = −2βN Σ [Re(z̄(n + μ̂)·z(n) λ_μ(n)) − 1], and ∫dλ leaves a function of w_μ(n) = z̄(n + μ̂)·z(n).
"""

from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i0e, i1e
from jaxtyping import Array, ArrayLike, Float, Key

from dlhmc.geometry.contract import PerChain, sum_sites
from dlhmc.geometry.spheres import Spheres
from dlhmc.names import Start
from dlhmc.numerics import rng
from dlhmc.numerics.leaves import parameter
from dlhmc.settings import checked
from dlhmc.targets.contract import Moment, Observed, Symmetry, Target
from dlhmc.theories.cpn.theory import Beta, Colors, Sides
from dlhmc.theories.u1.links import shift

Vectors = Float[Array, "x t 2 color chain"]
#: a complex number for each site
Parts = tuple[Float[Array, "x t chain"], Float[Array, "x t chain"]]


class CPN(Target):
    """S(z) = −Σ log I₀(2βN |w_μ(n)|) + 4βNV.

    >>> target = CPN(10, (8, 8), beta=0.8)
    >>> target.shape
    (8, 8, 2, 10)
    """

    moments: ClassVar[Mapping[str, Moment]] = {
        "energy": Moment("energy"),
        "charge_squared": Moment("charge", 2),
        "susceptibility": Moment("susceptibility"),
    }
    slow: ClassVar[Mapping[str, float | None]] = {"charge": 0.0, "energy": None}
    sector: ClassVar[str | None] = "charge"
    couplings: ClassVar[tuple[str, ...]] = ("beta",)

    colors: int = eqx.field(static=True)
    sides: tuple[int, int] = eqx.field(static=True)
    beta: Float[Array, ""]

    def __init__(self, colors: int, lattice: tuple[int, int], beta: ArrayLike) -> None:
        self.colors = checked("colors", colors, Colors)
        self.sides = checked("lattice", tuple(lattice), Sides)
        self.beta = parameter("beta", beta, Beta)

    @property
    def geometry(self) -> Spheres:
        """Vectors of N complex numbers, as twice as many real ones."""
        return Spheres(self.sides, (2, self.colors))

    def _stiffness(self, dtype: jnp.dtype) -> Float[Array, ""]:
        """2βN."""
        return (2 * self.colors) * self.beta.astype(dtype)

    def local_action(self, x: Vectors) -> Float[Array, "direction x t chain"]:
        """−log I₀(2βN|w|) + 2βN for each link, which does not cancel: log I₀(κ) = log i0e(κ) + κ."""
        stiffness = self._stiffness(x.dtype)
        sizes = jnp.stack([jnp.sqrt(_square(w)) for w in _links(x)])
        return stiffness * (1 - sizes) - jnp.log(i0e(stiffness * sizes))

    def force(self, x: Vectors) -> Vectors:
        """Σ h (|w|² z − w z′) over the four neighbours z′ of z, with h = 2βN A(2βN|w|)/|w| and A = I₁/I₀."""
        stiffness = self._stiffness(x.dtype)
        total = jnp.zeros((), x.dtype)
        for axis, (real, imaginary) in enumerate(_links(x)):
            square = _square((real, imaginary))
            size = jnp.sqrt(jnp.maximum(square, jnp.finfo(x.dtype).tiny))
            pull = stiffness * _bessel_ratio(stiffness * size) / size
            # Written out: XLA would compute Bessel functions again for each color.
            forward = jax.lax.optimization_barrier((pull * real, pull * imaginary, pull * square))
            back = tuple(shift(part, 1, axis) for part in forward)
            radial = (forward[2] + back[2])[:, :, None, None]
            neighbours = _times(forward[:2], shift(x, -1, axis)) + _times((back[0], -back[1]), shift(x, 1, axis))
            total = total + radial * x - neighbours
        return total

    def observables(self, x: Vectors) -> dict[str, Observed]:
        """⟨1 − Re wλ⟩ of a link, averaged over λ given z; the geometric charge, and Q²/V."""
        stiffness, volume = self._stiffness(x.dtype), self.sides[0] * self.sides[1]
        sizes = jnp.stack([jnp.sqrt(_square(w)) for w in _links(x)])
        energy = sum_sites(1 - sizes * _bessel_ratio(stiffness * sizes)) / (2 * volume)
        charge = self.charge(x)
        return {"energy": energy, "charge": charge, "susceptibility": charge**2 / volume}

    def charge(self, x: Vectors) -> PerChain:
        """(1/2π) Σ arg(z̄₁z₂·z̄₂z₃·z̄₃z₁) over the two triangles of each plaquette: an integer.

        B. Berg, M. Lüscher, Nucl. Phys. B 190 (1981) 412.
        """
        along, across = (jax.lax.complex(*w) for w in _links(x))
        diagonal = jax.lax.complex(*_product(jnp.roll(x, (-1, -1), (0, 1)), x))
        lower = jnp.conj(along * jnp.roll(across, -1, 0)) * diagonal
        upper = jnp.conj(diagonal) * jnp.roll(along, -1, 1) * across
        return jnp.round(sum_sites(jnp.angle(lower) + jnp.angle(upper)) / (2 * np.pi))

    def start(self, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Vectors:
        """Hot: uniform on the spheres; cold: all vectors alike."""
        shape = (*self.shape, chains)
        if kind == "cold":
            return jnp.zeros(shape, dtype).at[:, :, 0, 0].set(1)
        return self.geometry.project(rng.normal(key, shape, dtype))

    def symmetries(self) -> dict[str, Symmetry]:
        """Phases at each site, translations, complex conjugation and a reflection."""

        def turn(key: Key[Array, ""], x: Vectors) -> Vectors:
            angle = rng.normal(key, (*self.sides, x.shape[-1]), x.dtype)
            return _times((jnp.cos(angle), jnp.sin(angle)), x)

        def translate(key: Key[Array, ""], x: Vectors) -> Vectors:
            return jnp.roll(x, jax.random.randint(key, (2,), 1, jnp.array(self.sides)), (0, 1))

        odd = frozenset({"charge"})
        return {
            "phases": Symmetry(turn),
            "translation": Symmetry(translate),
            "complex conjugation": Symmetry(lambda _, x: x.at[:, :, 1].multiply(-1), odd),
            "turn of the lattice": Symmetry(lambda _, x: jnp.flip(x, (0, 1))),
        }


def _product(a: Vectors, b: Vectors) -> Parts:
    """ā·b."""
    real, imaginary = a[:, :, 0], a[:, :, 1]
    of_b, times_i = b[:, :, 0], b[:, :, 1]
    return jnp.sum(real * of_b + imaginary * times_i, axis=2), jnp.sum(real * times_i - imaginary * of_b, axis=2)


def _links(x: Vectors) -> list[Parts]:
    """w_μ(n) = z̄(n + μ̂)·z(n) in both directions."""
    return [jax.lax.optimization_barrier(_product(shift(x, -1, axis), x)) for axis in (0, 1)]


def _times(factor: Parts, x: Vectors) -> Vectors:
    """A complex number times the vector of each site."""
    real, imaginary = (part[:, :, None, None] for part in factor)
    signs = jnp.asarray([-1, 1], x.dtype)[:, None, None]
    return real * x + imaginary * signs * jnp.flip(x, 2)


def _square(w: Parts) -> Float[Array, "x t chain"]:
    return w[0] * w[0] + w[1] * w[1]


def _bessel_ratio(argument: Array) -> Array:
    """A = I₁/I₀, the mean of the cosine."""
    return i1e(argument) / i0e(argument)
