"""Histories of a run: arrays [trajectory, …, chain], in memory or as a zarr store that xarray opens.

What is recorded of a trajectory is a number for each chain, or an array of them; its axes stand between both.

On disk, arrays have their full length from the start and rows that have not been reached hold the fill value, so a
resumed run overwrites what came after its checkpoint. Every chunk has a CRC, which zarr checks, and rows that are
missing are those that hold the fill value.
"""

import json
import math
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import zarr
from jaxtyping import Array
from numpy.typing import NDArray
from zarr.abc.buffer import Buffer
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.storage import LocalStore

from dlhmc.errors import UserError
from dlhmc.files import UNFINISHED, write_whole
from dlhmc.run import processes
from dlhmc.run.devices import pieces_to_write, shape_of_pieces

# About a megabyte of float32: large enough for disks, small enough to rewrite with every chunk of the run.
_CELLS_PER_CHUNK = 2**18
CONFIGURATIONS, KEPT = "configurations", "kept"
_NOT_RECORDS = (CONFIGURATIONS, KEPT)


class History(Protocol):
    """Records of each trajectory, and configurations that are kept."""

    attributes: dict[str, Any]

    @property
    def records(self) -> list[str]:
        """The arrays that have a row for each trajectory."""

    @property
    def kept(self) -> NDArray[np.int64] | None:
        """The trajectories after which configurations are kept, if any are."""

    def array(self, name: str) -> Any:
        """One array, which can be sliced."""

    def write(self, first_row: int, records: Mapping[str, Array], rows: slice) -> None:
        """Store some rows of buffers from `first_row` on."""

    def write_configuration(self, number: int, configuration: Array) -> None:
        """Store a configuration."""


class InMemory:
    """A history that ends with the process."""

    def __init__(
        self,
        rows: int,
        records: Mapping[str, NDArray[Any]],
        kept: list[int],
        configuration: Array,
        attributes: Mapping[str, Any],
    ) -> None:
        self.attributes = dict(attributes)
        self._arrays = {name: np.empty((rows, *row.shape), row.dtype) for name, row in records.items()}
        if kept:
            self._arrays[KEPT] = np.asarray(kept)
            self._arrays[CONFIGURATIONS] = np.empty((len(kept), *configuration.shape), configuration.dtype)

    @property
    def records(self) -> list[str]:
        """The arrays that have a row for each trajectory."""
        return [name for name in sorted(self._arrays) if name not in _NOT_RECORDS]

    @property
    def kept(self) -> NDArray[np.int64] | None:
        """The trajectories after which configurations are kept, if any are."""
        return self._arrays.get(KEPT)

    def array(self, name: str) -> NDArray[Any]:
        """One array."""
        return self._arrays[name]

    def write(self, first_row: int, records: Mapping[str, Array], rows: slice) -> None:
        """Store some rows of buffers from `first_row` on."""
        for name, buffer in records.items():
            part = processes.whole(buffer)[rows]
            self._arrays[name][first_row : first_row + len(part)] = part

    def write_configuration(self, number: int, configuration: Array) -> None:
        """Store a configuration."""
        self._arrays[CONFIGURATIONS][number] = processes.whole(configuration)


