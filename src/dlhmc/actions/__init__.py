"""Actions: what a target is put together from."""

from dlhmc.actions.angles import Cosine, PlaquetteFunction
from dlhmc.actions.contract import Action, CellAction, Counted
from dlhmc.actions.cpn import Bonds
from dlhmc.actions.fermions import Determinant, Pseudofermions
from dlhmc.actions.loops import LoopAction, Plaquette, Rectangle

__all__ = [
    "Action",
    "Bonds",
    "CellAction",
    "Cosine",
    "Counted",
    "Determinant",
    "LoopAction",
    "Plaquette",
    "PlaquetteFunction",
    "Pseudofermions",
    "Rectangle",
]
