"""Targets: what is sampled."""

from dlhmc.targets.contract import ExactDraws, Moment, Symmetry, Target, energy_change, registry, standard, sum_sites
from dlhmc.targets.funnel import Funnel
from dlhmc.targets.gaussian import Gaussian, correlated_gaussian, ill_conditioned_gaussian
from dlhmc.targets.log_density import LogDensity
from dlhmc.targets.mixture import GaussianMixture
from dlhmc.targets.rough_well import RoughWell
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
    "standard",
    "sum_sites",
]
