"""The paper's loss: how far the topological charge moves."""

from dlhmc.targets.contract import PerChain, Target
from dlhmc.theories.u1.action import U1
from dlhmc.training.loss import Transition


def charge_loss(target: Target, transition: Transition) -> PerChain:
    """−δ·A with δ = (Q_R(x′) − Q_R(x))², the paper's loss (section 4)."""
    if not isinstance(target, U1):
        raise TypeError("the charge loss is made for the U1 target only: use the jump loss")
    jump = target.sine_charge(transition.x_new) - target.sine_charge(transition.x)
    return -transition.acceptance * jump * jump
