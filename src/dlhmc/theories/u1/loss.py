"""The paper's loss: how far the topological charge moves."""

from dlhmc.geometry.contract import Field, PerChain
from dlhmc.targets.contract import Target
from dlhmc.targets.windows import Window
from dlhmc.theories.u1.plaquette_action import PlaquetteAction
from dlhmc.training.loss import Transition


def charge_loss(target: Target, transition: Transition) -> PerChain:
    """−δ·A with δ = (Q_R(x′) − Q_R(x))², the paper's loss (section 4)."""
    jump = _charge(target, transition.x_new) - _charge(target, transition.x)
    return -transition.acceptance * jump * jump


def _charge(target: Target, x: Field) -> PerChain:
    """Q_R, of a window that of its patch, which changes as that of the lattice does."""
    if isinstance(target, Window):
        return _charge(target.whole, target.embed(x))
    if not isinstance(target, PlaquetteAction):
        raise TypeError("the charge loss is made for U(1) theories of plaquettes: use the jump loss")
    return target.sine_charge(x)
