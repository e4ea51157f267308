"""The compiled part of a sampling run: a chunk of trajectories in one call, whatever its length.

The number of trajectories is an array and records go to buffers of a fixed size, so a run compiles two functions,
`begin` and `advance`, and its numbers do not depend on how it is cut into chunks.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from dlhmc.geometry.contract import Field
from dlhmc.kernels.contract import Kernel
from dlhmc.kernels.tuning import StepSizeTuner
from dlhmc.names import Start
from dlhmc.numerics import rng
from dlhmc.numerics.devices import everywhere, spread, spread_chains
from dlhmc.numerics.leaves import integer
from dlhmc.targets.contract import ExactDraws, Observable, Observables, Target
from dlhmc.targets.temperature import TEMPERATURE, slope_and_curvature

Records = dict[str, Array]


class Measurements(NamedTuple):
    """What is measured beside the observables of the target."""

    #: observables of one's own after each trajectory, by name
    always: tuple[tuple[str, Observable], ...] = ()
    #: once in a while
    occasional: Observables | None = None
    #: whether the configurational temperature is
    temperature: bool = False

    def evaluate(self, x: Field) -> Records:
        """What is measured after each trajectory."""
        return {name: function(x) for name, function in self.always}

    def held(self, target: Target, x: Field) -> Records:
        """Zeros for the last values of what is not measured after each trajectory."""
        functions: list[Callable[[Field], Records]] = [] if self.occasional is None else [self.occasional]
        if self.temperature:
            functions.append(lambda x: slope_and_curvature(target, jax.random.key(0), x))
        shapes = [eqx.filter_eval_shape(function, x) for function in functions]
        return {name: jnp.zeros(row.shape, row.dtype) for rows in shapes for name, row in rows.items()}


TARGET_ONLY = Measurements()


class Carry(NamedTuple):
    """All that a run carries from one trajectory to the next."""

    #: whatever the kernel keeps, the configurations among it as x
    state: Any
    tuner: StepSizeTuner
    #: the last values of what is measured once in a while
    held: Records


class Schedule(NamedTuple):
    """The root of all random numbers, and the warm-up."""

    seed: Int[Array, ""]
    warmup: Int[Array, ""]
    wanted_acceptance: Float[Array, ""]
    #: trajectories between two measurements of what is measured once in a while
    measure_every: Int[Array, ""] = integer(1)
    #: the same for the configurational temperature
    temperature_every: Int[Array, ""] = integer(1)

    def due(self, step: Int[Array, ""], every: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether it is time again for what is measured once in a while."""
        return (step >= self.warmup) & ((step - self.warmup) % every == 0)


@eqx.filter_jit
def begin(
    kernel: Kernel,
    draws: ExactDraws | None,
    seed: Int[Array, ""],
    start: Start,
    chains: int,
    measured: Measurements = TARGET_ONLY,
) -> Carry:
    """The carry before the first trajectory; with `draws`, chains start there."""
    dtype = jnp.dtype(jnp.result_type(float))
    key = rng.step_key(seed, rng.Purpose.START, jnp.zeros((), jnp.uint32))
    x = kernel.target.start(key, start, chains, dtype) if draws is None else draws.draw(key, chains, dtype)
    return _placed(begin_at(kernel, x, measured))


def begin_at(kernel: Kernel, x: Field, measured: Measurements = TARGET_ONLY) -> Carry:
    """The carry of chains that start at x."""
    step_size = kernel.tunable_step_size()
    first = jnp.ones((), jnp.result_type(float)) if step_size is None else jnp.asarray(step_size)
    return Carry(kernel.init(x), StepSizeTuner.start(first), measured.held(kernel.target, x))


@eqx.filter_jit
def advance(
    kernel: Kernel,
    schedule: Schedule,
    carry: Carry,
    first: Int[Array, ""],
    count: Int[Array, ""],
    capacity: int,
    tune: bool,
    measured: Measurements = TARGET_ONLY,
) -> tuple[Carry, Records]:
    """`count` ≤ `capacity` trajectories from global step `first` on; records beyond `count` are not set."""

    def trajectory(index: Int[Array, ""], loop: tuple[Carry, Records]) -> tuple[Carry, Records]:
        carry, buffers = loop
        carry, records = _trajectory(kernel, schedule, carry, first + index, tune, measured)
        return carry, {name: buffers[name].at[index].set(row) for name, row in records.items()}

    shapes = eqx.filter_eval_shape(_trajectory, kernel, schedule, carry, first, tune, measured)[1]
    buffers = {name: jnp.zeros((capacity, *row.shape), row.dtype) for name, row in shapes.items()}
    carry, buffers = jax.lax.fori_loop(0, count, trajectory, (_placed(carry), spread_chains(buffers)))
    return _placed(carry), spread_chains(buffers)


def _placed(carry: Carry) -> Carry:
    """Chains on the devices that they are spread over, the tuner on all."""
    return Carry(spread(carry.state), everywhere(carry.tuner), spread_chains(carry.held))


def _trajectory(
    kernel: Kernel, schedule: Schedule, carry: Carry, step: Int[Array, ""], tune: bool, measured: Measurements
) -> tuple[Carry, Records]:
    state, tuner, held = carry
    key = rng.step_key(schedule.seed, rng.Purpose.TRAJECTORY, step)
    if tune:
        warming = step < schedule.warmup
        kernel = kernel.with_step_size(jnp.where(warming, tuner.step_size, tuner.result))
    state, info = kernel.step(key, state)
    if tune:
        learned = tuner.update(info.acceptance, schedule.wanted_acceptance)
        tuner = jax.tree.map(lambda new, old: jnp.where(warming, new, old), learned, tuner)
    temperature = {name: held[name] for name in held if name in TEMPERATURE}
    held = {name: held[name] for name in held if name not in TEMPERATURE}
    if measured.occasional is not None:
        due, occasional = schedule.due(step, schedule.measure_every), measured.occasional
        held = jax.lax.cond(due, lambda x: occasional(x), lambda _: held, state.x)  # a module has no hash
    if measured.temperature:
        due = schedule.due(step, schedule.temperature_every)
        key = rng.step_key(schedule.seed, rng.Purpose.TEMPERATURE, step)
        measure = functools.partial(slope_and_curvature, kernel.target, key)
        temperature = jax.lax.cond(due, measure, lambda _: temperature, state.x)
    held |= temperature
    own = measured.evaluate(state.x) | held
    return Carry(state, tuner, held), kernel.target.observables(state.x) | own | diagnostics(info)


def told(kernel: Kernel, state: Any) -> dict[str, bool]:
    """The names of all diagnostics, and whether they count work."""
    info = eqx.filter_eval_shape(kernel.step, jax.random.key(0), state)[1]
    effort = info._asdict().get("effort", {})
    return {name: name in effort for name in eqx.filter_eval_shape(diagnostics, info)}


def diagnostics(info: Any) -> Records:
    """What a kernel tells of a trajectory, by name; the acceptance probability follows from the change of energy."""
    fields: dict[str, Any] = {name: field for name, field in info._asdict().items() if name != "acceptance"}
    fields |= fields.pop("effort", {}) | fields.pop("accepted_moves", {})
    return {name: value.astype(jnp.int8) if value.dtype == bool else value for name, value in fields.items()}
