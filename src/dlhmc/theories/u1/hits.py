"""Instanton hits: the strongest hand-made move for the topology of 2D U(1), added to any other kernel."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from dlhmc.geometry.torus import wrap_angle
from dlhmc.kernels.alternating import Alternating
from dlhmc.kernels.contract import Info, Kernel, State
from dlhmc.kernels.metropolis import decide
from dlhmc.numerics import rng
from dlhmc.targets.contract import action_change, added_up
from dlhmc.theories.u1.links import Links, instanton
from dlhmc.theories.u1.plaquette_action import PlaquetteAction


class Hit(Kernel):
    """Add ± the field of charge one, then accept or reject."""

    target: PlaquetteAction

    def init(self, x: Links) -> State:
        """With the action, if it is expensive."""
        return State.knowing(self.target, x)

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """One hit of every chain."""
        x = state.x
        sign_key, accept_key, refresh_key = jax.random.split(key, 3)
        target = self.target.refresh(refresh_key, x)
        sign = jnp.where(rng.coin(sign_key, x.shape[-1:]), 1, -1).astype(x.dtype)
        proposal = wrap_angle(x + sign * instanton(target.lattice, x.dtype))
        action, told = target.counted_action(proposal)
        change = action_change(state.known(target), action, proposal)
        acceptance, accepted, nonfinite = decide(accept_key, change)
        effort = added_up(target.refresh_effort(), told)
        return state.moved(accepted, proposal, action), Info(acceptance, accepted, change, nonfinite, effort)


class InstantonHits(Alternating):
    """After each step of `kernel`, `number` hits."""

    told: ClassVar[str] = "hits"

    def __init__(self, kernel: Kernel, number: int) -> None:
        target = kernel.target
        if not isinstance(target, PlaquetteAction):
            raise TypeError("instanton hits are made for U(1) theories whose action is a function of the plaquettes")
        super().__init__(kernel, Hit(target.marginal()), number)

    def describe(self) -> dict[str, Any]:
        """The kernel between the hits, and their number."""
        return self.kernel.describe() | {"hits": self.number}
