"""The compiled part of a sampling run: a chunk of trajectories in one call, whatever its length.

The number of trajectories is an array and records go to buffers of a fixed size, so a run compiles two functions,
`begin` and `advance`, and its numbers do not depend on how it is cut into chunks.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from dlhmc.kernels.contract import Info, Kernel, State
from dlhmc.kernels.tuning import StepSizeTuner
from dlhmc.machine.devices import everywhere, spread, spread_chains
from dlhmc.names import Start
from dlhmc.numerics import rng
from dlhmc.targets.contract import ExactDraws

Records = dict[str, Array]


class Carry(NamedTuple):
    """All that a run carries from one trajectory to the next."""

    state: State
    tuner: StepSizeTuner


class Schedule(NamedTuple):
    """The root of all random numbers, and the warm-up."""

    seed: Int[Array, ""]
    warmup: Int[Array, ""]
    wanted_acceptance: Float[Array, ""]


@eqx.filter_jit
def begin(kernel: Kernel, draws: ExactDraws | None, seed: Int[Array, ""], start: Start, chains: int) -> Carry:
    """The carry before the first trajectory; with `draws`, chains start in equilibrium."""
    dtype = jnp.dtype(jnp.result_type(float))
    key = rng.step_key(seed, rng.Purpose.START, jnp.zeros((), jnp.uint32))
    x = kernel.target.start(key, start, chains, dtype) if draws is None else draws.draw(key, chains, dtype)
    step_size = kernel.tunable_step_size()
    tuner = StepSizeTuner.start(jnp.ones((), dtype) if step_size is None else step_size)
    return _placed(Carry(kernel.init(x), tuner))


@eqx.filter_jit
def advance(
    kernel: Kernel,
    schedule: Schedule,
    carry: Carry,
    first: Int[Array, ""],
    count: Int[Array, ""],
    capacity: int,
    tune: bool,
) -> tuple[Carry, Records]:
    """`count` ≤ `capacity` trajectories from global step `first` on; records beyond `count` are not set."""

    def trajectory(index: Int[Array, ""], loop: tuple[Carry, Records]) -> tuple[Carry, Records]:
        carry, buffers = loop
        carry, records = _trajectory(kernel, schedule, carry, first + index, tune)
        return carry, {name: buffers[name].at[index].set(row) for name, row in records.items()}

    shapes = eqx.filter_eval_shape(_trajectory, kernel, schedule, carry, first, tune)[1]
    buffers = {name: jnp.zeros((capacity, *row.shape), row.dtype) for name, row in shapes.items()}
    carry, buffers = jax.lax.fori_loop(0, count, trajectory, (_placed(carry), spread_chains(buffers)))
    return _placed(carry), spread_chains(buffers)


def _placed(carry: Carry) -> Carry:
    """Chains on the devices that they are spread over, the tuner on all."""
    return Carry(State(spread(carry.state.x)), everywhere(carry.tuner))


def _trajectory(
    kernel: Kernel, schedule: Schedule, carry: Carry, step: Int[Array, ""], tune: bool
) -> tuple[Carry, Records]:
    state, tuner = carry
    key = rng.step_key(schedule.seed, rng.Purpose.TRAJECTORY, step)
    if tune:
        warming = step < schedule.warmup
        kernel = kernel.with_step_size(jnp.where(warming, tuner.step_size, tuner.result))
    state, info = kernel.step(key, state)
    if tune:
        learned = tuner.update(info.acceptance, schedule.wanted_acceptance)
        tuner = jax.tree.map(lambda new, old: jnp.where(warming, new, old), learned, tuner)
    return Carry(state, tuner), _records(kernel, state, info)


def _records(kernel: Kernel, state: State, info: Info) -> Records:
    """What the history keeps of one trajectory."""
    records = kernel.target.observables(state.x) | {
        "accepted": info.accepted.astype(jnp.int8),
        "energy_change": info.energy_change,
        "nonfinite": info.nonfinite.astype(jnp.int8),
    }
    return records if info.hits is None else records | {"hits": info.hits}
