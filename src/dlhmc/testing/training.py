"""Checks of what training is made of: losses and schedules."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dlhmc.geometry.contract import Field
from dlhmc.targets.contract import Target
from dlhmc.testing.checks import (
    CHAINS,
    Checked,
    Problems,
    as_numbers,
    bad_numbers,
    example,
    mixed_chains,
    momentum,
    run_checks,
)
from dlhmc.training.loss import Loss, Transition
from dlhmc.training.schedule import Schedule


def check_loss(loss: Loss, target: Target) -> Checked:
    """A loss must give a finite number for each chain, with a finite gradient, and keep chains apart."""

    def transition() -> Transition:
        x, v = example(target), momentum(target, example(target), seed=2)
        y = target.geometry.moved(x, 0.1 * v)
        return Transition(x, v, y, v, jnp.asarray([0.2, 0.5, 0.9]))

    def numbers() -> Problems:
        wrong = list(bad_numbers("it", loss(target, transition()), (CHAINS,)))
        yield from wrong or mixed_chains(lambda given: {"the number": loss(target, given)}, transition(), 1e-10)

    def gradient() -> Problems:
        start = transition()

        def mean(displacement: Field, acceptance: Array) -> Array:
            x_new = target.geometry.moved(start.x_new, displacement)
            return jnp.mean(loss(target, start._replace(x_new=x_new, acceptance=acceptance)))

        of_x, of_acceptance = map(as_numbers, jax.grad(mean, argnums=(0, 1))(0 * start.v, start.acceptance))
        if not np.all(np.isfinite(of_x)) or not np.all(np.isfinite(of_acceptance)):
            yield "its gradient is not finite"
        elif not np.any(of_x) and not np.any(of_acceptance):
            yield "its gradient is zero: it does not depend on where the trajectory ends"
        elif np.any(of_acceptance > 0):
            yield "it grows with the acceptance: training minimises it, and would learn to be rejected"

    return run_checks("the loss", {"numbers": numbers, "gradient": gradient})


def check_schedule(schedule: Schedule, steps: int, *, annealing: bool = True) -> Checked:
    """A schedule must give finite positive numbers, end within the run, and stay; γ must end at 1."""
    at = jax.jit(lambda schedule, step: (schedule(step), schedule.finished(step)))

    def values() -> Problems:
        found = [at(schedule, np.int32(step)) for step in (0, steps // 2, steps, 2 * steps)]
        if any(value.shape != () for value, _ in found):
            yield "it gives more than one number"
            return
        numbers = [float(value) for value, _ in found]
        if not all(np.isfinite(number) and number > 0 for number in numbers):
            yield f"it gives {numbers}, which must be finite and positive"
        elif numbers[2] != numbers[3]:
            yield f"it has not come to rest at the last step: {numbers[2]:g} becomes {numbers[3]:g}"
        elif annealing and abs(numbers[2] - 1) > 1e-6:
            yield f"it ends at γ = {numbers[2]:g}, but the target is the one with γ = 1"
        if not found[2][1]:
            yield "it does not say that it has finished at the last step"

    return run_checks(schedule, {"values": values})