class OnDisk:
    """An open zarr store."""

    def __init__(self, group: zarr.Group, path: Path) -> None:
        self._path = path
        self.attributes = dict(group.attrs)
        self._arrays = dict(group.arrays())

    @classmethod
    def create(
        cls,
        path: Path,
        rows: int,
        records: Mapping[str, NDArray[Any]],
        kept: list[int],
        configuration: Array,
        attributes: Mapping[str, Any],
    ) -> "OnDisk":
        """A store for `rows` trajectories of the given records (one row [*element, chain] of each tells its shape)."""
        group = zarr.open_group(_Store(path), mode="w-", attributes=dict(attributes))
        pieces = shape_of_pieces(configuration)
        for name, row in records.items():
            elements = tuple(f"{name}_{axis}" for axis in range(row.ndim - 1))
            cut = (max(1, _CELLS_PER_CHUNK // max(1, row.size)), *row.shape[:-1], *pieces[-1:])
            _create_array(group, name, (rows, *row.shape), row.dtype, ("trajectory", *elements, "chain"), cut)
        if kept:
            field = tuple(f"field_{axis}" for axis in range(configuration.ndim - 1))
            shape = (len(kept), *configuration.shape)
            _create_array(group, CONFIGURATIONS, shape, configuration.dtype, (KEPT, *field, "chain"), (1, *pieces))
            _create_array(group, KEPT, shape[:1], np.dtype(np.int64), (KEPT,), (1,))[:] = np.asarray(kept)
        _consolidate(path)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, mode: Literal["r", "r+"] = "r+") -> "OnDisk":
        """The store of an earlier run."""
        with _damage_named(path, "is missing or damaged"):
            if not path.is_dir():  # zarr would make one
                raise FileNotFoundError("there is no such directory")
            return cls(zarr.open_group(_Store(path), mode=mode, use_consolidated=False), path)

    def extend(self, rows: int, kept: list[int]) -> None:
        """Make it longer, where it is shorter."""
        lengths = dict.fromkeys(self.records, rows) | (dict.fromkeys(_NOT_RECORDS, len(kept)) if kept else {})
        for name, length in lengths.items():
            array = self._arrays[name]
            if array.shape[0] < length:
                array.resize((length, *array.shape[1:]))
        if kept:
            self._arrays[KEPT][:] = np.asarray(kept)
        _consolidate(self._path)

    @property
    def records(self) -> list[str]:
        """The arrays that have a row for each trajectory."""
        return [name for name in sorted(self._arrays) if name not in _NOT_RECORDS]

    @property
    def kept(self) -> NDArray[np.int64] | None:
        """The trajectories after which configurations are kept, if any are."""
        return self.array(KEPT)[:] if CONFIGURATIONS in self._arrays else None

    def array(self, name: str) -> Any:
        """One array of the store."""
        if name not in self._arrays:
            raise UserError(f"The history {self._path} is damaged: it has no '{name}'.")
        return _Checked(
            self._arrays[name], self._path, nan=name in diagnostics_of(self.attributes) or name == CONFIGURATIONS
        )

    def write(self, first_row: int, records: Mapping[str, Array], rows: slice) -> None:
        """Store some rows of buffers from `first_row` on; of several processes, each stores its own chains."""
        for name, buffer in records.items():
            array = self.array(name)
            for index, values in pieces_to_write(buffer, array.chunks):
                part = values[rows]
                array[(slice(first_row, first_row + len(part)), *index[1:])] = part

    def write_configuration(self, number: int, configuration: Array) -> None:
        """Store a configuration; of several processes, each stores its own part."""
        array = self.array(CONFIGURATIONS)
        for index, values in pieces_to_write(configuration, array.chunks[1:]):
            array[(number, *index)] = values

    def verify(self, chains: int, rows: int, kept: int) -> None:
        """Refuse a store without the first `rows` trajectories of so many chains, or `kept` configurations."""
        if missing := {*diagnostics_of(self.attributes)} - {*self.records}:
            raise UserError(f"The history {self._path} is damaged: it has no '{min(missing)}'.")
        for name in (*self.records, *(_NOT_RECORDS if kept else ())):
            array, count = self.array(name), kept if name in _NOT_RECORDS else rows
            if array.shape[0] < count or (name != KEPT and array.shape[-1] != chains):
                raise UserError(f"The history {self._path} is damaged: '{name}' is of another run.")
            if math.prod(array.chunks) > max(_CELLS_PER_CHUNK, math.prod(array.shape[1:])):
                raise UserError(f"The history {self._path} is damaged: '{name}' is not stored as this program does.")
            for first in range(0, count, array.chunks[0]):
                array.require_chunk(first // array.chunks[0])
                _ = array[first : min(first + array.chunks[0], count)]

    def forget_after(self, rows: int) -> None:
        """Drop chunks after the first `rows` trajectories, which may be damaged, and half-written files."""
        for name in self.records:
            step = self.array(name).chunks[0]
            for chunk in (self._path / name / "c").glob("*"):
                if chunk.name.isdecimal() and int(chunk.name) * step >= rows:
                    shutil.rmtree(chunk)
        for torn in self._path.rglob(f".*{UNFINISHED}"):
            torn.unlink()


class _Store(LocalStore):
    """A store in a directory that can be used for days: see `write_whole` about names of files."""

    async def set(self, key: str, value: Buffer) -> None:
        """In one piece; a checkpoint that finds it missing is passed over, so it need not be on the disk at once."""
        self._check_writable()
        file = os.path.join(self.root, key)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        write_whole(file, value.as_buffer_like(), to_disk=False)


class _Checked:
    """An array of a store of which nothing is known."""

    def __init__(self, array: zarr.Array[Any], path: Path, *, nan: bool) -> None:
        self._array, self._path, self._nan = array, path, nan
        self.shape: tuple[int, ...] = array.shape
        self.chunks: tuple[int, ...] = array.chunks
        self.dtype: np.dtype[Any] = array.dtype
        self.ndim: int = array.ndim

    def __getitem__(self, index: Any) -> NDArray[Any]:
        """Refuse rows that were lost, which hold the fill value; where it is NaN, the record may be."""
        with self._damage_named():
            values = np.asarray(self._array[index])
            if values.dtype.kind in "fc":
                lost = not self._nan and not np.isfinite(values).all()
            else:
                lost = values.dtype.kind != "b" and bool((values == self._array.fill_value).any())
            if lost:
                raise ValueError("rows are missing, or not finite")
        return values

    def __setitem__(self, index: Any, values: NDArray[Any]) -> None:
        """Write; rows before are read and written again with these."""
        with self._damage_named():
            self._array[index] = values

    def require_chunk(self, number: int) -> None:
        """Refuse an array that has lost the files of a chunk of rows."""
        cuts = [math.ceil(size / cut) for size, cut in zip(self.shape[1:], self.chunks[1:], strict=True)]
        for index in np.ndindex(*cuts):
            key = self._array.metadata.encode_chunk_key((number, *index))
            if not (self._path / self._array.basename / key).is_file():
                raise UserError(f"The history {self._path} is damaged in '{self._array.basename}': rows are missing.")

    def _damage_named(self) -> Any:
        return _damage_named(self._path, f"is damaged in '{self._array.basename}'")


def diagnostics_of(attributes: Mapping[Any, Any]) -> tuple[str, ...]:
    """The records that are about the kernel: all that are not observables."""
    try:
        return tuple(map(str, json.loads(attributes.get("diagnostics", "[]"))))
    except (TypeError, ValueError, RecursionError):
        raise UserError("The attribute 'diagnostics' of the histories is damaged: it is no list of names.") from None


def _create_array(
    group: zarr.Group,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    dimensions: tuple[str, ...],
    chunks: tuple[int, ...],
) -> zarr.Array[Any]:
    """An array cut into chunks along its first axis, and into pieces for processes to write; each with a CRC."""
    return group.create_array(
        name,
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        compressors=(ZstdCodec(level=0), Crc32cCodec()),
        fill_value=_fill_value(dtype),
        dimension_names=dimensions,
        config={"write_empty_chunks": True},  # a chunk without a file has been lost
    )


def _fill_value(dtype: np.dtype[Any]) -> float | int | bool:
    """Stands for what has not been written; a flag has no value to spare."""
    if dtype.kind == "b":
        return False
    if dtype.kind in "fc":
        return np.nan
    limits = np.iinfo(dtype)
    return int(limits.min if dtype.kind == "i" else limits.max)


def _consolidate(path: Path) -> None:
    with warnings.catch_warnings():
        # Consolidated metadata is an extension of the format; xarray looks for it and warns without.
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(_Store(path))


@contextmanager
def _damage_named(path: Path, what: str) -> Iterator[None]:
    """Say which store is damaged; a disk that fails is not one."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"The history {path} {what}: {error}.") from None
    except (OSError, MemoryError, UserError):
        raise
    except Exception as error:  # zarr and its codecs raise many kinds for damaged chunks
        text = (str(error).splitlines() or [type(error).__name__])[0]
        if "checksum do not match" in text:
            text = "a chunk is not what was saved (CRC)"
        raise UserError(f"The history {path} {what}: {text.removesuffix('.')}.") from None
