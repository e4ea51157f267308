"""Targets: what is sampled. Theories, the targets of this package, are in `dlhmc.theories`."""

from dlhmc.targets.contract import ExactDraws, Moment, Symmetry, Target, energy_change

__all__ = ["ExactDraws", "Moment", "Symmetry", "Target", "energy_change"]
