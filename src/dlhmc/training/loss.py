"""Losses: functions of ξ, ξ′, A and the target, one number for each chain; training minimises their mean."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from dlhmc.targets.contract import Field, PerChain, Target, sum_sites


class Transition(NamedTuple):
    """A proposed step ξ → ξ′ and the probability A(ξ′|ξ) that it is taken, differentiable in the parameters."""

    x: Field
    v: Field
    x_new: Field
    v_new: Field
    acceptance: PerChain


Loss = Callable[[Target, Transition], PerChain]


def jump_loss(target: Target, transition: Transition) -> PerChain:
    """−|x′ − x|²·A, the expected squared jump distance (Levy et al. 2017)."""
    jump = target.wrap(transition.x_new - transition.x)
    return -transition.acceptance * sum_sites(jump * jump)


def smooth_acceptance(energy_change: PerChain) -> PerChain:
    """A = min(1, e^{−ΔE}), 0 where ΔE is not finite, with a gradient that is finite there too."""
    finite = jnp.isfinite(energy_change)
    return jnp.where(finite, jnp.exp(-jnp.maximum(jnp.where(finite, energy_change, 0), 0)), 0)
