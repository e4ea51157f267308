"""Checks of what training is made of: losses and schedules."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dlhmc.geometry.contract import Field
from dlhmc.targets.contract import Target
from dlhmc.testing.checks import CHAINS, Checked, Problems, as_numbers, example, far, momentum, run_checks
from dlhmc.training.loss import Loss, Transition
from dlhmc.training.schedule import Schedule


def check_loss(loss: Loss, target: Target) -> Checked:
    """A loss must give a finite number for each chain, with a finite gradient, and keep chains apart."""

    def transition(chains: slice = slice(None)) -> Transition:
        x = example(target)
        v = momentum(target, x, seed=2)
        y = target.geometry.moved(x, 0.1 * v)
        acceptance = jnp.asarray([0.2, 0.5, 0.9], v.dtype)
        return Transition(*(a[..., chains] for a in (x, v, y, v, acceptance)))

    def numbers() -> Problems:
        values = loss(target, transition())
        if np.shape(values) != (CHAINS,):
            yield f"it gives the shape {np.shape(values)}, not one number for each of {CHAINS} chains"
        elif not np.all(np.isfinite(as_numbers(values))):
            yield "it gives numbers that are not finite"
        elif far(values[1:2], loss(target, transition(slice(1, 2))), 1e-10) is not None:
            yield "the number of a chain depends on other chains"

    def gradient() -> Problems:
        start = transition()

        def mean(displacement: Field, acceptance: Array) -> Array:
            x_new = target.geometry.moved(start.x_new, displacement)
            return jnp.mean(loss(target, start._replace(x_new=x_new, acceptance=acceptance)))

        of_x, of_acceptance = jax.grad(mean, argnums=(0, 1))(0 * start.v, start.acceptance)
        if not np.all(np.isfinite(as_numbers(of_x))) or not np.all(np.isfinite(as_numbers(of_acceptance))):
            yield "its gradient is not finite"
        elif not np.any(as_numbers(of_x)) and not np.any(as_numbers(of_acceptance)):
            yield "its gradient is zero: it does not depend on where the trajectory ends"
        elif np.any(as_numbers(of_acceptance) > 0):
            yield "it grows with the acceptance: training minimises it, and would learn to be rejected"

    return run_checks("the loss", {"numbers": numbers, "gradient": gradient})


def check_schedule(schedule: Schedule, steps: int, *, annealing: bool = True) -> Checked:
    """A schedule must give finite positive numbers, end within the run, and stay; γ must end at 1."""

    def values() -> Problems:
        at = [schedule(jnp.asarray(step, jnp.int32)) for step in (0, steps // 2, steps, 2 * steps)]
        numbers = [float(value) for value in at]
        if any(np.shape(value) != () for value in at):
            yield "it gives more than one number"
        elif not all(np.isfinite(number) and number > 0 for number in numbers):
            yield f"it gives {numbers}, which must be finite and positive"
        elif numbers[2] != numbers[3]:
            yield f"it has not come to rest at the last step: {numbers[2]:g} becomes {numbers[3]:g}"
        elif annealing and abs(numbers[2] - 1) > 1e-6:
            yield f"it ends at γ = {numbers[2]:g}, but the target is the one with γ = 1"

    def finished() -> Problems:
        if bool(schedule.finished(jnp.asarray(steps, jnp.int32))) is not True:
            yield "it does not say that it has finished at the last step"

    def traced() -> Problems:
        jax.jit(lambda schedule, step: (schedule(step), schedule.finished(step)))(schedule, jnp.asarray(1, jnp.int32))
        yield from ()

    return run_checks(schedule, {"values": values, "end": finished, "compilation": traced})
