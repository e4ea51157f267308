"""Losses: functions of ξ, ξ′, A and the target, one number for each chain; training minimises their mean."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from dlhmc.geometry.contract import Field, Momentum, PerChain, sum_sites
from dlhmc.targets.contract import Target, action_change


class Transition(NamedTuple):
    """A proposed step ξ → ξ′ and the probability A(ξ′|ξ) that it is taken, differentiable in the parameters."""

    x: Field
    v: Momentum
    x_new: Field
    v_new: Momentum
    acceptance: PerChain


Loss = Callable[[Target, Transition], PerChain]


def charge_loss(target: Target, transition: Transition) -> PerChain:
    """−δ·A with δ = (Q_R(x′) − Q_R(x))², the paper's loss (section 4); Q_R is the smooth label of the sector."""
    jump = _sector(target, transition.x_new) - _sector(target, transition.x)
    return -transition.acceptance * jump * jump


def _sector(target: Target, x: Field) -> PerChain:
    sector = target.known.smooth_sector(target, x)
    if sector is None:
        raise TypeError("the target has no sectors to leave: use the jump loss")
    return sector


# Inside a sector its smooth label moves by less.
_LEAVES = 0.4
# The root has no derivative at zero.
_TINY = 1e-30


def leaving_loss(target: Target, transition: Transition) -> PerChain:
    """−δ·√A, with δ = min(1, (Δq)²) where the smooth label q of the sector changes by more than 0.4, else δ = 0.

    (Δq)² alone also pays for motion inside a sector: where sectors are hard to leave, training settles for that. And it
    pays four times for two sectors at once, which are hardly ever accepted. The root lets proposals speak that leave
    and are not accepted yet: early in a training there are hardly any others.
    """
    jump = jnp.abs(_sector(target, transition.x_new) - _sector(target, transition.x))
    left = jnp.where(jump > _LEAVES, jnp.minimum(jump * jump, 1), 0)
    return -left * jnp.sqrt(jnp.maximum(transition.acceptance, _TINY))


def jump_loss(target: Target, transition: Transition) -> PerChain:
    """−|x′ − x|²·A, the expected squared jump distance (Levy et al. 2017)."""
    jump = target.geometry.difference(transition.x, transition.x_new)
    return -transition.acceptance * sum_sites(jump * jump)


def action_loss(target: Target, transition: Transition) -> PerChain:
    """−(ΔS)²·A over the number of momenta: the expected squared jump of the action.

    In equilibrium ⟨(ΔS)²·A⟩ = 2 Var(S)·(1 − ρ(1)), so this is what lowers the autocorrelation ρ of the action from one
    trajectory to the next. For targets without sectors, where |x′ − x| would also pay for motion that changes nothing
    but the gauge.
    """
    old, new = target.terms(transition.x).value, target.terms(transition.x_new).value
    change = action_change(old, new, transition.x_new)
    return -transition.acceptance * change * change / math.prod(target.geometry.momentum_shape)
