"""Local layers: leapfrog whose force is weighted plaquette by plaquette, and momenta that are scaled on the way.

    kick    v ← e^{s}·v − ε e^{s/2} Σ_P w(P)·∂S_P     with w a polynomial of gauge-invariant numbers of the plaquette P
    drift   U ← e^{iεv}·U

With w = 1 and s = 0 this is HMC. A weight that falls where the action of a plaquette is large puts a lid on barriers,
and s > 0 heats before s < 0 cools. Nothing here knows which way to go: that comes from the loss alone. Parameters do
not know the lattice, so that they serve on any, and the layers are gauge covariant.

A trajectory is a palindrome: kicks and drifts of its second half mirror those of the first, with the opposite s. It is
then its own way back, F⁻¹ = flip·F·flip with the momentum flipped, and log|J| = 0: one direction suffices.
"""

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from dlhmc.geometry.contract import Field, Momentum, real_dtype
from dlhmc.layers.contract import Phase, Trajectory
from dlhmc.numerics import rng
from dlhmc.targets.contract import Target


@runtime_checkable
class PlaquetteTarget(Protocol):
    """A target whose action is a sum over plaquettes."""

    def plaquette_features(self, x: Field) -> Float[Array, "feature *plaquette chain"]:
        """Gauge-invariant numbers of each plaquette, from −1 to 1, that do not change with its orientation."""

    def weighted_force(self, x: Field, weights: Float[Array, "*plaquette chain"]) -> Momentum:
        """The force of the action in which each plaquette has a weight."""


class Local(Trajectory):
    """A palindrome of `number` layers; every array holds its first half, the middle included."""

    #: coefficients of Chebyshev polynomials of each feature, their constant terms in `constant`
    weight: Float[Array, "half feature degree"]
    constant: Float[Array, " half"]
    #: s, zero in the middle of an even number of layers
    scale: Float[Array, " quarter"]
    log_step: Float[Array, " drift"]
    number: int = eqx.field(static=True)

    @classmethod
    def start(cls, number: int, step_size: float, features: int, degree: int) -> "Local":
        """HMC with leapfrog steps of this size."""
        half = number // 2 + 1
        return cls(
            weight=jnp.zeros((half, features, degree)),
            constant=jnp.ones(half),
            scale=jnp.zeros((number + 1) // 2),
            log_step=jnp.full((number + 1) // 2, np.log(step_size)),
            number=number,
        )

    def __len__(self) -> int:
        return self.number

    @property
    def forces(self) -> int:
        """One for each kick."""
        return self.number + 1

    def forward(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F(x, v)."""
        return self._run(target, x, v, record=False)[0]

    def inverse(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F⁻¹ = flip·F·flip."""
        end = self.forward(target, x, -v)
        return Phase(end.x, -end.v, -end.log_jacobian)

    @rng.by_chain
    def propose(self, key: Key[Array, ""], target: Target, x: Field, v: Momentum) -> Phase:
        """F: the way back is F from the flipped momentum."""
        return self.forward(target, x, v)

    def layer_by_layer(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F, with the phase after each drift and the kick that follows."""
        return self._run(target, x, v, record=True)[1]

    def _run(self, target: Target, x: Field, v: Momentum, *, record: bool) -> tuple[Phase, Any]:
        if not isinstance(target, PlaquetteTarget):
            raise TypeError("local layers are made for targets whose action is a sum over plaquettes")
        dtype = v.dtype
        kicks = self.number + 1
        steps = _mirrored(jnp.exp(self.log_step), self.number).astype(dtype)
        # A kick lasts as long as half of the drifts on both its sides.
        lasts = 0.5 * (jnp.pad(steps, (0, 1)) + jnp.pad(steps, (1, 0)))
        weights, constants = (_mirrored(half, kicks).astype(dtype) for half in (self.weight, self.constant))
        middle = jnp.zeros(kicks % 2, self.scale.dtype)
        scales = jnp.concatenate([self.scale, middle, -self.scale[::-1]]).astype(dtype)
        numbers = int(np.prod(v.shape[:-1]))

        def kick(phase: Phase, of_kick: tuple[Array, Array, Array, Array]) -> Phase:
            x, v, log_jacobian = phase
            weight, constant, scale, last = of_kick
            w = constant + _polynomial(weight, target.plaquette_features(x))
            force = target.weighted_force(x, w)
            v = jnp.exp(scale) * v - (last * jnp.exp(0.5 * scale)) * force
            return Phase(x, v, log_jacobian + numbers * scale)

        def layer(phase: Phase, of_layer: tuple[Any, Array]) -> tuple[Phase, Phase | None]:
            of_kick, step = of_layer
            x, v = target.geometry.drift(phase.x, phase.v, step * phase.v)
            phase = kick(Phase(x, v, phase.log_jacobian), of_kick)
            return phase, phase if record else None

        of_kicks = (weights, constants, scales, lasts)
        first, others = jax.tree.map(lambda a: a[0], of_kicks), jax.tree.map(lambda a: a[1:], of_kicks)
        begin = kick(Phase(x, v, jnp.zeros(x.shape[-1], real_dtype(x))), first)
        end, phases = jax.lax.scan(layer, begin, (others, steps))
        # Heating and cooling cancel exactly, and not only to rounding.
        return end._replace(log_jacobian=jnp.zeros_like(end.log_jacobian)), phases


def _mirrored(half: Array, number: int) -> Array:
    """First half and middle → all, the second half being the mirror image of the first."""
    return jnp.concatenate([half, half[: number // 2][::-1]])


def _polynomial(weight: Float[Array, "feature degree"], features: Array) -> Array:
    """Σ_f Σ_n c_fn T_n(f), n ≥ 1, by Clenshaw's recurrence."""
    total = jnp.zeros_like(features[0])
    for coefficients, f in zip(weight, features, strict=True):
        above, two_above = jnp.zeros_like(f), jnp.zeros_like(f)
        for c in coefficients[::-1]:
            above, two_above = c + 2 * f * above - two_above, above
        total = total + f * above - two_above
    return total
