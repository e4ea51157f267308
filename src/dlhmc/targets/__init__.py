"""Targets: what is sampled."""

from dlhmc.targets.contract import ExactDraws, Moment, Symmetry, Target, energy_change, registry, sum_sites
from dlhmc.targets.u1 import U1

__all__ = ["U1", "ExactDraws", "Moment", "Symmetry", "Target", "energy_change", "registry", "sum_sites"]
