"""A trajectory of distinct layers: one pytree with a leading axis, run by a scan; backwards the same scan reversed."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key

from dlhmc.geometry.contract import Field, Momentum, real_dtype
from dlhmc.layers.contract import Layer, Phase, Trajectory
from dlhmc.numerics import rng
from dlhmc.targets.contract import Target


class LayerStack(Trajectory):
    """N_LF layers, each with parameters of its own."""

    #: one layer whose every array has a leading axis of length N_LF
    layers: Layer

    @classmethod
    def build(cls, make: Callable[[Key[Array, ""]], Layer], key: Key[Array, ""], number: int) -> "LayerStack":
        """`number` distinct layers, each made from a key of its own."""
        return cls(eqx.filter_vmap(make)(jax.random.split(key, number)))

    def __len__(self) -> int:
        return int(jax.tree.leaves(eqx.filter(self.layers, eqx.is_array))[0].shape[0])

    @property
    def forces(self) -> int:
        """Of all layers."""
        return len(self) * self.layers.forces

    def forward(self, target: Target, x: Field, v: Momentum) -> Phase:
        """All layers, first to last."""
        return self._scan(lambda layer, phase: layer.forward(target, phase), x, v, reverse=False)[0]

    def inverse(self, target: Target, x: Field, v: Momentum) -> Phase:
        """The inverses of all layers, last to first."""
        return self._scan(lambda layer, phase: layer.inverse(target, phase), x, v, reverse=True)[0]

    def layer_by_layer(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F, with the phase after each layer."""
        return self._scan(lambda layer, phase: layer.forward(target, phase), x, v, reverse=False, record=True)[1]

    @rng.by_chain
    def propose(self, key: Key[Array, ""], target: Target, x: Field, v: Momentum) -> Phase:
        """F for some chains and F⁻¹ for the others."""
        there, back = functools.partial(self.forward, target), functools.partial(self.inverse, target)
        return either_way(key, there, back, x, v)

    def _scan(
        self, apply: Callable[[Any, Phase], Phase], x: Field, v: Momentum, *, reverse: bool, record: bool = False
    ) -> tuple[Phase, Any]:
        arrays, static = eqx.partition(self.layers, eqx.is_array)

        def step(phase: Phase, arrays_of_layer: Any) -> tuple[Phase, Phase | None]:
            phase = apply(eqx.combine(arrays_of_layer, static), phase)
            return phase, phase if record else None

        start = Phase(x, v, jnp.zeros(x.shape[-1], real_dtype(x)))
        return jax.lax.scan(step, start, arrays, reverse=reverse)


def either_way(
    key: Key[Array, ""],
    forward: Callable[[Field, Momentum], Phase],
    inverse: Callable[[Field, Momentum], Phase],
    x: Field,
    v: Momentum,
) -> Phase:
    """F for some chains and F⁻¹ for the others, at the cost of one of them for each chain.

    Chains 2i and 2i + 1 draw together which of them goes forward: d is uniform for each chain and does not
    depend on any configuration, so the joint distribution stays exact.
    """
    chains = x.shape[-1]
    if chains % 2:
        d = rng.coin(key, (chains,))
        return Phase(*(jnp.where(d, a, b) for a, b in zip(forward(x, v), inverse(x, v), strict=True)))
    d = rng.coin(key, (chains // 2,))
    (x_there, x_back), (v_there, v_back) = _deal(d, x), _deal(d, v)
    there, back = forward(x_there, v_there), inverse(x_back, v_back)
    return Phase(*(_collect(d, a, b) for a, b in zip(there, back, strict=True)))


def _deal(first_goes_forward: Bool[Array, " pair"], field: Field) -> tuple[Field, Field]:
    """One chain of each pair, and the other."""
    even, odd = field[..., 0::2], field[..., 1::2]
    return jnp.where(first_goes_forward, even, odd), jnp.where(first_goes_forward, odd, even)


def _collect(first_goes_forward: Bool[Array, " pair"], there: Field, back: Field) -> Field:
    """The inverse of `_deal`."""
    even, odd = jnp.where(first_goes_forward, there, back), jnp.where(first_goes_forward, back, there)
    return jnp.stack([even, odd], axis=-1).reshape(*even.shape[:-1], -1)
