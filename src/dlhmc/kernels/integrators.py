"""Symplectic integrators as data: a step is a list of kicks and drifts with their fractions of the step size.

Every scheme starts and ends with a kick, so the last kick of a step and the first of the next are done as one and
a trajectory of N steps costs N·(kicks − 1) + 1 forces. Integrators nest: where a force comes in parts, the drift of the
slow part is a whole trajectory of the fast one.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
from jaxtyping import Array, ArrayLike, Float, Int

from dlhmc.geometry.contract import Field, Momentum
from dlhmc.names import Scheme
from dlhmc.targets.contract import CountedForce, Effort, Target, added

#: a motion of (x, v) for some time
Flow = Callable[[Field, Momentum, Float[Array, ""]], tuple[Field, Momentum, Effort]]


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
    v: Momentum,
    step_size: Float[Array, ""],
    steps: Int[Array, ""],
    inner_steps: int = 1,
) -> tuple[Field, Momentum, Effort]:
    """A trajectory of `steps` ≥ 1 steps; their number and size are arrays, so neither recompiles.

    Of a force in several parts, each takes `inner_steps` steps for one of the slower part before it. What the forces
    tell about themselves is added up.

    >>> import jax.numpy as jnp
    >>> from dlhmc import Gaussian
    >>> target = Gaussian([1.0, 4.0])
    >>> x, v = jnp.ones((2, 3)), jnp.full((2, 3), 0.5)
    >>> there = integrate(target, INTEGRATORS["leapfrog"], x, v, jnp.float32(0.1), jnp.int32(10))
    >>> back = integrate(target, INTEGRATORS["leapfrog"], there[0], -there[1], jnp.float32(0.1), jnp.int32(10))
    >>> bool(jnp.allclose(back[0], x, atol=1e-5))
    True
    """

    def drift(x: Field, v: Momentum, time: Float[Array, ""]) -> tuple[Field, Momentum, Effort]:
        return (*target.geometry.drift(x, v, time * v), {})

    *slower, slowest = reversed(target.counted_forces())
    flow: Flow = drift
    for force in slower:  # the fastest first: it is innermost
        flow = _nested(integrator, force, flow, inner_steps)
    return _trajectory(integrator, slowest, flow, x, v, step_size.astype(v.dtype), steps)


def _nested(integrator: Integrator, force: CountedForce, inner: Flow, steps: int) -> Flow:
    def flow(x: Field, v: Momentum, time: Float[Array, ""]) -> tuple[Field, Momentum, Effort]:
        return _trajectory(integrator, force, inner, x, v, time / steps, steps)

    return flow


def _trajectory(
    integrator: Integrator,
    force: CountedForce,
    drift: Flow,
    x: Field,
    v: Momentum,
    h: Float[Array, ""],
    steps: ArrayLike,
) -> tuple[Field, Momentum, Effort]:
    first, last = integrator.kicks[0], integrator.kicks[-1]
    Carry = tuple[Field, Momentum, Effort]

    def step(carry: Carry, closing: float) -> Carry:
        """All of a step but its first kick, which the step before has done in its `closing` one."""
        x, v, effort = carry
        for fraction, next_kick in zip(integrator.drifts, (*integrator.kicks[1:-1], closing), strict=True):
            x, v, inside = drift(x, v, fraction * h)
            slope, told = force(x)
            v, effort = v - (next_kick * h) * slope, added(added(effort, told), inside)
        return x, v, effort

    slope, effort = force(x)
    carry = (x, v - (first * h) * slope, effort)
    carry = jax.lax.fori_loop(0, steps - 1, lambda _, carry: step(carry, last + first), carry)
    # A loop as well: XLA would fuse a step that stands alone with what comes after it, and compute parts of it twice.
    return jax.lax.fori_loop(steps - 1, steps, lambda _, carry: step(carry, last), carry)
