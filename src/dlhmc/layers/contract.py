"""What a layer is: a bijection of phase space with its inverse, both with log|J|."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx

from dlhmc.targets.contract import Field, PerChain, Target


class Phase(NamedTuple):
    """Where a trajectory is: x, v, and Σ log|J| so far."""

    x: Field
    v: Field
    log_jacobian: PerChain


class Layer(eqx.Module):
    """One step of a trajectory."""

    @abstractmethod
    def forward(self, target: Target, phase: Phase) -> Phase:
        """ξ → ξ′, with the logarithm of the Jacobian determinant added to the phase's."""

    @abstractmethod
    def inverse(self, target: Target, phase: Phase) -> Phase:
        """ξ′ → ξ, likewise."""
