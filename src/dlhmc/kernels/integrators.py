"""Symplectic integrators as data: a step is a list of kicks and drifts with their fractions of the step size.

Every scheme starts and ends with a kick, so the last kick of a step and the first of the next are done as one and
a trajectory of N steps costs N·(kicks − 1) + 1 forces.
"""

from typing import NamedTuple

import jax
from jaxtyping import Array, Float, Int

from dlhmc.names import Scheme
from dlhmc.targets.contract import Field, Target


class Integrator(NamedTuple):
    """Alternating kick and drift fractions k₀ d₀ k₁ d₁ … k_m; kicks and drifts each add up to one."""

    kicks: tuple[float, ...]
    drifts: tuple[float, ...]

    @property
    def forces_per_step(self) -> int:
        """How many forces a step costs inside a long trajectory."""
        return len(self.drifts)


# Omelyan, Mryglod, Folk, Comput. Phys. Commun. 151 (2003) 272, eq. (31): second order, minimum norm of the error.
_LAMBDA = 0.1931833275037836

INTEGRATORS: dict[Scheme, Integrator] = {
    # The paper's appendix A.1: half kick, drift, half kick.
    "leapfrog": Integrator(kicks=(0.5, 0.5), drifts=(1.0,)),
    "omelyan": Integrator(kicks=(_LAMBDA, 1 - 2 * _LAMBDA, _LAMBDA), drifts=(0.5, 0.5)),
}


def integrate(
    target: Target,
    integrator: Integrator,
    x: Field,
    v: Field,
    step_size: Float[Array, ""],
    steps: Int[Array, ""],
) -> tuple[Field, Field]:
    """A trajectory of `steps` ≥ 1 steps; their number and size are arrays, so neither recompiles.

    >>> import jax.numpy as jnp
    >>> from dlhmc.theories.u1.action import U1
    >>> target = U1((4, 4), beta=2.0)
    >>> x = target.start(jax.random.key(0), "hot", 3, jnp.float32)
    >>> v = target.momentum(jax.random.key(1), x)
    >>> there = integrate(target, INTEGRATORS["leapfrog"], x, v, jnp.float32(0.1), jnp.int32(10))
    >>> back, _ = integrate(target, INTEGRATORS["leapfrog"], there[0], -there[1], jnp.float32(0.1), jnp.int32(10))
    >>> bool(jnp.allclose(back, x, atol=1e-4))
    True
    """
    h = step_size.astype(x.dtype)
    first, last = integrator.kicks[0], integrator.kicks[-1]

    def kick(x: Field, v: Field, fraction: float) -> Field:
        return v - (fraction * h) * target.force(x)

    def step(x: Field, v: Field, closing: float) -> tuple[Field, Field]:
        """All of a step but its first kick, which the step before has done in its `closing` one."""
        for fraction, next_kick in zip(integrator.drifts, (*integrator.kicks[1:-1], closing), strict=True):
            x = target.drift(x, (fraction * h) * v)
            v = kick(x, v, next_kick)
        return x, v

    v = kick(x, v, first)
    x, v = jax.lax.fori_loop(0, steps - 1, lambda _, xv: step(xv[0], xv[1], last + first), (x, v))
    return step(x, v, last)
