"""Layers: the bijections Γ and Λ that a trajectory is made of."""

from dlhmc.layers.contract import Layer, Phase, Trajectory
from dlhmc.layers.leapfrog import LeapfrogLayer
from dlhmc.layers.linear import LinearTrajectory
from dlhmc.layers.position import RULES, Affine, Circle, PositionRule, Shift
from dlhmc.layers.stack import LayerStack
from dlhmc.layers.uniform import Uniform

__all__ = [
    "RULES",
    "Affine",
    "Circle",
    "Layer",
    "LayerStack",
    "LeapfrogLayer",
    "LinearTrajectory",
    "Phase",
    "PositionRule",
    "Shift",
    "Trajectory",
    "Uniform",
]
