"""Accept or reject, eq. (7) of the paper."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Key

from dlhmc.numerics import rng
from dlhmc.targets.contract import Field, PerChain


class Decision(NamedTuple):
    """The outcome for each chain."""

    acceptance: PerChain
    accepted: Bool[Array, " chain"]
    nonfinite: Bool[Array, " chain"]


def decide(key: Key[Array, ""], energy_change: PerChain) -> Decision:
    """Accept with probability A = min(1, e^{−ΔH}); a ΔH that is not finite is rejected and reported.

    −∞ is rejected as well: a proposal that much better than its start is a number gone wrong, not a find.
    """
    finite = jnp.isfinite(energy_change)
    acceptance = jnp.where(finite, jnp.exp(-jnp.maximum(energy_change, 0)), 0)
    accepted = rng.uniform(key, energy_change.shape, energy_change.dtype) < acceptance
    return Decision(acceptance, accepted, ~finite)


def select(accepted: Bool[Array, " chain"], proposal: Field, current: Field) -> Field:
    """The proposal where it was accepted, the current configuration elsewhere."""
    return jnp.where(accepted, proposal, current)
