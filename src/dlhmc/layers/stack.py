"""A trajectory: N_LF layers as one pytree with a leading axis, run by a scan; backwards the same scan reversed."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from dlhmc.layers.contract import Layer, Phase
from dlhmc.targets.contract import Field, Target


class Trajectory(eqx.Module):
    """The map F: (x, v) → (x′, v′) with log|J|, and its inverse."""

    #: one layer whose every array has a leading axis of length N_LF
    layers: Layer

    @classmethod
    def build(cls, make: Callable[[Key[Array, ""]], Layer], key: Key[Array, ""], number: int) -> "Trajectory":
        """`number` distinct layers, each made from a key of its own."""
        return cls(eqx.filter_vmap(make)(jax.random.split(key, number)))

    def __len__(self) -> int:
        return int(jax.tree.leaves(eqx.filter(self.layers, eqx.is_array))[0].shape[0])

    def forward(self, target: Target, x: Field, v: Field) -> Phase:
        """All layers, first to last."""
        return self._scan(lambda layer, phase: layer.forward(target, phase), x, v, reverse=False)

    def inverse(self, target: Target, x: Field, v: Field) -> Phase:
        """The inverses of all layers, last to first."""
        return self._scan(lambda layer, phase: layer.inverse(target, phase), x, v, reverse=True)

    def _scan(self, apply: Callable[[Any, Phase], Phase], x: Field, v: Field, *, reverse: bool) -> Phase:
        arrays, static = eqx.partition(self.layers, eqx.is_array)

        def step(phase: Phase, arrays_of_layer: Any) -> tuple[Phase, None]:
            return apply(eqx.combine(arrays_of_layer, static), phase), None

        start = Phase(x, v, jnp.zeros(x.shape[-1], x.dtype))
        return jax.lax.scan(step, start, arrays, reverse=reverse)[0]
