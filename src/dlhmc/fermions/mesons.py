"""Condensate and mesons: the quark propagator between all pairs of sites, and what is made of it.

    condensate = Re tr D⁻¹/V
    C_π(t) = 1/V Σ_{n,m: t_m − t_n = t} tr[γ₅ D⁻¹(m,n) γ₅ D⁻¹(n,m)] = 1/V Σ |D⁻¹(m,n)|²
    C_η(t) = C_π(t) − N_f/V Σ_{n,m: t_m − t_n = t} L(n) L(m),   L(n) = tr γ₅ D⁻¹(n,n)

for the isovector ψ̄γ₅τψ and the normalised singlet N_f^{−1/2} Σ_f ψ̄_f γ₅ψ_f. γ₅D⁻¹γ₅ = (D⁻¹)† makes L real, and both
correlators symmetric, C(t) = C(L_t − t), on every configuration: t goes from 0 to L_t/2.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Key

from dlhmc.fermions.dirac import Dirac, Spinor
from dlhmc.fermions.solver import invert
from dlhmc.lattice.links import Links

OneConfiguration = Float[Array, "2 x t"]
#: D⁻¹(m, n), sink before source
Propagator = Complex[Array, "2 x t 2 x t"]


class MesonObservables(eqx.Module):
    """Condensate, pion and eta, as observables of a run; chains are measured one after the other.

    Without `sources`, all propagators of a configuration come from the inverse of Â, a dense V×V matrix: that takes a
    time ~ V³, and D⁻¹ the memory of 4V² complex numbers. With them, from so many random sources on each time slice.
    """

    mass: Float[Array, ""]
    flavours: int = eqx.field(static=True)
    sources: int = eqx.field(static=True, default=0)
    residual: float = eqx.field(static=True, default=1e-6)
    most_iterations: int = eqx.field(static=True, default=2000)

    def __call__(self, x: Links) -> dict[str, Array]:
        """Numbers and correlators [t] of each chain."""
        measure = self._with_sources if self.sources else self._exactly
        found = jax.lax.map(measure, jnp.moveaxis(x, -1, 0))
        return {name: jnp.moveaxis(values, 0, -1) for name, values in found.items()}

    def _exactly(self, x: OneConfiguration) -> dict[str, Array]:
        s = propagator(x, self.mass)
        loops = diagonal(s)
        singlet = jnp.sum((loops[0] - loops[1]).real, axis=0)
        return self._found(x[0].size, _square(s, (0, 1, 3, 4)), jnp.sum(loops.real), singlet[:, None] * singlet)

    def _with_sources(self, x: OneConfiguration) -> dict[str, Array]:
        """With ξ ∈ {±1, ±i} on one time slice at a time, ⟨ξ ξ†⟩ = 1: |D⁻¹ξ|² is the pion, ξ†γ₅D⁻¹ξ the loop."""
        dirac = Dirac.at(x[..., None], self.mass)
        sites, number = (2, *x.shape[1:]), self.sources
        turns = jax.random.randint(_key_of(x), (*sites, number), 0, 4)
        xi = jnp.asarray([1, 1j, -1, -1j], dirac.even.dtype)[turns]
        times = jnp.eye(sites[2], dtype=xi.dtype)[:, None]
        b = (xi[..., None] * times).reshape(*sites, -1)
        psi = dirac.solution(b, lambda b: invert(dirac, b, self.residual, self.most_iterations)[1])
        psi = psi.reshape(*sites, number, -1)
        # ξ†ψ on the slice of the source: [spin, x, source, t]
        loops = (jnp.swapaxes(xi, 2, 3).conj() * jnp.diagonal(psi, axis1=2, axis2=4)).real
        singlet = jnp.sum(loops[0] - loops[1], axis=0)
        # The square of one estimate would be too large: products of two.
        total = jnp.sum(singlet, axis=0)
        products = (total[:, None] * total - singlet.T @ singlet) / (number * (number - 1))
        return self._found(x[0].size, _square(psi, (0, 1, 3)) / number, jnp.sum(loops) / number, products)

    def _found(
        self, volume: int, connected: Float[Array, "t t"], trace: Float[Array, ""], disconnected: Float[Array, "t t"]
    ) -> dict[str, Array]:
        pion = by_separation(connected)
        eta = pion - self.flavours * by_separation(disconnected)
        return {"condensate": trace / volume, "pion": pion / volume, "eta": eta / volume}


def propagator(x: OneConfiguration, mass: Float[Array, ""]) -> Propagator:
    """D⁻¹ of one configuration, between all sites."""
    dirac = Dirac.at(x[..., None], mass)
    inverse = jnp.linalg.inv(dirac.matrix()[0])
    sites = (2, *x.shape[1:])
    sources = int(np.prod(sites))

    def solve(b: Spinor) -> Spinor:
        return (inverse @ b.reshape(-1, b.shape[-1])).reshape(b.shape)

    # The sources stand where chains do elsewhere.
    every = jnp.eye(sources, dtype=inverse.dtype).reshape(*sites, sources)
    return dirac.solution(every, solve).reshape(*sites, *sites)


def diagonal(s: Propagator) -> Complex[Array, "2 x t"]:
    """D⁻¹(n, n), of each spin to itself."""
    sites = s.shape[:3]
    return jnp.diagonal(s.reshape(int(np.prod(sites)), -1)).reshape(sites)


def by_separation(pairs: Float[Array, "t t"]) -> Float[Array, " half"]:
    """Σ over pairs of times that are t apart, t = 0 … L_t/2, both ways."""
    times = pairs.shape[0]
    apart = (np.arange(times)[:, None] - np.arange(times)) % times
    sums = jnp.stack([jnp.sum(jnp.where(apart == t, pairs, 0)) for t in range(times)])
    half = times // 2 + 1
    return 0.5 * (sums + jnp.roll(sums[::-1], 1))[:half]


def _square(s: Complex[Array, "..."], axes: tuple[int, ...]) -> Float[Array, "t t"]:
    return jnp.sum(s.real**2 + s.imag**2, axis=axes)


def _key_of(x: OneConfiguration) -> Key[Array, ""]:
    """Other random numbers for each configuration, the same for the same one: observables are functions of it."""
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    return jax.random.fold_in(jax.random.key(0), jnp.sum(bits, dtype=jnp.uint32))
