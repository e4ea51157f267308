"""The exact sampler as a kernel: every step is a new independent configuration."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Key

from dlhmc.geometry.contract import all_finite, real_dtype
from dlhmc.kernels.contract import Info, Kernel, State
from dlhmc.targets.contract import ExactDraws, Target


class Exact(Kernel):
    """Independent draws from the target; nothing is ever rejected but a numerical failure."""

    name: ClassVar[str] = "exact"

    target: Target
    draws: ExactDraws

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """A new configuration for every chain."""
        chains, dtype = state.x.shape[-1], real_dtype(state.x)
        x = self.draws.draw(key, chains, dtype)
        finite = all_finite(x)
        return state.moved(finite, x, self.init(x).terms), Info(
            finite.astype(dtype), finite, jnp.zeros(chains, dtype), ~finite
        )
