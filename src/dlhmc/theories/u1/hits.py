"""Instanton hits: the strongest hand-made move for the topology of 2D U(1), added to any other kernel."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from dlhmc.geometry.torus import Torus, wrap_angle
from dlhmc.kernels.alternating import Alternating
from dlhmc.kernels.contract import Info, Kernel, State
from dlhmc.kernels.metropolis import decide
from dlhmc.lattice.links import Links, instanton, sides_of
from dlhmc.numerics import rng
from dlhmc.targets.contract import Target, action_change


class Hit(Kernel):
    """Add ± the field of charge one, then accept or reject."""

    target: Target

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """One hit of every chain."""
        x = state.x
        sign_key, accept_key = jax.random.split(key)
        sign = jnp.where(rng.coin(sign_key, x.shape[-1:]), 1, -1).astype(x.dtype)
        proposal: Links = wrap_angle(x + sign * instanton(sides_of(self.target.geometry), x.dtype))
        terms, effort = self.target.terms(proposal)
        change = action_change(state.terms, terms, proposal)
        acceptance, accepted, nonfinite = decide(accept_key, change)
        return state.moved(accepted, proposal, terms), Info(acceptance, accepted, change, nonfinite, effort)


class InstantonHits(Alternating):
    """After each step of `kernel`, `number` hits."""

    told: ClassVar[str] = "hits"

    def __init__(self, kernel: Kernel, number: int) -> None:
        if not has_instantons(kernel.target):
            raise TypeError("instanton hits are made for U(1) theories whose links are angles")
        super().__init__(kernel, Hit(kernel.target.known.guided(kernel.target)[0]), number)

    def describe(self) -> dict[str, Any]:
        """The kernel between the hits, and their number."""
        return self.kernel.describe() | {"hits": self.number}


def has_instantons(target: Target) -> bool:
    """Whether links are angles in two dimensions."""
    return isinstance(target.geometry, Torus) and target.known.sector == "charge"
