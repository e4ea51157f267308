"""Layers: the bijections Γ and Λ that a trajectory is made of."""

from dlhmc.layers.contract import Layer, Phase, Trajectory
from dlhmc.layers.leapfrog import LeapfrogLayer
from dlhmc.layers.local import LinkKick, Local, PlaquetteKick
from dlhmc.layers.palindrome import Impulse, Kick, Palindrome
from dlhmc.layers.position import RULES, Affine, Circle, PositionRule, Shift
from dlhmc.layers.stack import LayerStack

__all__ = [
    "RULES",
    "Affine",
    "Circle",
    "Impulse",
    "Kick",
    "Layer",
    "LayerStack",
    "LeapfrogLayer",
    "LinkKick",
    "Local",
    "Palindrome",
    "Phase",
    "PlaquetteKick",
    "PositionRule",
    "Shift",
    "Trajectory",
]
