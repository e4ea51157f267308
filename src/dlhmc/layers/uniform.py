"""Leapfrog with three numbers for each layer, the same for all of the field: what constant networks can say.

Layer k is that of the paper with s_k constant, q = t = 0: Γ, Λ, Γ with

    Γ: v′ = e^{a_k} v − b_k e^{a_k/2} ∂S(x),   a_k = (ε_v/2) s_k,   b_k e^{a_k/2} = ε_v/2,
    Λ: x′ = x + e_k v,   e_k = ε_x.

With R the flip of the momentum, R∘Γ⁻¹∘R has −a in place of a and the same b. The second half of the trajectory is the
mirror image of the first in this sense, so that F⁻¹ = R∘F∘R, log|J| = 0, and one direction suffices.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Key

from dlhmc.geometry.contract import Field, Momentum
from dlhmc.layers.contract import Phase, Trajectory
from dlhmc.layers.palindrome import mirrored, mirrored_odd
from dlhmc.numerics import rng
from dlhmc.targets.contract import Target


class Steps(NamedTuple):
    """The numbers of all layers."""

    #: a
    scale: Float[Array, " layer"]
    #: b·e^{a/2}
    kick: Float[Array, " layer"]
    #: e
    drift: Float[Array, " layer"]


class Uniform(Trajectory):
    """A palindrome of `number` layers; every array holds its first half."""

    #: a, none in the middle of an odd number of layers
    scale: Float[Array, " half"]
    #: log b and log e, the middle included
    log_kick: Float[Array, " half_and_middle"]
    log_drift: Float[Array, " half_and_middle"]
    number: int = eqx.field(static=True)

    @classmethod
    def start(cls, number: int, step_size: ArrayLike) -> "Uniform":
        """HMC with leapfrog steps of this size."""
        drift = jnp.full((number + 1) // 2, jnp.log(jnp.asarray(step_size, float)))
        return cls(jnp.zeros(number // 2), drift - jnp.log(2.0), drift, number)

    def __len__(self) -> int:
        return self.number

    @property
    def forces(self) -> int:
        """Between two layers the force is the same."""
        return self.number + 1

    def steps(self) -> Steps:
        """Of all layers."""
        scale, kick = mirrored_odd(self.scale, self.number), mirrored(jnp.exp(self.log_kick), self.number)
        return Steps(scale, kick * jnp.exp(0.5 * scale), mirrored(jnp.exp(self.log_drift), self.number))

    def forward(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F(x, v)."""
        return self._run(target, x, v, record=False)[0]

    def inverse(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F⁻¹ = R∘F∘R."""
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
        def layer(carry: tuple[Phase, Momentum], of_layer: Steps) -> tuple[tuple[Phase, Momentum], Phase | None]:
            (x, v, log_jacobian), force = carry
            heat = jnp.exp(of_layer.scale)
            v = heat * v - of_layer.kick * force
            x, v = target.geometry.drift(x, v, of_layer.drift * v)
            force = target.force(x)
            v = heat * v - of_layer.kick * force
            phase = Phase(x, v, log_jacobian + 2 * of_layer.scale * (v.size / v.shape[-1]))
            return (phase, force), phase if record else None

        steps = jax.tree.map(lambda a: a.astype(v.dtype), self.steps())
        begin = Phase(x, v, jnp.zeros(x.shape[-1], v.dtype))
        (end, _), recorded = jax.lax.scan(layer, (begin, target.force(x)), steps)
        # Heating and cooling cancel exactly, and not only to rounding.
        return end._replace(log_jacobian=jnp.zeros_like(end.log_jacobian)), recorded
