"""The Wilson flow: gauge fields smoothed by the gradient of their action, and what is measured along it.

U̇ = −∂(g₀² S)·U with g₀² S = 2 Σ_P Re tr(1 − P) (Lüscher, JHEP 08 (2010) 071). The energy density t²E(t) sets the
scales t₀, where it is 0.3, and w₀, where its logarithmic derivative is (BMW, JHEP 09 (2012) 010).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dlhmc.geometry.contract import Momentum, PerChain, real_dtype, sum_sites
from dlhmc.geometry.unitary import Matrices, UnitaryMatrices, adjoint, identity, multiply, trace, trace_of_product
from dlhmc.lattice.links import Links, as_matrices, dimensions_of, is_angles, shifted, total
from dlhmc.lattice.loops import corners, loop_defects, loops_of_links, planes
from dlhmc.targets.contract import Observed
from dlhmc.theories.gauge.known import all_loops

# A step is not longer than the stability of the method allows, nor so short that it would never end.
_LONGEST, _SHORTEST = 0.2, 1e-4
_FIRST = 0.02


class Flowed(NamedTuple):
    """What is measured at each flow time."""

    #: t²E, with the field strength of the clover
    energy: Float[Array, "time chain"]
    #: t²E, with that of the plaquette
    energy_plaquette: Float[Array, "time chain"]
    #: of the clover, in four dimensions
    charge: Float[Array, "time chain"] | None


def field_strengths(x: Links, geometry: UnitaryMatrices) -> list[Matrices]:
    """The clover F of each plane: the Hermitian, for SU(N) traceless, part of the mean of four plaquettes at a site."""
    d = dimensions_of(x)
    found = []
    for mu, nu in planes(d):
        a, b = corners(x, (mu, nu))
        u, w = x[:, :, mu], x[:, :, nu]
        u_side, w_side = shifted(u, 1, nu, d), shifted(w, 1, mu, d)
        leaves = [
            multiply(a, adjoint(b)),
            shifted(multiply(w_side, multiply(adjoint(b), u)), -1, mu, d),
            shifted(multiply(adjoint(w), multiply(a, adjoint(u_side))), -1, nu, d),
            shifted(shifted(multiply(adjoint(b), a), -1, mu, d), -1, nu, d),
        ]
        clover = total(leaves)
        f = (clover - adjoint(clover)) * (-0.125j)
        found.append(f - identity(f) * trace(f) / f.shape[0] if geometry.special else f)
    return found


def clover_energy(fields: list[Matrices]) -> PerChain:
    """E = ½ Σ_{μν} tr F_μν², averaged over sites."""
    density = total([trace_of_product(f, f).real for f in fields])
    return sum_sites(density) / density[..., 0].size


def plaquette_energy(x: Links) -> PerChain:
    """E = 2 Σ_P Re tr(1 − P), for each site."""
    defects = loop_defects(x)
    return sum_sites(defects) * (2 * x.shape[0] / defects[0, ..., 0].size)


def charge_density(fields: list[Matrices]) -> Float[Array, "x y z t chain"]:
    """q = (1/32π²) ε_{μνρσ} tr F_μν F_ρσ, in four dimensions."""
    plane = dict(zip(planes(4), fields, strict=True))
    pairs = (((0, 1), (2, 3), 1), ((0, 2), (1, 3), -1), ((0, 3), (1, 2), 1))
    return total([sign * trace_of_product(plane[p], plane[q]).real for p, q, sign in pairs]) / (4 * np.pi**2)


def measure(x: Links, t: Float[Array, ""], geometry: UnitaryMatrices) -> Flowed:
    """Energies and charge of fields that have been flowed to the time t."""
    fields = field_strengths(x, geometry)
    charge = sum_sites(charge_density(fields)) if dimensions_of(x) == 4 else None
    return Flowed(t * t * clover_energy(fields), t * t * plaquette_energy(x), charge)


@eqx.filter_jit
def flow(
    x: Links, geometry: UnitaryMatrices, times: Float[Array, " time"], tolerance: float = 1e-4
) -> tuple[Links, Flowed]:
    """Fields at the last of the flow times, which rise from 0, and what was measured at each.

    Third-order Runge–Kutta (Lüscher, appendix C), with a second-order step beside it that tells the error (Fritzsch,
    Ramos, JHEP 10 (2013) 008, appendix D): the largest component of the displacement between both, for each chain,
    stays below `tolerance` in every step.
    """
    times = times.astype(real_dtype(x))
    chains = x.shape[-1]

    def until(carry: tuple[Links, Array, Array], t: Array) -> tuple[tuple[Links, Array, Array], Flowed]:
        x, now, size = jax.lax.while_loop(lambda state: jnp.any(state[1] < t), lambda state: step(*state, t), carry)
        return (x, now, size), measure(x, t, geometry)

    def step(x: Links, now: Array, size: Array, t: Array) -> tuple[Links, Array, Array]:
        rest = t - now
        last = size >= rest * 0.999
        taken = jnp.minimum(size, rest)
        new, error = _runge_kutta(x, geometry, taken)
        fine = (error <= tolerance) | (taken <= _SHORTEST)
        better = size * jnp.clip(0.95 * (tolerance / jnp.maximum(error, 1e-12)) ** (1 / 3), 0.3, 2.0)
        # A step that was cut short to end at t says little about how long the next may be.
        size = jnp.where(last & fine, size, jnp.clip(better, _SHORTEST, _LONGEST))
        now = jnp.where(fine & (rest > 0), jnp.where(last, t, now + taken), now)
        return jnp.where(fine, new, x), now, size

    start = (x, jnp.zeros(chains, times.dtype), jnp.full(chains, _FIRST, times.dtype))
    (x, _, _), measured = jax.lax.scan(until, start, times)
    return x, measured


def _runge_kutta(x: Links, geometry: UnitaryMatrices, size: PerChain) -> tuple[Links, PerChain]:
    """One step of each chain, and how far the second-order step ends from it."""
    k0 = size * drift(x, geometry)
    first = geometry.moved(x, 0.25 * k0)
    k1 = size * drift(first, geometry)
    second = geometry.moved(first, (8 / 9) * k1 - (17 / 36) * k0)
    k2 = size * drift(second, geometry)
    third = geometry.moved(second, 0.75 * k2 - (8 / 9) * k1 + (17 / 36) * k0)
    crude = geometry.moved(x, 2 * k1 - k0)
    gap = jnp.abs(geometry.components(multiply(third, adjoint(crude))))
    return third, jnp.max(gap, axis=tuple(range(gap.ndim - 1)))


def drift(x: Links, geometry: UnitaryMatrices) -> Momentum:
    """−∂(g₀² S), the velocity of the flow."""
    return -2 * geometry.norm * geometry.components(loops_of_links(x))


class OccasionalObservables(eqx.Module):
    """What is measured along the flow, and Wilson loops up to a size, as observables of a run."""

    geometry: UnitaryMatrices
    times: tuple[float, ...] = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    loops: int = eqx.field(static=True)

    def __call__(self, x: Links) -> dict[str, Observed]:
        """Everything asked for, by name; angles stand for matrices of one number."""
        x, geometry = as_matrices(x) if is_angles(x) else x, self.geometry
        # E and Q of the clover before any flow: at the time 1, t²E is E.
        bare = measure(x, jnp.ones((), real_dtype(x)), geometry)
        found = {f"bare_{name}": part for name, part in bare._asdict().items() if part is not None}
        if self.times:
            measured = flow(x, geometry, jnp.asarray(self.times), self.tolerance)[1]
            found |= {f"flow_{name}": part for name, part in measured._asdict().items() if part is not None}
        if self.loops:
            found["wilson_loops"] = all_loops(self.loops, x)
        return found
