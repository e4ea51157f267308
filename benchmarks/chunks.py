"""The compiled loops of runs, without what the host does between chunks."""

from collections.abc import Callable

import jax
import numpy as np

from dlhmc import training
from dlhmc.layers import Trajectory
from dlhmc.numerics.leaves import integer, leaf, on_host
from dlhmc.run import engine
from dlhmc.run.driver import PLAIN, ExecutionOptions
from dlhmc.run.sampling import Sampler
from dlhmc.run.sampling import prepare as prepare_sampling
from dlhmc.run.settings import SampleAmounts, TrainAmounts
from dlhmc.run.training import prepare as prepare_training


def sampling_chunk(sampler: Sampler, amounts: SampleAmounts, options: ExecutionOptions = PLAIN) -> Callable[[], None]:
    """Trajectories from the same start each time."""
    devices, carry = prepare_sampling(sampler, amounts, options)
    number = amounts.chunk or 1
    wanted = leaf(sampler.wanted_acceptance(amounts))
    schedule = engine.Schedule(integer(amounts.seed, np.uint32), integer(0), wanted)
    arguments = (on_host(sampler.kernel), schedule, carry, integer(0), integer(number), number, sampler.tune)
    with devices.active():
        compiled = engine.advance.lower(*arguments).compile()  # type: ignore[attr-defined]

    def run() -> None:
        with devices.active():
            jax.block_until_ready(compiled(*arguments))

    return run


def training_chunk(
    algorithm: training.Algorithm, trajectory: Trajectory, amounts: TrainAmounts, options: ExecutionOptions = PLAIN
) -> Callable[[], None]:
    """Training that goes on with each call."""
    devices, state = prepare_training(algorithm, trajectory, amounts, options)
    number = amounts.chunk or 1
    inputs = training.Inputs(on_host(algorithm), integer(amounts.seed, np.uint32), integer(0), integer(number))
    with devices.active():
        compiled = training.advance.lower(inputs, state, number).compile()  # type: ignore[attr-defined]
    latest = [state]  # the one before is used up

    def run() -> None:
        with devices.active():
            latest[0], _ = jax.block_until_ready(compiled(inputs, latest[0], number))

    return run
