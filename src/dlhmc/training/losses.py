"""Losses by name: the first that suits a target is its default."""

from collections.abc import Callable
from typing import NamedTuple

import jax

from dlhmc.errors import Setting, UserError
from dlhmc.settings import advice
from dlhmc.targets import Target
from dlhmc.training.loss import Loss, action_loss, charge_loss, jump_loss, leaving_loss


class NamedLoss(NamedTuple):
    """A loss that the command line knows by name."""

    #: in a few words
    meaning: str
    function: Loss
    suits: Callable[[Target], bool]


def _always(_: Target) -> bool:
    return True


def _has_smooth_sector(target: Target) -> bool:
    dtype = target.geometry.dtype(jax.numpy.result_type(float))
    x = jax.ShapeDtypeStruct((*target.geometry.shape, 1), dtype)
    return jax.eval_shape(lambda x: target.known.smooth_sector(target, x), x) is not None


LOSSES = {
    "charge": NamedLoss("−A·(ΔQ_R)², the paper's", charge_loss, _has_smooth_sector),
    "leaving": NamedLoss("−√A for what leaves its sector", leaving_loss, _has_smooth_sector),
    "jump": NamedLoss("−A·|Δx|²", jump_loss, _always),
    "action": NamedLoss("−A·(ΔS)²", action_loss, _always),
}


def loss_for(target: Target, name: str | None, preferred: str | None = None) -> NamedLoss:
    """The loss of that name; without one the preferred if it suits the target, or the first that does."""
    fitting = [key for key, loss in LOSSES.items() if loss.suits(target)]
    if name is None:
        name = preferred if preferred in fitting else fitting[0]
    if name not in LOSSES:
        raise UserError(f"There is no {Setting('loss')} {name!r}: {advice(name, LOSSES)}")
    if name not in fitting:
        raise UserError(f"The {Setting('loss')} {name} is not for this target: use {' or '.join(fitting)}.")
    return LOSSES[name]
