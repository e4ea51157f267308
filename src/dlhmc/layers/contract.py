"""What layers and trajectories are: bijections of phase space with their inverses, both with log|J|."""

import functools
from abc import abstractmethod
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key

from dlhmc.geometry.contract import Field, Momentum, PerChain
from dlhmc.numerics import rng
from dlhmc.targets.contract import Target, for_chains
from dlhmc.targets.windows import Windows


class Phase(NamedTuple):
    """Where a trajectory is: x, v, and Σ log|J| so far."""

    x: Field
    v: Momentum
    log_jacobian: PerChain


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

    #: whether it acts in windows and leaves all else as it is, so that it takes turns with HMC
    acts_in_windows: ClassVar[bool] = False

    @abstractmethod
    def __len__(self) -> int:
        """N_LF, the number of leapfrog steps."""

    @property
    @abstractmethod
    def forces(self) -> int:
        """Forces that F computes."""

    @abstractmethod
    def forward(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F(x, v) with log|J|."""

    @abstractmethod
    def inverse(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F⁻¹(x, v) with log|J| of the inverse."""

    @abstractmethod
    def layer_by_layer(self, target: Target, x: Field, v: Momentum) -> Phase:
        """The phase after each layer of F, stacked along a new first axis."""

    @rng.by_chain
    def propose(self, key: Key[Array, ""], target: Target, x: Field, v: Momentum) -> Phase:
        """ξ′ of a random map, drawn for each chain, such that there is a way back: F or F⁻¹ with equal probability.

        The way back is from ξ′, or from ξ′ with the momentum flipped. Where it is not as probable as the way there,
        the logarithm of the ratio is part of log|J|: accept/reject then is exact. A method that draws for each chain
        with `dlhmc.numerics.rng` says so with `rng.by_chain`.
        """
        return either_way(key, self, target, x, v)

    def windows(self, key: Key[Array, ""], target: Target, x: Field) -> Windows | None:
        """Where it acts, if that is in windows, each to be accepted on its own; None for the whole field."""
        return None


def either_way(key: Key[Array, ""], trajectory: Trajectory, target: Target, x: Field, v: Momentum) -> Phase:
    """F for some chains and F⁻¹ for the others, at the cost of one of them for each chain.

    Chains 2i and 2i + 1 draw together which of them goes forward: d is uniform for each chain, and each chain by
    itself is the one of independent draws.
    """
    chains = x.shape[-1]
    if chains % 2:
        d = rng.coin(key, (chains,))
        there, back = trajectory.forward(target, x, v), trajectory.inverse(target, x, v)
        return Phase(*(jnp.where(d, a, b) for a, b in zip(there, back, strict=True)))
    d = rng.coin(key, (chains // 2,))
    forward, backward = functools.partial(_one_of_each_pair, d), functools.partial(_one_of_each_pair, ~d)
    there = trajectory.forward(for_chains(target, forward), forward(x), forward(v))
    back = trajectory.inverse(for_chains(target, backward), backward(x), backward(v))
    return Phase(*(_collect(d, a, b) for a, b in zip(there, back, strict=True)))


def _one_of_each_pair(first: Bool[Array, " pair"], field: Field) -> Field:
    return jnp.where(first, field[..., 0::2], field[..., 1::2])


def _collect(first_goes_forward: Bool[Array, " pair"], there: Field, back: Field) -> Field:
    """Both of each pair in their places."""
    even, odd = jnp.where(first_goes_forward, there, back), jnp.where(first_goes_forward, back, there)
    return jnp.stack([even, odd], axis=-1).reshape(*even.shape[:-1], -1)
