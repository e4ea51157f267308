"""Symplectic integrators as data: a step is a list of kicks and drifts with their fractions of the step size.

Every scheme starts and ends with a kick, so the last kick of a step and the first of the next are done as one and
a trajectory of N steps costs N·(kicks − 1) + 1 forces. Integrators nest: where a force comes in parts, the drift of the
slow part is a whole trajectory of the fast one.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from dlhmc.actions.contract import Action, Counted, Effort, add_efforts, counted
from dlhmc.geometry.contract import Field, Momentum
from dlhmc.names import Scheme
from dlhmc.targets.contract import Target

Force = Callable[[Field], Counted]
#: a motion of (x, v) for some time
Motion = Callable[[Field, Momentum, Float[Array, ""]], tuple[Field, Momentum, Effort]]


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
# The same, eq. (63): fourth order with five forces, which begins with a kick.
_KICKS = (0.08398315262876693, 0.6822365335719091)
_DRIFTS = (0.2539785108410595, -0.03230286765269967)

INTEGRATORS: dict[Scheme, Integrator] = {
    # The paper's appendix A.1: half kick, drift, half kick.
    "leapfrog": Integrator(kicks=(0.5, 0.5), drifts=(1.0,)),
    "omelyan": Integrator(kicks=(_LAMBDA, 1 - 2 * _LAMBDA, _LAMBDA), drifts=(0.5, 0.5)),
    "omelyan4": Integrator(
        kicks=(*_KICKS, 0.5 - sum(_KICKS), 0.5 - sum(_KICKS), *_KICKS[::-1]),
        drifts=(*_DRIFTS, 1 - 2 * sum(_DRIFTS), *_DRIFTS[::-1]),
    ),
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

    With more than one of `inner_steps`, each action takes so many for each step of the slower one before it. What the
    forces tell about their work is added up.

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

    forces = [functools.partial(_force, target, (action,)) for action in target.actions]
    slowest, *faster = forces if inner_steps > 1 else [functools.partial(_force, target, target.actions)]
    motion: Motion = drift
    for force in reversed(faster):  # the fastest is innermost
        motion = _nested(integrator, force, motion, inner_steps)
    return _trajectory(integrator, slowest, motion, x, v, step_size.astype(v.dtype), steps)


def _force(target: Target, actions: Sequence[Action], x: Field) -> Counted:
    """γ ∂S of some of the actions."""
    parts = [counted(action.force(target.geometry, x)) for action in actions]
    total = sum((part.value for part in parts[1:]), parts[0].value)
    return Counted(target.gamma.astype(total.dtype) * total, add_efforts(*(part.effort for part in parts)))


def _nested(integrator: Integrator, force: Force, inner: Motion, steps: int) -> Motion:
    def motion(x: Field, v: Momentum, time: Float[Array, ""]) -> tuple[Field, Momentum, Effort]:
        return _trajectory(integrator, force, inner, x, v, time / steps, steps)

    return motion


def _trajectory(
    integrator: Integrator,
    force: Force,
    drift: Motion,
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
            slope, work = force(x)
            v, effort = v - (next_kick * h) * slope, add_efforts(effort, work, inside)
        return x, v, effort

    slope, effort = force(x)
    # A loop carries the same names all along, those of faster actions included.
    names = jax.eval_shape(lambda x, v: drift(x, v, h)[2], x, v)
    effort = add_efforts(effort, {name: jnp.zeros(each.shape, each.dtype) for name, each in names.items()})
    carry = (x, v - (first * h) * slope, effort)
    carry = jax.lax.fori_loop(0, steps - 1, lambda _, carry: step(carry, last + first), carry)
    # A loop as well: XLA would fuse a step that stands alone with what comes after it, and compute parts of it twice.
    return jax.lax.fori_loop(steps - 1, steps, lambda _, carry: step(carry, last), carry)
