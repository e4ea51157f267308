"""Gauge fields with fermions: the same with the determinant in place of pseudofermions, or without any."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from dlhmc.actions.fermions import PRECISE, Determinant, Pseudofermions, split_determinant
from dlhmc.exact.von_mises import U1Draws
from dlhmc.fermions.determinant import log_determinant
from dlhmc.fermions.dirac import Dirac
from dlhmc.geometry.contract import PerChain
from dlhmc.lattice.links import Links
from dlhmc.targets.contract import Target, with_actions

_CANDIDATES = 6


def has_fermions(target: Target) -> bool:
    """Whether there are any."""
    return any(isinstance(action, Pseudofermions | Determinant) for action in target.actions)


def fermions_of(target: Target) -> Pseudofermions | Determinant:
    """The action of the lightest fermions."""
    return next(action for action in target.actions if isinstance(action, Pseudofermions | Determinant))


def quenched(target: Target) -> Target:
    """The same without fermions, of which there may be exact draws."""
    kinds = Pseudofermions | Determinant
    return with_actions(target, [action for action in target.actions if not isinstance(action, kinds)])


def with_determinant(target: Target) -> Target:
    """The determinant itself in place of pseudofermions: for proposals that move the gauge field at one stroke.

    The noise of pseudofermions would have most of them rejected.
    """
    light = fermions_of(target)
    return with_actions(target, [Determinant(light.mass, light.flavours), *quenched(target).actions])


def with_hasenbusch(target: Target, hasenbusch: Sequence[float]) -> Target:
    """Split by other heavier masses."""
    light = fermions_of(target)
    precision = light.precision if isinstance(light, Pseudofermions) else PRECISE
    fermions = split_determinant(light.mass, light.flavours, hasenbusch, precision)
    return with_actions(target, [*fermions, *quenched(target).actions])


def log_weight(target: Target, x: Links) -> PerChain:
    """log |det D|^{N_f}."""
    light = fermions_of(target)
    return light.flavours * jnp.sum(log_determinant(x, light.mass), axis=0)


def condensate(mass: Float[Array, ""], x: Links) -> PerChain:
    """Re tr D⁻¹/V = ∂ log det D/∂m /V, exactly."""
    derivative = jax.jvp(lambda m: Dirac.at(x, m).log_determinant(), (mass,), (jnp.ones_like(mass),))[1]
    return derivative / x[0, ..., 0].size


class PickedDraws(eqx.Module):
    """Of a few exact draws of the gauge theory one for each chain, with probabilities ∝ det D^{N_f}.

    With more and more of them that would be exact; with a few, the charge is about as frequent as it should be, which
    HMC could not mend where it is frozen.
    """

    draws: U1Draws
    mass: Float[Array, ""]
    flavours: int = eqx.field(static=True)

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Links:
        """One configuration for each chain."""
        draw_key, pick_key = jax.random.split(key)
        x = self.draws.draw(draw_key, _CANDIDATES * chains, dtype)
        logarithms = self.flavours * log_determinant(x, self.mass)[0]
        picked = jax.random.categorical(pick_key, logarithms.reshape(_CANDIDATES, chains), axis=0)
        return x[..., picked * chains + jnp.arange(chains)]
