"""The configurational temperature T = ⟨|∇S|²⟩/⟨ΔS⟩ = 1, which holds for every smooth action (integrate by parts).

H. H. Rugh, Phys. Rev. Lett. 78 (1997) 772. Derivatives are along geodesics; on a group these are left-invariant and the
measure is Haar's. Auxiliary fields are drawn, then held fixed.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from dlhmc.geometry.contract import Field, Geometry, Momentum, PerChain, sum_sites
from dlhmc.targets.contract import Target

#: what is recorded
SLOPE, CURVATURE = TEMPERATURE = "squared_gradient", "laplacian"


def slope_and_curvature(target: Target, key: Key[Array, ""], x: Field) -> dict[str, PerChain]:
    """|∇S|², and an estimate of ΔS from one random direction η: the derivative of η·∇S along η.

    |∇S|² is (f·∇S)²/|f|² with the target's force f, and f·∇S the change of the action along f: a force that belongs to
    another action shows as well.
    """
    fields_key, direction_key = jax.random.split(key)
    target, geometry = target.refresh(fields_key, x)[0], target.geometry
    direction = geometry.momentum(direction_key, x)
    velocity, acceleration = _departure(geometry, x, direction)
    force, change_of_force = jax.jvp(target.force, (x,), (velocity,))
    change = jax.jvp(target.action, (x,), (_departure(geometry, x, force)[0],))[1]
    square = sum_sites(force * force)
    slope = jnp.where(square > 0, change * change / jnp.where(square > 0, square, 1), 0)
    return {SLOPE: slope, CURVATURE: sum_sites(direction * change_of_force + acceleration * force)}


def _departure(geometry: Geometry, x: Field, v: Momentum) -> tuple[Field, Momentum]:
    """dx/dt and dv/dt at the start of the geodesic of v."""
    now, forward = jnp.zeros((), v.dtype), jnp.ones((), v.dtype)
    change = jax.jvp(lambda time: geometry.drift(x, v, time * v), (now,), (forward,))[1]
    # Written out: XLA would compute it again wherever it is used.
    departure: tuple[Field, Momentum] = jax.lax.optimization_barrier(change)
    return departure
