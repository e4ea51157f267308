"""Instanton hits: the strongest hand-made move for the topology of 2D U(1), added to any other kernel."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from dlhmc.geometry.contract import Field, Momentum, PerChain, sum_sites
from dlhmc.geometry.torus import wrap_angle
from dlhmc.kernels.contract import Kernel, RoundTrip
from dlhmc.kernels.metropolis import decide, select
from dlhmc.numerics import rng
from dlhmc.theories.u1.links import instanton
from dlhmc.theories.u1.plaquette_action import PlaquetteAction


class HitsInfo(NamedTuple):
    """As `dlhmc.Info`, and how the hits fared."""

    acceptance: PerChain
    accepted: Bool[Array, " chain"]
    energy_change: PerChain
    nonfinite: Bool[Array, " chain"]
    #: fraction of accepted hits
    hits: PerChain


class InstantonHits(Kernel):
    """After each step of `kernel`, `number` times: add ± the field of charge one, then accept or reject."""

    kernel: Kernel
    target: PlaquetteAction
    number: int = eqx.field(static=True)

    def __init__(self, kernel: Kernel, number: int) -> None:
        if not isinstance(kernel.target, PlaquetteAction):
            raise TypeError("instanton hits are made for U(1) theories whose action is a function of the plaquettes")
        self.kernel, self.target, self.number = kernel, kernel.target, number

    @property
    def leapfrog_steps(self) -> int:
        """Those of the kernel between the hits."""
        return self.kernel.leapfrog_steps

    @property
    def forces(self) -> int:
        """Those of the kernel between the hits."""
        return self.kernel.forces

    def describe(self) -> dict[str, Any]:
        """The kernel between the hits, and their number."""
        return self.kernel.describe() | {"hits": self.number}

    def init(self, x: Field) -> Any:
        """The state of the kernel between the hits."""
        return self.kernel.init(x)

    def round_trip(self, x: Field, v: Momentum) -> RoundTrip | None:
        """Of the kernel between the hits."""
        return self.kernel.round_trip(x, v)

    def tunable_step_size(self) -> Float[Array, ""] | None:
        """The step size of the kernel between the hits."""
        return self.kernel.tunable_step_size()

    def with_step_size(self, step_size: Float[Array, ""]) -> "InstantonHits":
        """The same with another step size of the kernel between the hits."""
        return InstantonHits(self.kernel.with_step_size(step_size), self.number)

    def step(self, key: Key[Array, ""], state: Any) -> tuple[Any, HitsInfo]:
        """One step of the kernel, then the hits."""
        kernel_key, hits_key = jax.random.split(key)
        state, info = self.kernel.step(kernel_key, state)
        shift = instanton(self.target.lattice, state.x.dtype)
        Carry = tuple[Array, Array, Array]

        def hit(index: Array, carry: Carry) -> Carry:
            x, hits, nonfinite = carry
            sign_key, accept_key = jax.random.split(jax.random.fold_in(hits_key, index))
            sign = jnp.where(rng.coin(sign_key, hits.shape), 1, -1).astype(x.dtype)
            proposal = wrap_angle(x + sign * shift)
            change = sum_sites(self.target.local_action(proposal) - self.target.local_action(x))
            decision = decide(accept_key, change)
            x = select(decision.accepted, proposal, x)
            hits = hits + decision.accepted.astype(hits.dtype)
            return x, hits, nonfinite | decision.nonfinite

        start = (state.x, jnp.zeros_like(info.acceptance), info.nonfinite)
        x, hits, nonfinite = jax.lax.fori_loop(0, self.number, hit, start)
        hits = hits / np.asarray(self.number, hits.dtype)
        # What the kernel keeps about the configuration before the hits is computed anew.
        return self.kernel.init(x), HitsInfo(info.acceptance, info.accepted, info.energy_change, nonfinite, hits)
