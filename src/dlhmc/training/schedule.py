"""What changes during training: the annealing factor γ_t and the learning rate α_t."""

from abc import abstractmethod
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from dlhmc.names import RateSchedule


class Schedule(eqx.Module):
    """A number that depends on the training step."""

    @abstractmethod
    def __call__(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """The value at a step."""

    @abstractmethod
    def finished(self, step: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether the last value has been reached: only from then on parameters are compared with each other."""


class Knots(Schedule):
    """Piecewise linear in the training step; constant before the first knot and after the last."""

    steps: Float[Array, " knot"]
    values: Float[Array, " knot"]

    def __init__(self, knots: Sequence[tuple[float, float]]) -> None:
        steps, values = zip(*knots, strict=True)
        self.steps, self.values = jnp.asarray(steps, float), jnp.asarray(values, float)

    def __call__(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """The value at a step."""
        return jnp.interp(step.astype(self.steps.dtype), self.steps, self.values)

    def finished(self, step: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether the last value has been reached."""
        return step.astype(self.steps.dtype) >= self.steps[-1]


def learning_rate(kind: RateSchedule, peak: float, steps: int, warmup: int) -> optax.Schedule:
    """A linear warm-up to the peak, then constant or a cosine decay to a twentieth of it."""
    if kind == "constant":
        return optax.warmup_constant_schedule(0.0, peak, warmup)
    return optax.warmup_cosine_decay_schedule(0.0, peak, warmup, max(steps, warmup + 1), peak / 20)
