"""Configurations close to equilibrium: exact draws of the gauge theory, picked by the determinant."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from dlhmc.exact.von_mises import U1Draws
from dlhmc.theories.schwinger.determinant import log_determinant
from dlhmc.theories.u1.links import Links

_CANDIDATES = 6


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
