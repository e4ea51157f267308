"""Leapfrog layers whose kicks are linear in the force: few parameters, and other layers can take them over.

Layer k is that of the paper with s and q that do not depend on the state, and t linear in the force: Γ, Λ, Γ with

    Γ: v′ = e^{a_k} v − b_k (∂S + W_k R ∂S),   Λ: x′ = x + e_k v,

where a_k, b_k and e_k are numbers for each momentum, R reads a few linear combinations of the force, and W_k adds them
to it again. The second half mirrors the first, with −a in place of a and b·e^{−a} in place of b. The trajectory is then
its own way back, F⁻¹ = flip∘F∘flip with the momentum flipped, and log|J| = 0: one direction suffices.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from dlhmc.geometry.contract import Field, Momentum
from dlhmc.layers.contract import Phase, Trajectory
from dlhmc.numerics import rng
from dlhmc.targets.contract import Target


class Steps(NamedTuple):
    """The numbers of all layers; those that are the same for all momenta have axes of length 1."""

    #: a
    scale: Float[Array, "layer *momentum 1"]
    #: b
    kick: Float[Array, "layer *momentum 1"]
    #: e
    drift: Float[Array, "layer *momentum 1"]
    #: W, if there is one
    write: Float[Array, "layer *momentum unit"] | None = None
    #: R, the same for all layers
    read: Float[Array, "unit *momentum"] | None = None


class LinearTrajectory(Trajectory):
    """A subclass says what its steps are: those of a palindrome in the sense above."""

    @abstractmethod
    def steps(self, target: Target) -> Steps:
        """Of all layers, for the target as it is."""

    @property
    def forces(self) -> int:
        """Between two layers the force is the same."""
        return len(self) + 1

    def forward(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F(x, v)."""
        return self._run(target, x, v, record=False)[0]

    def inverse(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F⁻¹ = flip∘F∘flip."""
        end = self.forward(target, x, -v)
        return end._replace(v=-end.v)

    def layer_by_layer(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F, with the phase after each layer; log|J| is 0 at the end only."""
        return self._run(target, x, v, record=True)[1]

    @rng.by_chain
    def propose(self, key: Key[Array, ""], target: Target, x: Field, v: Momentum) -> Phase:
        """F: the way back is F from the flipped momentum."""
        return self.forward(target, x, v)

    def _run(self, target: Target, x: Field, v: Momentum, *, record: bool) -> tuple[Phase, Any]:
        *numbers, read = jax.tree.map(lambda a: a.astype(v.dtype), self.steps(target))
        size = v.size // v.shape[-1]

        def force_at(x: Field) -> tuple[Momentum, Any]:
            force = target.force(x)
            return force, None if read is None else read.reshape(-1, size) @ force.reshape(size, -1)

        def kick(v: Momentum, of_layer: Steps, force: tuple[Momentum, Any]) -> Momentum:
            total, units = force
            if of_layer.write is not None:
                total = total + (of_layer.write.reshape(size, -1) @ units).reshape(v.shape)
            return jnp.exp(of_layer.scale) * v - of_layer.kick * total

        def layer(carry: tuple[Phase, Any], numbers: Any) -> tuple[tuple[Phase, Any], Phase | None]:
            (x, v, log_jacobian), force = carry
            of_layer = Steps(*numbers)
            v = kick(v, of_layer, force)
            x, v = target.geometry.drift(x, v, of_layer.drift * v)
            force = force_at(x)
            v = kick(v, of_layer, force)
            heat = jnp.sum(jnp.broadcast_to(of_layer.scale, (*v.shape[:-1], 1)))
            phase = Phase(x, v, log_jacobian + 2 * heat)
            return (phase, force), phase if record else None

        begin = Phase(x, v, jnp.zeros(x.shape[-1], v.dtype))
        (end, _), recorded = jax.lax.scan(layer, (begin, force_at(x)), tuple(numbers))
        # Heating and cooling cancel exactly, and not only to rounding.
        return end._replace(log_jacobian=jnp.zeros_like(end.log_jacobian)), recorded
