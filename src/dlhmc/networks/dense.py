"""The dense network of the paper's figure 1, chains last: activations are [unit, chain] and weights [out, in]."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from dlhmc.geometry.contract import Geometry
from dlhmc.networks.contract import SQT, Network, Zeta


@jax.custom_jvp
def _product(weight: Float[Array, "out in"], x: Float[Array, "in chain"]) -> Float[Array, "out chain"]:
    """W x, with a backward pass that is fast on CPUs.

    Autodiff would give Wᵀ ȳ, and CPU libraries are slow, by up to three times, where the first factor of a product
    is a transposed one. Here the tangent is written such that its transpose is (ȳᵀ W)ᵀ, and the barrier keeps the
    compiler from simplifying it to Wᵀ ȳ again.
    """
    return weight @ x


@_product.defjvp
def _product_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    weight, x = primals
    d_weight, d_x = tangents
    return weight @ x, d_weight @ x + weight @ jax.lax.optimization_barrier(d_x.T).T


class Linear(eqx.Module):
    """y = W x + b for all chains at once."""

    weight: Float[Array, "out in"]
    bias: Float[Array, " out"]

    @classmethod
    def random(cls, key: Key[Array, ""], size_in: int, size_out: int) -> "Linear":
        """Weights of variance 1/in, which keeps activations of order one."""
        weight = jax.random.normal(key, (size_out, size_in)) / math.sqrt(size_in)
        return cls(weight, jnp.zeros(size_out))

    @classmethod
    def zero(cls, size_in: int, size_out: int) -> "Linear":
        """No output at all: training starts from HMC."""
        return cls(jnp.zeros((size_out, size_in)), jnp.zeros(size_out))

    def __call__(self, x: Float[Array, "in chain"]) -> Float[Array, "out chain"]:
        """Apply to every chain."""
        return _product(self.weight.astype(x.dtype), x) + self.bias.astype(x.dtype)[:, None]


# lr(a) − lr(−a) = 1.01·a for the leaky rectifier lr: two units make a linear one.
_PAIR = 1.01


class Dense(Network):
    """Hidden layers on (features of x, vector), then three heads: s and q bounded by a trainable scale, t linear."""

    inputs: tuple[Linear, Linear]
    hidden: tuple[Linear, ...]
    heads: Linear
    log_scales: Float[Array, "2 size"]

    def __init__(self, key: Key[Array, ""], geometry: Geometry, hidden: Sequence[int]) -> None:
        size = math.prod(geometry.momentum_shape)
        seen = geometry.feature_count * math.prod(geometry.elements)
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

    def linear(
        self,
        s: Float[Array, " size"],
        q: Float[Array, " size"],
        write: Float[Array, "size unit"],
        read: Float[Array, "unit size"],
        room: Float[Array, ""],
    ) -> "Dense":
        """A network of the same sizes that gives these s and q, and t = write·read·vector, at every ζ.

        Two units of each hidden layer pass one of `read` on; what the others say, nobody listens to yet. The bounds of
        s and q are at least `room`, and far enough for training to change both.
        """
        number = 2 * read.shape[0]
        sign = jnp.asarray([1.0, -1.0], read.dtype)
        pairs = jnp.kron(jnp.eye(read.shape[0], dtype=read.dtype), jnp.outer(sign, sign)) / _PAIR
        size = s.shape[0]
        bounds = jnp.maximum(room, 2 * jnp.abs(jnp.stack([s, q])))
        biases = jnp.concatenate([*jnp.arctanh(jnp.stack([s, q]) / bounds), jnp.zeros_like(s)])
        of_position, of_vector = (layer.weight.at[:number].set(0) for layer in self.inputs)
        of_vector = of_vector.at[:number].set(jnp.kron(read, sign[:, None]))
        hidden = (layer.weight.at[:number].set(0).at[:number, :number].set(pairs) for layer in self.hidden)
        heads = self.heads.weight.at[2 * size :, :number].set(jnp.kron(write, sign[None]) / _PAIR)
        layers = [
            Linear(weight, layer.bias)
            for weight, layer in zip((of_position, of_vector, *hidden), (*self.inputs, *self.hidden), strict=True)
        ]
        return eqx.tree_at(
            lambda it: (it.inputs, it.hidden, it.heads, it.log_scales),
            self,
            ((layers[0], layers[1]), tuple(layers[2:]), Linear(heads, biases), jnp.log(bounds)),
        )
