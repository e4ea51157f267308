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
from dlhmc.targets.contract import Force, Target

#: a motion of (x, v) for some time
Flow = Callable[[Field, Momentum, Float[Array, ""]], tuple[Field, Momentum]]


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
) -> tuple[Field, Momentum]:
    """A trajectory of `steps` ≥ 1 steps; their number and size are arrays, so neither recompiles.

    Of a force in several parts, each takes `inner_steps` steps for one of the slower part before it.

    >>> import jax.numpy as jnp
    >>> from dlhmc import Gaussian
    >>> target = Gaussian([1.0, 4.0])
    >>> x, v = jnp.ones((2, 3)), jnp.full((2, 3), 0.5)
    >>> there = integrate(target, INTEGRATORS["leapfrog"], x, v, jnp.float32(0.1), jnp.int32(10))
    >>> back, _ = integrate(target, INTEGRATORS["leapfrog"], there[0], -there[1], jnp.float32(0.1), jnp.int32(10))
    >>> bool(jnp.allclose(back, x, atol=1e-5))
    True
    """

    def drift(x: Field, v: Momentum, time: Float[Array, ""]) -> tuple[Field, Momentum]:
        return target.geometry.drift(x, v, time * v)

    *slower, slowest = reversed(target.forces())
    flow: Flow = drift
    for force in slower:  # the fastest first: it is innermost
        flow = _nested(integrator, force, flow, inner_steps)
    return _trajectory(integrator, slowest, flow, x, v, step_size.astype(v.dtype), steps)


def _nested(integrator: Integrator, force: Force, inner: Flow, steps: int) -> Flow:
    def flow(x: Field, v: Momentum, time: Float[Array, ""]) -> tuple[Field, Momentum]:
        return _trajectory(integrator, force, inner, x, v, time / steps, steps)

    return flow


def _trajectory(
    integrator: Integrator,
    force: Force,
    drift: Flow,
    x: Field,
    v: Momentum,
    h: Float[Array, ""],
    steps: ArrayLike,
) -> tuple[Field, Momentum]:
    first, last = integrator.kicks[0], integrator.kicks[-1]

    def kick(x: Field, v: Momentum, fraction: float) -> Momentum:
        return v - (fraction * h) * force(x)

    def step(x: Field, v: Momentum, closing: float) -> tuple[Field, Momentum]:
        """All of a step but its first kick, which the step before has done in its `closing` one."""
        for fraction, next_kick in zip(integrator.drifts, (*integrator.kicks[1:-1], closing), strict=True):
            x, v = drift(x, v, fraction * h)
            v = kick(x, v, next_kick)
        return x, v

    xv = (x, kick(x, v, first))
    xv = jax.lax.fori_loop(0, steps - 1, lambda _, xv: step(xv[0], xv[1], last + first), xv)
    # A loop as well: XLA would fuse a step that stands alone with what comes after it, and compute parts of it twice.
    return jax.lax.fori_loop(steps - 1, steps, lambda _, xv: step(xv[0], xv[1], last), xv)
