"""Targets: what is sampled, put together from actions. Those of this package are in `dlhmc.theories`."""

from dlhmc.targets.contract import ExactDraws, Known, Moment, Symmetry, Target, energy_change

__all__ = ["ExactDraws", "Known", "Moment", "Symmetry", "Target", "energy_change"]
