"""A trajectory of distinct layers: one pytree with a leading axis, run by a scan; backwards the same scan reversed."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from dlhmc.geometry.contract import Field, Momentum, real_dtype
from dlhmc.layers.contract import Layer, Phase, Trajectory
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

    def _scan(
        self, apply: Callable[[Any, Phase], Phase], x: Field, v: Momentum, *, reverse: bool, record: bool = False
    ) -> tuple[Phase, Any]:
        arrays, static = eqx.partition(self.layers, eqx.is_array)

        def step(phase: Phase, arrays_of_layer: Any) -> tuple[Phase, Phase | None]:
            phase = apply(eqx.combine(arrays_of_layer, static), phase)
            return phase, phase if record else None

        start = Phase(x, v, jnp.zeros(x.shape[-1], real_dtype(x)))
        return jax.lax.scan(step, start, arrays, reverse=reverse)
