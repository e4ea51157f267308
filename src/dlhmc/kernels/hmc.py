"""Hamiltonian Monte Carlo (appendix A.1 of the paper)."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, Key

from dlhmc.actions.contract import Effort, add_efforts
from dlhmc.errors import Setting, UserError
from dlhmc.geometry.contract import Field, Momentum
from dlhmc.kernels.contract import Info, Kernel, RoundTrip, State
from dlhmc.kernels.integrators import INTEGRATORS, Integrator, integrate
from dlhmc.kernels.metropolis import decide
from dlhmc.numerics.leaves import parameter
from dlhmc.settings import Count, Positive
from dlhmc.targets.contract import Target, action_change, energy_change, kinetic_change

# A tuner that has lost its way must not spend minutes on a trajectory.
MOST_STEPS = 2000


class HMC(Kernel):
    """A trajectory of `steps` integrator steps with fresh momenta, then accept or reject.

    With a `length`, trajectories keep it when the step size changes: the number of steps follows. Of several actions,
    each takes `inner_steps` steps for each of the slower one before it; with 1 all take the same.

    >>> import jax.numpy as jnp
    >>> from dlhmc import Gaussian
    >>> kernel = HMC(Gaussian([1.0, 4.0]), step_size=0.2, steps=10)
    >>> state = kernel.init(jnp.zeros((2, 4)))
    >>> state, info = jax.jit(kernel.step)(jax.random.key(1), state)
    >>> info.accepted.shape
    (4,)
    """

    name: ClassVar[str] = "hmc"

    target: Target
    step_size: Float[Array, ""]
    steps: Int[Array, ""]
    length: Float[Array, ""] | None
    integrator: Integrator = eqx.field(static=True)
    inner_steps: int = eqx.field(static=True)

    def __init__(
        self,
        target: Target,
        step_size: ArrayLike,
        steps: ArrayLike = 1,
        integrator: Integrator | str = "leapfrog",
        *,
        length: ArrayLike | None = None,
        inner_steps: int | None = None,
    ) -> None:
        if inner_steps is not None and len(target.actions) == 1:
            raise UserError(
                f"{Setting('inner_steps')} is for a force in several parts; this one has one: leave it out."
            )
        if isinstance(integrator, str) and integrator not in INTEGRATORS:
            raise UserError(f"{Setting('integrator')} must be one of {', '.join(INTEGRATORS)}, not {integrator!r}.")
        self.target = target
        self.integrator = INTEGRATORS[integrator] if isinstance(integrator, str) else integrator
        self.inner_steps = target.known.inner_steps if inner_steps is None else inner_steps
        self.step_size = parameter("step_size", step_size, Positive)
        self.steps = parameter("steps", steps, Count)
        self.length = None
        if length is not None:
            self.length = parameter("length", length, Positive)
            self.step_size, self.steps = _divided(self.length, self.step_size)

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """One trajectory of every chain."""
        momentum_key, accept_key, refresh_key = jax.random.split(key, 3)
        x, geometry = state.x, self.target.geometry
        v = geometry.momentum(momentum_key, x)
        target, drawn = self.target.refresh(refresh_key, x)
        start = tuple(kept if new is None else new for kept, new in zip(state.terms, drawn.value, strict=True))
        x_new, v_new, effort = self._integrate(target, x, v)
        end = target.terms(x_new)
        change = action_change(start, end.value, x_new) + kinetic_change(geometry, v, v_new)
        acceptance, accepted, nonfinite = decide(accept_key, change)
        effort = add_efforts(drawn.effort, effort, end.effort)
        state = state.moved(accepted, geometry.project(x_new), end.value)
        return state, Info(acceptance, accepted, change, nonfinite, effort)

    def _integrate(self, target: Target, x: Field, v: Momentum) -> tuple[Field, Momentum, Effort]:
        return integrate(target, self.integrator, x, v, self.step_size, self.steps, self.inner_steps)

    @property
    def leapfrog_steps(self) -> int:
        """As many as there are forces: a step of an integrator that takes several counts so often."""
        return int(self.steps) * self.integrator.forces_per_step

    @property
    def forces(self) -> int:
        """Of the slowest part of the force, where it has several."""
        return self.leapfrog_steps + 1

    def round_trip(self, target: Target, x: Field, v: Momentum) -> RoundTrip:
        """There, and back with the momentum flipped."""
        x_new, v_new, _ = self._integrate(target, x, v)
        x_back, v_back, _ = self._integrate(target, x_new, -v_new)
        return RoundTrip(energy_change(target, (x, v), (x_new, v_new)), x_back, -v_back)

    def tunable_step_size(self) -> Float[Array, ""]:
        """The step size of the integrator."""
        return self.step_size

    def with_step_size(self, step_size: Float[Array, ""]) -> "HMC":
        """The same kernel with another step size, or about this one where the length is kept."""
        if self.length is None:
            return eqx.tree_at(lambda kernel: kernel.step_size, self, step_size)
        return eqx.tree_at(lambda kernel: (kernel.step_size, kernel.steps), self, _divided(self.length, step_size))


def _divided(length: Float[Array, ""], step_size: Float[Array, ""]) -> tuple[Float[Array, ""], Int[Array, ""]]:
    """About this step size, so that a whole number of steps makes the length."""
    steps = jnp.clip(jnp.round(length / step_size), 1, MOST_STEPS)
    return length / steps, steps.astype(jnp.int32)
