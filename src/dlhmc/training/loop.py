"""Many steps of Algorithm 1 in one compiled loop."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dlhmc.geometry.contract import Field, real_dtype
from dlhmc.layers import Trajectory
from dlhmc.numerics.devices import everywhere, spread
from dlhmc.numerics.leaves import integer
from dlhmc.targets.contract import Target
from dlhmc.training.step import Algorithm, TrainState

Records = dict[str, Float[Array, " step"]]


def train(
    algorithm: Algorithm, trajectory: Trajectory, x: Field, *, steps: int, seed: int = 1
) -> tuple[TrainState, Records]:
    """Train a trajectory on chains that start at x: all in memory, with what was recorded at each step.

    For runs with progress, files and checkpoints see `dlhmc.run.training`.
    """
    first, number = integer(0), integer(steps)
    inputs = Inputs(algorithm, integer(seed, np.uint32), first, number)
    return advance(inputs, algorithm.begin(trajectory, x), steps)


class LaterStage(NamedTuple):
    """What is trained after something else, and how layers for it grow out of those that were trained before."""

    algorithm: Algorithm
    grow: Callable[[Trajectory, Target], Trajectory]


class Inputs(NamedTuple):
    """What steps of training are given, beside the state."""

    algorithm: Algorithm
    seed: Int[Array, ""]
    first: Int[Array, ""]
    number: Int[Array, ""]


@eqx.filter_jit(donate="all-except-first")
def advance(inputs: Inputs, state: TrainState, capacity: int) -> tuple[TrainState, Records]:
    """`number` ≤ `capacity` training steps from step `first` on; ends early if training halts.

    The state that is given is used up: its memory is that of the new one, because copying the parameters, their moments
    and the two sets kept aside would cost a call as much as a good part of a step.
    """
    algorithm, seed, first, number = inputs
    arrays, static = eqx.partition(state, eqx.is_array)
    Loop = tuple[Array, Any, Records]

    def going(loop: Loop) -> Array:
        index, arrays, _ = loop
        return (index < number) & ~arrays.guard.halted

    def one(loop: Loop) -> Loop:
        index, arrays, buffers = loop
        new, records = algorithm.step(seed, first + index, eqx.combine(arrays, static))
        filled = {name: buffers[name].at[index].set(value) for name, value in records.items()}
        return index + 1, eqx.filter(new, eqx.is_array), filled

    buffers = {name: jnp.zeros(capacity, real_dtype(state.x)) for name in algorithm.record_names}
    _, arrays, buffers = jax.lax.while_loop(going, one, (jnp.zeros((), jnp.int32), placed(arrays), buffers))
    return eqx.combine(placed(arrays), static), everywhere(buffers)


def placed(state: TrainState) -> TrainState:
    """Chains spread over the devices, all else on each of them."""
    return everywhere(state)._replace(x=spread(state.x))
