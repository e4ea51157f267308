"""The paper's loss: how far the topological charge moves."""

from dlhmc.geometry.contract import PerChain
from dlhmc.targets.contract import Target
from dlhmc.theories.u1.plaquette_action import PlaquetteAction
from dlhmc.training.loss import Transition


def charge_loss(target: Target, transition: Transition) -> PerChain:
    """−δ·A with δ = (Q_R(x′) − Q_R(x))², the paper's loss (section 4)."""
    if not isinstance(target, PlaquetteAction):
        raise TypeError("the charge loss is made for U(1) theories of plaquettes: use the jump loss")
    jump = target.sine_charge(transition.x_new) - target.sine_charge(transition.x)
    return -transition.acceptance * jump * jump
