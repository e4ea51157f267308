"""The paper's loss: how far the topological charge moves."""

from dlhmc.geometry.contract import PerChain
from dlhmc.targets.contract import Target
from dlhmc.training.loss import Transition


def charge_loss(target: Target, transition: Transition) -> PerChain:
    """−δ·A with δ = (Q_R(x′) − Q_R(x))², the paper's loss (section 4)."""
    before, after = (target.known.smooth_sector(target, x) for x in (transition.x, transition.x_new))
    if before is None or after is None:
        raise TypeError("the charge loss is made for gauge fields with a charge: use the jump loss")
    return -transition.acceptance * (after - before) ** 2
