"""The leapfrog layer of the paper, eqs. (1) and (2): half-step Γ, two half-updates Λ, half-step Γ.

Forward and inverse both return the logarithm of their Jacobian determinant for each chain.
"""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from dlhmc.geometry.contract import Field, sum_sites
from dlhmc.layers.contract import Layer, Phase
from dlhmc.layers.masks import tiled
from dlhmc.layers.position import PositionRule
from dlhmc.networks.contract import Network, Zeta
from dlhmc.targets.contract import Target

#: what networks see of x, but for elements that are hidden from them
View = Callable[[Target, Field, Bool[Array, "*element"] | None], Float[Array, "feature ... chain"]]


def see_elements(target: Target, x: Field, hidden: Bool[Array, "*element"] | None) -> Float[Array, "feature ... chain"]:
    """The features of the geometry, 0 where they are hidden."""
    features = target.geometry.features(x)
    return features if hidden is None else jnp.where(hidden[..., None], 0, features)


class LeapfrogLayer(Layer):
    """One layer k with its own networks, mask and step sizes ε = e^{log ε}, positive whatever training does."""

    v_network: Network
    x_network: Network
    #: of all elements, or of a cell that repeats itself
    mask: Bool[Array, "*cell"]
    log_step_v: Float[Array, ""]
    log_step_x: Float[Array, ""]
    rule: PositionRule = eqx.field(static=True)
    view: View = eqx.field(static=True, default=see_elements)

    def forward(self, target: Target, phase: Phase) -> Phase:
        """The four sub-updates in the order of the paper."""
        phase = self._kick(target, phase, forward=True)
        phase = self._move(target, phase, self.mask, forward=True)
        phase = self._move(target, phase, ~self.mask, forward=True)
        return self._kick(target, phase, forward=True)

    def inverse(self, target: Target, phase: Phase) -> Phase:
        """The inverses of the four sub-updates in the opposite order."""
        phase = self._kick(target, phase, forward=False)
        phase = self._move(target, phase, ~self.mask, forward=False)
        phase = self._move(target, phase, self.mask, forward=False)
        return self._kick(target, phase, forward=False)

    def _kick(self, target: Target, phase: Phase, *, forward: bool) -> Phase:
        """Γ, eq. (1): v′ = v·e^{(ε/2)s} − (ε/2)[∂S·e^{εq} + t] with (s, q, t) at ζ_v = (x, ∂S); log|J| = Σ (ε/2)s.

        Inverse: v = (v′ + (ε/2)[∂S·e^{εq} + t])·e^{−(ε/2)s}.
        """
        x, v, log_jacobian = phase
        step = jnp.exp(self.log_step_v).astype(v.dtype)
        force = target.force(x)
        s, q, t = self.v_network(Zeta(self.view(target, x, None), force))
        log_scale = (0.5 * step) * s
        impulse = (0.5 * step) * (force * jnp.exp(step * q) + t)
        if forward:
            return Phase(x, v * jnp.exp(log_scale) - impulse, log_jacobian + sum_sites(log_scale))
        return Phase(x, (v + impulse) * jnp.exp(-log_scale), log_jacobian - sum_sites(log_scale))

    def _move(self, target: Target, phase: Phase, moved: Bool[Array, "*cell"], *, forward: bool) -> Phase:
        """Λ, eq. (2), on the elements `moved`; (s, q, t) at ζ_x = (the others of x, v)."""
        x, v, log_jacobian = phase
        geometry = target.geometry
        step = jnp.exp(self.log_step_x).astype(v.dtype)
        moved = tiled(moved, geometry.elements)
        s, q, t = self.x_network(Zeta(self.view(target, x, moved), v))
        shift = step * (v * jnp.exp(step * q) + t)
        update = self.rule.forward if forward else self.rule.inverse
        x_new, log_derivative = update(geometry, x, shift, step * s)
        x = jnp.where(moved[..., None], x_new, x)
        return Phase(x, v, log_jacobian + sum_sites(jnp.where(moved[..., None], log_derivative, 0)))
