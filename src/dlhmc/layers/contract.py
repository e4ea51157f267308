"""What layers and trajectories are: bijections of phase space with their inverses, both with log|J|."""

from abc import abstractmethod
from typing import NamedTuple, Protocol

import equinox as eqx
from jaxtyping import Array, Key, Num

from dlhmc.geometry.contract import Field, Momentum, PerChain
from dlhmc.targets.contract import Target


class Phase(NamedTuple):
    """Where a trajectory is: x, v, and Σ log|J| so far."""

    x: Field
    v: Momentum
    log_jacobian: PerChain


class Parts(Protocol):
    """Parts of the field that a proposal changes independently of each other."""

    def total(self, local: Num[Array, "..."]) -> Num[Array, "*part chain"]:
        """The sums of a local field over each part."""

    def spread(self, of_parts: Num[Array, "*part chain"]) -> Num[Array, "..."]:
        """At each place of the field the value of its part."""


class Layer(eqx.Module):
    """One step of a trajectory."""

    @property
    def forces(self) -> int:
        """Forces that a pass through the layer computes."""
        return 2

    @abstractmethod
    def forward(self, target: Target, phase: Phase) -> Phase:
        """ξ → ξ′, with the logarithm of the Jacobian determinant added to the phase's."""

    @abstractmethod
    def inverse(self, target: Target, phase: Phase) -> Phase:
        """ξ′ → ξ, likewise."""


class Trajectory(eqx.Module):
    """The map F: ξ = (x, v) → ξ′ that a kernel proposes with, and its inverse."""

    @abstractmethod
    def __len__(self) -> int:
        """N_LF, the number of leapfrog steps."""

    @property
    @abstractmethod
    def forces(self) -> int:
        """Forces that F computes."""

    @property
    def forces_of_target(self) -> int:
        """Those among them that are the target's own, however expensive; the others belong to a part of its action."""
        return self.forces

    @abstractmethod
    def forward(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F(x, v) with log|J|."""

    @abstractmethod
    def inverse(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F⁻¹(x, v) with log|J| of the inverse."""

    @abstractmethod
    def layer_by_layer(self, target: Target, x: Field, v: Momentum) -> Phase:
        """The phase after each layer of F, stacked along a new first axis."""

    @abstractmethod
    def propose(self, key: Key[Array, ""], target: Target, x: Field, v: Momentum) -> Phase:
        """ξ′ of a random map, drawn for each chain, such that there is a way back.

        The way back is from ξ′, or from ξ′ with the momentum flipped. Where it is not as probable as the way there,
        the logarithm of the ratio is part of log|J|: accept/reject then is exact. A method that draws for each chain
        with `dlhmc.numerics.rng` says so with `rng.by_chain`.
        """

    def propose_parts(self, key: Key[Array, ""], target: Target, x: Field, v: Momentum) -> tuple[Phase, Parts] | None:
        """Proposals for parts of the field, about each of which accept/reject decides on its own; None for none.

        For actions that are sums over these parts; log|J| is that of each part, the same for all.
        """
        return None
