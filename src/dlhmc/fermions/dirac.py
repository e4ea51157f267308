"""The Wilson–Dirac operator in two dimensions, on even and odd sites apart.

    (Dψ)(n) = (m + 2) ψ(n) − (Hψ)(n),
    (Hψ)(n) = ½ Σ_μ [(1 − γ_μ) U_μ(n) ψ(n + μ̂) + (1 + γ_μ) U_μ†(n − μ̂) ψ(n − μ̂)],

with γ₀ = σ₁, γ₁ = σ₂, γ₅ = σ₃, antiperiodic along the second axis, which is time. H leads from even to odd sites and
back, so that with a = m + 2

    det D = a^V det Â,   Â = a − H_eo H_oe / a   on the V/2 even sites with two spins each.

Spinors are ψ[spin, i, j, chain] with a row of every other site: t = 2j + (i + parity) mod 2.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from dlhmc.geometry.contract import PerChain
from dlhmc.lattice.links import Links, shift
from dlhmc.numerics import trig

#: on the sites of one parity
Spinor = Complex[Array, "2 x half chain"]
#: on all sites
FullSpinor = Complex[Array, "2 x t chain"]
#: U_μ on the sites of one parity
HalfLinks = Complex[Array, "2 x half chain"]


class Dirac(NamedTuple):
    """Â at one gauge field: the links on even and on odd sites, with the sign of the boundary, and a."""

    even: HalfLinks
    odd: HalfLinks
    diagonal: Float[Array, ""]

    @classmethod
    def at(cls, x: Links, mass: Float[Array, ""]) -> "Dirac":
        """Of these links."""
        last = np.arange(x.shape[2]) == x.shape[2] - 1
        sign = jnp.asarray(np.where(last, -1.0, 1.0), x.dtype)[:, None]
        sine, cosine = (jnp.stack([part[0], sign * part[1]]) for part in trig.sin_cos(x))
        links = jax.lax.complex(cosine, sine)
        return cls(_sites(links, 0), _sites(links, 1), mass.astype(x.dtype) + 2)

    def apply(self, psi: Spinor) -> Spinor:
        """Â ψ."""
        diagonal = self.diagonal.astype(psi.dtype)
        return diagonal * psi - self._hop(self._hop(psi, 1), 0) / diagonal

    def adjoint(self, psi: Spinor) -> Spinor:
        """Â†ψ = γ₅ Â γ₅ ψ."""
        return _gamma5(self.apply(_gamma5(psi)))

    def _hop(self, psi: Spinor, to: int) -> Spinor:
        """H ψ on the sites of parity `to`; ψ lives on the others."""
        there, here = (self.even, self.odd) if to else (self.odd, self.even)
        up, down = psi
        # (1 ∓ γ_μ) has rank one: a single number for each direction goes from site to site.
        ahead = here[0] * shift(up - down, -1, axis=0)
        behind = shift(there[0].conj() * (up + down), 1, axis=0)
        later = here[1] * _in_time(up + 1j * down, -1, to)
        earlier = _in_time(there[1].conj() * (up - 1j * down), 1, to)
        return 0.5 * jnp.stack([ahead + behind + later + earlier, behind - ahead + 1j * (earlier - later)])

    def solution(self, b: FullSpinor, solve: Callable[[Spinor], Spinor]) -> FullSpinor:
        """D⁻¹b on all sites; `solve` is Â⁻¹ on the even ones: ψ_e = Â⁻¹(b_e + H_eo b_o/a), ψ_o = (b_o + H_oe ψ_e)/a."""
        diagonal = self.diagonal.astype(b.dtype)
        even, odd = _sites(b, 0), _sites(b, 1)
        psi = solve(even + self._hop(odd, 0) / diagonal)
        return _all_sites(psi, (odd + self._hop(psi, 1)) / diagonal)

    def matrix(self) -> Complex[Array, "chain row column"]:
        """Â as a dense matrix."""
        shape = self.even.shape[:-1]
        size, chains = int(np.prod(shape)), self.even.shape[-1]
        basis = jnp.eye(size, dtype=self.even.dtype).reshape(size, *shape, 1)
        columns = jax.vmap(lambda psi: self.apply(jnp.broadcast_to(psi, (*shape, chains))))(basis)
        return jnp.moveaxis(columns.reshape(size, size, chains), (0, 1, 2), (2, 1, 0))

    def log_determinant(self) -> PerChain:
        """log |det D|, of all sites."""
        sites = self.even[0, ..., 0].size * 2
        return jnp.linalg.slogdet(self.matrix())[1] + sites * jnp.log(self.diagonal)


def _sites(field: Complex[Array, "2 x t chain"], parity: int) -> HalfLinks:
    """Those of one parity."""
    two, x, t, chains = field.shape
    pairs = field.reshape(two, x, t // 2, 2, chains)
    return jnp.where(_is_late(x, parity), pairs[..., 1, :], pairs[..., 0, :])


def _all_sites(even: Spinor, odd: Spinor) -> FullSpinor:
    """Both parities in the order of time."""
    two, x, half, chains = even.shape
    first_is_odd = _is_late(x, 0)
    pairs = jnp.stack([jnp.where(first_is_odd, odd, even), jnp.where(first_is_odd, even, odd)], axis=3)
    return pairs.reshape(two, x, 2 * half, chains)


def _is_late(rows: int, parity: int) -> Array:
    """Whether the sites of a row are the later ones of their pairs."""
    return jnp.asarray((np.arange(rows) + parity) % 2 == 1)[:, None, None]


def _in_time(field: Complex[Array, "x half chain"], by: int, to: int) -> Complex[Array, "x half chain"]:
    """Moved by one site in time, to sites of parity `to`: in half of the rows the neighbour is in the same pair."""
    late = _is_late(field.shape[0], to)
    other_pair = late if by < 0 else ~late
    return jnp.where(other_pair, shift(field, by, axis=1), field)


def _gamma5(psi: Spinor) -> Spinor:
    return jnp.stack([psi[0], -psi[1]])
