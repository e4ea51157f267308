"""Hamiltonian Monte Carlo (appendix A.1 of the paper)."""

import equinox as eqx
import jax
from jaxtyping import Array, ArrayLike, Float, Int, Key

from dlhmc.kernels.contract import Info, Kernel, RoundTrip, State
from dlhmc.kernels.integrators import INTEGRATORS, Integrator, integrate
from dlhmc.kernels.metropolis import decide, select
from dlhmc.numerics.leaves import leaf
from dlhmc.targets.contract import Field, Target, energy_change


class HMC(Kernel):
    """A trajectory of `steps` integrator steps with fresh momenta, then accept or reject.

    >>> import jax.numpy as jnp
    >>> from dlhmc.theories.u1.action import U1
    >>> target = U1((8, 8), beta=2.0)
    >>> kernel = HMC(target, step_size=0.2, steps=10)
    >>> state = kernel.init(target.start(jax.random.key(0), "cold", chains=4, dtype=jnp.float32))
    >>> state, info = eqx.filter_jit(kernel.step)(jax.random.key(1), state)
    >>> info.accepted.shape
    (4,)
    """

    target: Target
    step_size: Float[Array, ""]
    steps: Int[Array, ""]
    integrator: Integrator = eqx.field(static=True)

    def __init__(
        self, target: Target, step_size: ArrayLike, steps: ArrayLike, integrator: Integrator = INTEGRATORS["leapfrog"]
    ) -> None:
        self.target, self.integrator = target, integrator
        self.step_size, self.steps = leaf(step_size), leaf(steps)

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """One trajectory of every chain."""
        momentum_key, accept_key = jax.random.split(key)
        x = state.x
        v = self.target.momentum(momentum_key, x)
        x_new, v_new = integrate(self.target, self.integrator, x, v, self.step_size, self.steps)
        change = energy_change(self.target, (x, v), (x_new, v_new))
        acceptance, accepted, nonfinite = decide(accept_key, change)
        x = select(accepted, self.target.wrap(x_new), x)
        return State(x), Info(acceptance, accepted, change, nonfinite)

    @property
    def leapfrog_steps(self) -> int:
        """Integrator steps of a trajectory."""
        return int(self.steps)

    def round_trip(self, x: Field, v: Field) -> RoundTrip:
        """There, and back with the momentum flipped."""
        x_new, v_new = integrate(self.target, self.integrator, x, v, self.step_size, self.steps)
        x_back, v_back = integrate(self.target, self.integrator, x_new, -v_new, self.step_size, self.steps)
        return RoundTrip(energy_change(self.target, (x, v), (x_new, v_new)), x_back, -v_back)

    def tunable_step_size(self) -> Float[Array, ""]:
        """The step size of the integrator."""
        return self.step_size

    def with_step_size(self, step_size: Float[Array, ""]) -> "HMC":
        """The same kernel with another step size."""
        return eqx.tree_at(lambda kernel: kernel.step_size, self, step_size)
