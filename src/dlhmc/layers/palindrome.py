"""Leapfrog layers whose second half mirrors the first: the trajectory is then its own way back, and one direction does.

    kick    Γ: v ← e^{s} v − ε e^{s/2} f(x)       drift   Λ: x ← drift(x, ε v)

s and the impulse f are functions of x alone, so that whatever network gives them, Γ is a bijection with log|J| = Σ s
over the dimensions of the tangent space at x. A drift follows a geodesic and takes the momentum along: log|J| = 0.
With R the flip of the momentum, the inverse of a kick is R·kick·R with −s in place of s, that of a drift R·drift·R.
Where the second half has the kicks and drifts of the first in the opposite order, and −s, F⁻¹ = R·F·R.
"""

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Key

from dlhmc.geometry.contract import Field, Momentum
from dlhmc.layers.contract import Phase, Trajectory
from dlhmc.numerics import rng
from dlhmc.targets.contract import Target
from dlhmc.targets.windows import stiffness


class Impulse(NamedTuple):
    """What a kick does: s, with the axes of momenta of length 1 where it is the same along them, and f.

    Where tangent spaces are not all of the space (`Geometry.trailing`), s is the same for all components.
    """

    log_scale: Float[Array, "..."]
    force: Momentum


class Kick(eqx.Module):
    """What a network makes of a configuration. A target gives the force that it starts from."""

    @abstractmethod
    def __call__(self, target: Target, x: Field) -> Impulse:
        """S and f at x."""


class Palindrome(Trajectory):
    """`number` layers, each array with a leading axis for the first half and the middle."""

    kicks: Kick
    #: log ε of drifts, in units of 1/√stiffness where the target has a stiffness
    log_step: Float[Array, " drift"]
    number: int = eqx.field(static=True)

    @classmethod
    def start(cls, make_kick: Any, key: Key[Array, ""], number: int, step_size: ArrayLike) -> "Palindrome":
        """Layers with kicks made from keys, and leapfrog steps of this size."""
        kicks = eqx.filter_vmap(make_kick)(jax.random.split(key, number // 2 + 1))
        step = jnp.log(jnp.asarray(step_size, float))
        return cls(kicks, jnp.full((number + 1) // 2, step), number)

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
        """F⁻¹ = R·F·R."""
        end = self.forward(target, x, -v)
        return end._replace(v=-end.v)

    def layer_by_layer(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F, with the phase after each drift and the kick that follows it."""
        return self._run(target, x, v, record=True)[1]

    @rng.by_chain
    def propose(self, key: Key[Array, ""], target: Target, x: Field, v: Momentum) -> Phase:
        """F: the way back is F from the flipped momentum."""
        return self.forward(target, x, v)

    def _run(self, target: Target, x: Field, v: Momentum, *, record: bool) -> tuple[Phase, Any]:
        arrays, static = eqx.partition(self.kicks, eqx.is_array)
        k, last = jnp.arange(self.number + 1), self.number
        mirrored = jnp.minimum(k, last - k)
        signs = jnp.sign(last - 2 * k).astype(v.dtype)
        half = jnp.exp(self.log_step).astype(v.dtype) * _unit(target, v.dtype)
        drifts = half[jnp.minimum(k[:-1], last - 1 - k[:-1])]
        # A kick lasts as long as half of the drifts on both its sides.
        lasts = 0.5 * (jnp.pad(drifts, (0, 1)) + jnp.pad(drifts, (1, 0)))
        kicks = (jax.tree.map(lambda a: a[mirrored], arrays), signs, lasts)
        geometry = target.geometry
        #: of the tangent space, for each component
        dimensions = geometry.dimension / math.prod(geometry.momentum_shape)

        def kicked(phase: Phase, kick: tuple[Any, Array, Array]) -> Phase:
            arrays, sign, lasts = kick
            x, v, log_jacobian = phase
            s, force = eqx.combine(arrays, static)(target, x)
            s = sign * s
            v = jnp.exp(s) * v - lasts * jnp.exp(0.5 * s) * force
            of_components = jnp.sum(jnp.broadcast_to(s, v.shape), axis=tuple(range(v.ndim - 1)))
            return Phase(x, v, log_jacobian + dimensions * of_components)

        def layer(phase: Phase, given: tuple[Array, Any]) -> tuple[Phase, Phase | None]:
            step, kick = given
            x, v = geometry.drift(phase.x, phase.v, step * phase.v)
            phase = kicked(Phase(x, v, phase.log_jacobian), kick)
            return phase, phase if record else None

        first = jax.tree.map(lambda a: a[0], kicks)
        rest = jax.tree.map(lambda a: a[1:], kicks)
        begin = kicked(Phase(x, v, jnp.zeros(x.shape[-1], v.dtype)), first)
        return jax.lax.scan(layer, begin, (drifts, rest))


def _unit(target: Target, dtype: jnp.dtype) -> Float[Array, ""]:
    """1/√stiffness."""
    curvature = stiffness(target)
    return jnp.ones((), dtype) if curvature is None else 1 / jnp.sqrt(curvature.astype(dtype))
