"""Targets: what is sampled."""

from dlhmc.targets.contract import ExactDraws, Moment, Symmetry, Target, energy_change, registry, sum_sites
from dlhmc.targets.euclidean import (
    Funnel,
    Gaussian,
    GaussianMixture,
    LogDensity,
    RoughWell,
    correlated_gaussian,
    ill_conditioned_gaussian,
)
from dlhmc.targets.u1 import U1

__all__ = [
    "U1",
    "ExactDraws",
    "Funnel",
    "Gaussian",
    "GaussianMixture",
    "LogDensity",
    "Moment",
    "RoughWell",
    "Symmetry",
    "Target",
    "correlated_gaussian",
    "energy_change",
    "ill_conditioned_gaussian",
    "registry",
    "sum_sites",
]
