"""Small networks with smooth units, chains last, for the kicks of local layers."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from dlhmc.networks.linear import Linear


class MLP(eqx.Module):
    """Linear layers with tanh between them; zero until it is trained."""

    layers: tuple[Linear, ...]

    def __init__(self, key: Key[Array, ""], size_in: int, hidden: Sequence[int], size_out: int) -> None:
        sizes = (size_in, *hidden)
        keys = jax.random.split(key, len(hidden))
        inner = (Linear.random(k, a, b) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True))
        self.layers = (*inner, Linear.zero(sizes[-1], size_out))

    def __call__(self, x: Float[Array, "in chain"]) -> Float[Array, "out chain"]:
        """Apply to every chain."""
        for layer in self.layers[:-1]:
            x = jnp.tanh(layer(x))
        return self.layers[-1](x)
