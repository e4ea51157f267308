"""Targets: what is sampled. The theories themselves are in `dlhmc.theories`."""

from dlhmc.targets.contract import ExactDraws, Moment, Symmetry, Target, energy_change, registry, standard, sum_sites

__all__ = ["ExactDraws", "Moment", "Symmetry", "Target", "energy_change", "registry", "standard", "sum_sites"]
