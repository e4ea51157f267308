"""Many steps of Algorithm 1 in one compiled loop."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dlhmc.layers import Trajectory
from dlhmc.targets.contract import Field
from dlhmc.training.step import Algorithm, TrainState

Records = dict[str, Float[Array, " step"]]


def train(
    algorithm: Algorithm, trajectory: Trajectory, x: Field, *, steps: int, seed: int = 1
) -> tuple[TrainState, Records]:
    """Train a trajectory on chains that start at x: all in memory, with what was recorded at each step.

    For runs with progress, files and checkpoints see `dlhmc.runs.training`.
    """
    first, count = jax.device_put(np.int32(0)), jax.device_put(np.int32(steps))
    state = algorithm.begin(trajectory, x)
    return advance(algorithm, jax.device_put(np.uint32(seed)), state, first, count, steps)


@eqx.filter_jit
def advance(
    algorithm: Algorithm,
    seed: Int[Array, ""],
    state: TrainState,
    first: Int[Array, ""],
    count: Int[Array, ""],
    capacity: int,
) -> tuple[TrainState, Records]:
    """`count` ≤ `capacity` training steps from step `first` on; ends early if training halts."""
    arrays, static = eqx.partition(state, eqx.is_array)
    Loop = tuple[Array, Any, Records]

    def going(loop: Loop) -> Array:
        index, arrays, _ = loop
        return (index < count) & ~arrays.guard.halted

    def one(loop: Loop) -> Loop:
        index, arrays, buffers = loop
        new, records = algorithm.step(seed, first + index, eqx.combine(arrays, static))
        filled = {name: buffers[name].at[index].set(value) for name, value in records.items()}
        return index + 1, eqx.filter(new, eqx.is_array), filled

    buffers = {name: jnp.zeros(capacity, state.x.dtype) for name in algorithm.record_names}
    _, arrays, buffers = jax.lax.while_loop(going, one, (jnp.zeros((), jnp.int32), arrays, buffers))
    return eqx.combine(arrays, static), buffers
