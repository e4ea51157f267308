"""Small networks with smooth units, chains last, for the kicks of local layers."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from numpy.typing import NDArray

from dlhmc.networks.linear import Linear


class MLP(eqx.Module):
    """Linear layers with tanh between them; zero until it is trained."""

    layers: tuple[Linear, ...]

    def __init__(self, key: Key[Array, ""], size_in: int, hidden: Sequence[int], size_out: int) -> None:
        sizes = (size_in, *hidden)
        keys = jax.random.split(key, len(hidden))
        inner = (Linear.random(k, a, b) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True))
        self.layers = (*inner, Linear.zero(sizes[-1], size_out))

    def rewired(self, inputs: NDArray[np.int64], outputs: NDArray[np.int64]) -> "MLP":
        """The same hidden layers, given these of the inputs (−1: one that was not there) and giving these outputs."""
        first, last = self.layers[0], self.layers[-1]
        weight = jnp.where(inputs >= 0, first.weight[..., inputs], 0)
        ends = (Linear(weight, first.bias), Linear(last.weight[..., outputs, :], last.bias[..., outputs]))
        return eqx.tree_at(lambda mlp: (mlp.layers[0], mlp.layers[-1]), self, ends)

    def __call__(self, x: Float[Array, "in chain"]) -> Float[Array, "out chain"]:
        """Apply to every chain."""
        for layer in self.layers[:-1]:
            x = jnp.tanh(layer(x))
        return self.layers[-1](x)
