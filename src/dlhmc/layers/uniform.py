"""Leapfrog with three numbers for each layer, the same for all of the field: what constant networks can say."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from dlhmc.layers.linear import LinearTrajectory, Steps
from dlhmc.layers.palindrome import mirrored, mirrored_odd
from dlhmc.targets.contract import Target


class Uniform(LinearTrajectory):
    """A palindrome of `number` layers; every array holds its first half."""

    #: a, none in the middle of an odd number of layers
    scale: Float[Array, " half"]
    #: log b·e^{−a/2} and log e, the middle included
    log_kick: Float[Array, " half_and_middle"]
    log_drift: Float[Array, " half_and_middle"]
    number: int = eqx.field(static=True)

    @classmethod
    def start(cls, number: int, step_size: ArrayLike) -> "Uniform":
        """HMC with leapfrog steps of this size."""
        drift = jnp.full((number + 1) // 2, jnp.log(jnp.asarray(step_size, float)))
        return cls(jnp.zeros(number // 2), drift - jnp.log(2.0), drift, number)

    def __len__(self) -> int:
        return self.number

    def steps(self, target: Target) -> Steps:
        """Three numbers for each layer."""
        scale, kick = mirrored_odd(self.scale, self.number), mirrored(jnp.exp(self.log_kick), self.number)
        numbers = (scale, kick * jnp.exp(0.5 * scale), mirrored(jnp.exp(self.log_drift), self.number))
        axes = (1,) * (len(target.geometry.momentum_shape) + 1)
        return Steps(*(number.reshape(-1, *axes) for number in numbers))
