"""Accept or reject, eq. (7) of the paper."""

from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key

from dlhmc.geometry.contract import PerChain
from dlhmc.numerics import rng

T = TypeVar("T")


class Decision(NamedTuple):
    """The outcome for each chain."""

    acceptance: PerChain
    accepted: Bool[Array, " chain"]
    nonfinite: Bool[Array, " chain"]


def decide(key: Key[Array, ""], energy_change: PerChain) -> Decision:
    """Accept with probability A = min(1, e^{−ΔH}); a ΔH that is not finite is rejected and reported.

    −∞ is rejected as well: a proposal that much better than its start is a numerical failure, not a find.
    """
    acceptance = probability(energy_change)
    accepted = rng.uniform(key, energy_change.shape, energy_change.dtype) < acceptance
    return Decision(acceptance, accepted, ~jnp.isfinite(energy_change))


def probability(energy_change: PerChain) -> PerChain:
    """A = min(1, e^{−ΔH}), 0 where ΔH is not finite, with a gradient that is finite there too."""
    finite = jnp.isfinite(energy_change)
    return jnp.where(finite, jnp.exp(-jnp.maximum(jnp.where(finite, energy_change, 0), 0)), 0)


def select(accepted: Bool[Array, " chain"], proposal: T, current: T) -> T:
    """The proposal where it was accepted, what there was elsewhere: arrays with the chain axis last."""

    def choose(new: Any, old: Any) -> Any:
        return jnp.where(accepted, new, old)

    chosen: T = jax.tree.map(choose, proposal, current)
    return chosen
