"""Losses: functions of ξ, ξ′, A and the target, one number for each chain; training minimises their mean."""

from collections.abc import Callable
from typing import NamedTuple

from dlhmc.geometry.contract import Field, Momentum, PerChain, sum_sites
from dlhmc.targets.contract import Target


class Transition(NamedTuple):
    """A proposed step ξ → ξ′ and the probability A(ξ′|ξ) that it is taken, differentiable in the parameters."""

    x: Field
    v: Momentum
    x_new: Field
    v_new: Momentum
    acceptance: PerChain


Loss = Callable[[Target, Transition], PerChain]


def jump_loss(target: Target, transition: Transition) -> PerChain:
    """−|x′ − x|²·A, the expected squared jump distance (Levy et al. 2017)."""
    jump = target.geometry.difference(transition.x, transition.x_new)
    return -transition.acceptance * sum_sites(jump * jump)
