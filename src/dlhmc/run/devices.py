"""The devices of a run, as the host sees them; what compiled programs do is in `dlhmc.numerics.devices`."""

import contextlib
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array
from numpy.typing import NDArray

from dlhmc.errors import Setting, UserError
from dlhmc.numerics.devices import AXIS_OF_SITES, CHAINS, SITES
from dlhmc.run import processes

T = TypeVar("T")
Index = tuple[Any, ...]  # of slices
Piece = tuple[Index, NDArray[Any]]


class Devices:
    """The devices of a run: the first few of each process, of which `split` in a row share a lattice."""

    def __init__(self, number: int | None = None, split: int = 1) -> None:
        if number is None:
            number = len(jax.local_devices()) if processes.several() else split
        if number < 1:
            raise UserError(f"{Setting('devices')} is {number}, but must be at least 1.")
        available = _available(number)
        if number > len(available):
            kind = available[0].platform
            raise UserError(
                f"{Setting('devices')} is {number}, but JAX sees {len(available)} of kind {kind}: ask for fewer."
            )
        used = [device for rank in range(jax.process_count()) for device in jax.local_devices(rank)[:number]]
        if split < 1 or len(used) % split:
            raise UserError(
                f"{Setting('split_lattice')} is {split}, but must divide the number of devices, {len(used)}."
            )
        self.number, self._split = len(used), split
        mesh = np.asarray(used).reshape(-1, split)
        self._mesh = Mesh(mesh, (CHAINS, SITES), axis_types=(AxisType.Auto, AxisType.Auto))

    def require(self, shape: tuple[int, ...], chains: int) -> None:
        """Fields of this shape can be cut into equal parts."""
        parts = self.number // self._split
        if chains % parts:
            raise UserError(f"{chains} chains cannot be shared equally by {parts} devices: change their number.")
        if self._split == 1:
            return
        if len(shape) < 3:
            raise UserError(f"{Setting('split_lattice')} is for lattices only: leave it out.")
        side = shape[AXIS_OF_SITES + 1]  # without the axis of chains
        if side % self._split:
            raise UserError(f"{side} sites in a row cannot be cut into {self._split} equal parts: change the lattice.")

    def active(self) -> contextlib.AbstractContextManager[Any]:
        """Compile and run for these devices inside the block."""
        return contextlib.nullcontext() if self.number == 1 else jax.set_mesh(self._mesh)

    def beginning(self) -> contextlib.AbstractContextManager[Any]:
        """For the first configurations, of which each process makes all: cut to pieces, their last bits could differ.

        Where a lattice is too large for one device, they are made in pieces from the start.
        """
        return self.active() if self._split > 1 else contextlib.nullcontext()

    def distribute(self, tree: T) -> T:
        """Move the chains of all arrays, their last axis, to the devices that they are spread over."""
        if self._split > 1:
            return tree
        moved: T = jax.tree.map(lambda a: self._put(a, PartitionSpec(*(None,) * (a.ndim - 1), CHAINS)), tree)
        return moved

    def copy(self, tree: T) -> T:
        """Copy all arrays to each of the devices."""
        arrays, rest = eqx.partition(tree, eqx.is_array)
        copied = jax.tree.map(lambda a: self._put(a, PartitionSpec()), arrays) if self._split == 1 else arrays
        result: T = eqx.combine(copied, rest)
        return result

    def _put(self, array: Array, spec: PartitionSpec) -> Array:
        if self.number == 1:
            return array
        values = np.asarray(array)
        return jax.make_array_from_callback(values.shape, NamedSharding(self._mesh, spec), lambda index: values[index])


def _available(number: int) -> list[jax.Device]:
    """On a machine without accelerators, as many devices as are wanted share its processor."""
    if number > max(1, jax.config.jax_num_cpu_devices):  # type: ignore[attr-defined, unused-ignore]
        # Once JAX has started there are as many as there are.
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", number)
    return jax.local_devices()


def own_part(array: Array) -> NDArray[Any]:
    """What this process has of an array whose last axis is spread over processes."""
    if _is_here(array) or array.is_fully_replicated:
        return np.asarray(array)
    parts = {shard.index[-1].start: shard.data for shard in array.addressable_shards}
    return np.concatenate([np.asarray(parts[start]) for start in sorted(parts)], axis=-1)


def pieces_to_write(array: Array, chunks: tuple[int, ...]) -> list[Piece]:
    """The parts of an array that this process writes to a store with such chunks: those of all processes make a whole.

    No two processes write to one chunk: where that could happen, process 0 gets everything.
    """
    everything = (slice(None),) * array.ndim
    if _is_here(array):
        return [(everything, np.asarray(array))]
    cuts = array.sharding.devices_indices_map(array.shape).values()
    if all(_fits(cut, array.shape, chunks) for cut in cuts):
        return [(shard.index, np.asarray(shard.data)) for shard in array.addressable_shards if shard.replica_id == 0]
    values = processes.whole(array)
    return [(everything, values)] if processes.is_first() else []


def _fits(cut: Index, shape: tuple[int, ...], chunks: tuple[int, ...]) -> bool:
    bounds = [(*part.indices(size)[:2], size, chunk) for part, size, chunk in zip(cut, shape, chunks, strict=True)]
    return all(start % chunk == 0 and (stop % chunk == 0 or stop == size) for start, stop, size, chunk in bounds)


def shape_of_pieces(array: Array) -> tuple[int, ...]:
    """The shape of chunks that processes can write side by side."""
    shape: tuple[int, ...] = array.shape
    return shape if _is_here(array) else array.sharding.shard_shape(shape)


def _is_here(array: Array) -> bool:
    return not isinstance(array, jax.Array) or array.is_fully_addressable
