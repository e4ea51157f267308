"""Step-size tuning during warm-up: dual averaging (Hoffman, Gelman, JMLR 15 (2014) 1593, section 3.2)."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dlhmc.geometry.contract import PerChain

# A larger γ than the 0.05 of the paper: the acceptance is averaged over chains, so it is steep and hardly noisy.
_GAMMA, _T0, _KAPPA = 0.2, 10.0, 0.75
# The mean acceptance is summed in integers, so that it does not depend on how chains are spread over devices.
_RESOLUTION = 2**12


class StepSizeTuner(NamedTuple):
    """All that dual averaging remembers."""

    log_step: Float[Array, ""]
    log_average: Float[Array, ""]
    mismatch: Float[Array, ""]
    centre: Float[Array, ""]
    updates: Int[Array, ""]

    @classmethod
    def start(cls, step_size: Float[Array, ""]) -> "StepSizeTuner":
        """Begin at a guess of the step size."""
        log_step = jnp.log(step_size)
        # The search is drawn towards somewhat larger steps than the guess, which are cheaper to try.
        centre = log_step + np.asarray(np.log(2), log_step.dtype)
        return cls(log_step, log_step, jnp.zeros_like(log_step), centre, jnp.zeros((), jnp.int32))

    @property
    def step_size(self) -> Float[Array, ""]:
        """The step size to try next."""
        return jnp.exp(self.log_step)

    @property
    def result(self) -> Float[Array, ""]:
        """The step size to keep."""
        return jnp.exp(self.log_average)

    def update(self, acceptance: PerChain, wanted: Float[Array, ""]) -> "StepSizeTuner":
        """Learn from the acceptance probabilities of one trajectory of all chains."""
        dtype = self.log_step.dtype
        units = jnp.sum(jnp.round(acceptance * _RESOLUTION).astype(jnp.int32))
        mean = units.astype(dtype) / (_RESOLUTION * acceptance.size)
        updates = self.updates + 1
        t = updates.astype(dtype)
        weight = 1 / (t + _T0)
        mismatch = (1 - weight) * self.mismatch + weight * (wanted.astype(dtype) - mean)
        log_step = self.centre - jnp.sqrt(t) / _GAMMA * mismatch
        fresh = t**-_KAPPA
        log_average = fresh * log_step + (1 - fresh) * self.log_average
        return StepSizeTuner(log_step, log_average, mismatch, self.centre, updates)
