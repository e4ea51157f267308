"""A linear layer, chains last: weights are [out, in] and activations [unit, chain]."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


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
