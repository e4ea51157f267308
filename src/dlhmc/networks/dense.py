"""The dense network of the paper's figure 1, chains last: activations are [unit, chain] and weights [out, in]."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from dlhmc.geometry.contract import Geometry
from dlhmc.networks.contract import SQT, Network, Zeta
from dlhmc.networks.linear import Linear


class Dense(Network):
    """Hidden layers on (features of x, vector), then three heads: s and q bounded by a trainable scale, t linear."""

    inputs: tuple[Linear, Linear]
    hidden: tuple[Linear, ...]
    heads: Linear
    log_scales: Float[Array, "2 size"]

    def __init__(
        self, key: Key[Array, ""], geometry: Geometry, hidden: Sequence[int], features: int | None = None
    ) -> None:
        size = math.prod(geometry.momentum_shape)
        seen = geometry.feature_count * math.prod(geometry.elements) if features is None else features
        first_key, second_key, *keys = jax.random.split(key, len(hidden) + 1)
        widths = list(hidden)
        # W (a; b) = W_a a + W_b b: two products need no concatenation of the inputs.
        self.inputs = (
            Linear.random(first_key, seen, widths[0]),
            Linear.random(second_key, size, widths[0]),
        )
        self.hidden = tuple(Linear.random(k, a, b) for k, a, b in zip(keys, widths[:-1], widths[1:], strict=True))
        self.heads = Linear.zero(widths[-1], 3 * size)
        self.log_scales = jnp.zeros((2, size))

    def __call__(self, zeta: Zeta) -> SQT:
        """(s, q, t) at ζ."""
        vector = zeta.vector
        chains, dtype = vector.shape[-1], vector.dtype
        of_position, of_vector = self.inputs
        h = of_position(zeta.position.reshape(-1, chains)) + of_vector(vector.reshape(-1, chains))
        h = jax.nn.leaky_relu(h)
        for layer in self.hidden:
            h = jax.nn.leaky_relu(layer(h))
        s, q, t = self.heads(h).reshape(3, -1, chains)
        scale_s, scale_q = jnp.exp(self.log_scales.astype(dtype))[:, :, None]
        outputs = (scale_s * jnp.tanh(s), scale_q * jnp.tanh(q), t)
        return SQT(*(output.reshape(vector.shape) for output in outputs))
