"""Chains spread over devices: each has chains of its own, and everything else is on all of them.

Random numbers are made for each chain by its index, and what is summed over chains while sampling is summed in
integers: the numbers of a chain do not depend on how many devices there are.
"""

import contextlib
from typing import TypeVar

import equinox as eqx
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dlhmc.errors import UserError
from dlhmc.targets.contract import Field

T = TypeVar("T")
_AXIS = "chain"


class Devices:
    """The devices of a run, the first few of this machine."""

    def __init__(self, number: int | None = None) -> None:
        number = 1 if number is None else number
        if number < 1:
            raise UserError(f"--devices is {number}, but must be at least 1.")
        available = _available(number)
        if number > len(available):
            kind = available[0].platform
            raise UserError(f"--devices is {number}, but JAX sees {len(available)} of kind {kind}: ask for fewer.")
        self.number = number
        self._mesh = Mesh(available[:number], (_AXIS,))

    def spread(self, x: Field) -> Field:
        """The chains of a field, an equal number on each device."""
        if self.number == 1:
            return x
        chains = x.shape[-1]
        if chains % self.number:
            raise UserError(f"{chains} chains cannot be shared equally by {self.number} devices: change --chains.")
        spec = PartitionSpec(*(None,) * (x.ndim - 1), _AXIS)
        return jax.device_put(x, NamedSharding(self._mesh, spec))

    def everywhere(self, tree: T) -> T:
        """All arrays on each of the devices."""
        if self.number == 1:
            return tree
        arrays, rest = eqx.partition(tree, eqx.is_array)
        placed: T = eqx.combine(jax.device_put(arrays, NamedSharding(self._mesh, PartitionSpec())), rest)
        return placed


def _available(number: int) -> list[jax.Device]:
    """On a machine without accelerators, as many devices as are wanted share its processor."""
    if number > max(1, jax.config.jax_num_cpu_devices):  # type: ignore[attr-defined]
        # Once JAX has started there are as many as there are.
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", number)
    return jax.devices()
