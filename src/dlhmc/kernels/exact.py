"""The exact sampler as a kernel: every step is a new independent configuration."""

import jax.numpy as jnp
from jaxtyping import Array, Key

from dlhmc.kernels.contract import Info, Kernel, State
from dlhmc.targets.contract import ExactDraws, Target


class Exact(Kernel):
    """Independent draws from the target; nothing is ever rejected."""

    target: Target
    draws: ExactDraws

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """A new configuration for every chain."""
        chains, dtype = state.x.shape[-1], state.x.dtype
        x = self.draws.draw(key, chains, dtype)
        sure = jnp.ones(chains, bool)
        return State(x), Info(jnp.ones(chains, dtype), sure, jnp.zeros(chains, dtype), ~sure)
