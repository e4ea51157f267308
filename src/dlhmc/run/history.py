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
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from jaxtyping import Array
from numpy.typing import NDArray
from zarr.abc.buffer import Buffer
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.storage import LocalStore

from dlhmc.errors import UserError
from dlhmc.files import UNFINISHED, write_whole
from dlhmc.run import processes
from dlhmc.run.devices import Piece, pieces_to_write, shape_of_pieces

# About a megabyte of float32: large enough for disks, small enough to rewrite with every chunk of the run.
_CELLS_PER_CHUNK = 2**18
CONFIGURATIONS, KEPT = "configurations", "kept"
_NOT_RECORDS = (CONFIGURATIONS, KEPT)


class History:
    """Records of each trajectory, and configurations that are kept: NumPy arrays, or those of an open store."""

    def __init__(self, arrays: Mapping[str, Any], attributes: Mapping[str, Any], path: Path | None = None) -> None:
        self.arrays = dict(sorted(arrays.items()))
        self.attributes = dict(attributes)
        self._path = path

    @classmethod
    def create(
        cls,
        path: Path | None,
        rows: int,
        records: Mapping[str, NDArray[Any]],
        kept: list[int],
        configuration: Array,
        attributes: Mapping[str, Any],
    ) -> "History":
        """For `rows` trajectories of the given records (one row [*element, chain] of each tells its shape)."""
        shapes = {name: ((rows, *row.shape), row.dtype) for name, row in records.items()}
        if kept:
            shapes[CONFIGURATIONS] = ((len(kept), *configuration.shape), configuration.dtype)
            shapes[KEPT] = ((len(kept),), np.dtype(np.int64))
        if path is None:
            made = cls({name: np.empty(shape, dtype) for name, (shape, dtype) in shapes.items()}, attributes)
        else:
            group = zarr.open_group(_Store(path), mode="w-", attributes=dict(attributes))
            pieces = shape_of_pieces(configuration)
            for name, (shape, dtype) in shapes.items():
                length = max(1, _CELLS_PER_CHUNK // max(1, math.prod(shape[1:])))
                chunks = {KEPT: (1,), CONFIGURATIONS: (1, *pieces)}.get(name, (length, *shape[1:-1], pieces[-1]))
                may_be_nan = name in diagnostics_of(attributes)
                group.create_array(
                    name,
                    shape=shape,
                    chunks=chunks,
                    dtype=dtype,
                    compressors=(ZstdCodec(level=0), Crc32cCodec()),
                    fill_value=_fill_value(dtype, may_be_nan=may_be_nan),
                    dimension_names=_dimensions(name, len(shape)),
                    config={"write_empty_chunks": True},
                )
            made = cls(dict(group.arrays()), attributes, path)
        made._keep(kept)
        return made

    @classmethod
    def open(cls, path: Path, *, writable: bool = True) -> "History":
        """That of an earlier run."""
        try:
            if not path.is_dir():  # zarr would make one
                raise FileNotFoundError("there is no such directory")
            group = zarr.open_group(_Store(path), mode="r+" if writable else "r", use_consolidated=False)
            return cls(dict(group.arrays()), group.attrs, path)
        except Exception as error:  # zarr raises many kinds for damaged stores
            raise _damaged(path, "is missing or damaged", error) from None

    def extend(self, rows: int, kept: list[int]) -> None:
        """Make it longer, where it is shorter."""
        for name, array in self.arrays.items():
            length = len(kept) if name in _NOT_RECORDS else rows
            if array.shape[0] < length:
                array.resize((length, *array.shape[1:]))
        self._keep(kept)

    def _keep(self, kept: list[int]) -> None:
        if kept:
            self.arrays[KEPT][:] = np.asarray(kept)
        if self._path is not None:
            with warnings.catch_warnings():
                # Consolidated metadata is an extension of the format; xarray looks for it and warns without.
                warnings.simplefilter("ignore")
                zarr.consolidate_metadata(_Store(self._path))

    def write(self, first_row: int, records: Mapping[str, Array], rows: slice) -> None:
        """Store some rows of buffers from `first_row` on; of several processes, each stores its own chains."""
        for name, buffer in records.items():
            for index, values in self._pieces(buffer, self.arrays[name]):
                part = values[rows]
                self.arrays[name][(slice(first_row, first_row + len(part)), *index[1:])] = part

    def write_configuration(self, number: int, configuration: Array) -> None:
        """Store a configuration; of several processes, each stores its own part."""
        array = self.arrays[CONFIGURATIONS]
        for index, values in self._pieces(configuration, array, first_axis=1):
            array[(number, *index)] = values

    def _pieces(self, values: Array, array: Any, first_axis: int = 0) -> Iterable[Piece]:
        if self._path is None:
            return [((slice(None),) * values.ndim, processes.whole(values))]
        return pieces_to_write(values, array.chunks[first_axis:])

    def verify(self, chains: int, rows: int, kept: int) -> None:
        """Refuse a store without the first `rows` trajectories of so many chains, or `kept` configurations."""
        path = self._path or Path()
        for name in diagnostics_of(self.attributes):
            if name not in self.arrays:
                raise UserError(f"The history {path} is damaged: it has no '{name}'.")
        for name, array in self.arrays.items():
            try:
                _verify(array, chains if name != KEPT else None, kept if name in _NOT_RECORDS else rows)
            except Exception as error:  # zarr and its codecs raise many kinds for damaged chunks
                raise _damaged(path, f"is damaged in '{name}'", error) from None

    def forget_after(self, rows: int) -> None:
        """Drop chunks after the first `rows` trajectories, which may be damaged, and half-written files."""
        path = self._path or Path()
        for name, array in self.arrays.items():
            for chunk in (path / name / "c").glob("*") if name not in _NOT_RECORDS else ():
                if chunk.name.isdecimal() and int(chunk.name) * array.chunks[0] >= rows:
                    shutil.rmtree(chunk)
        for torn in path.rglob(f".*{UNFINISHED}"):
            torn.unlink()

    def dataset(self, rows: int) -> xr.Dataset:
        """The first rows [chain, trajectory, …], with coordinates and all that is known about the run.

        Of a history on disk, numbers are read when they are looked at.
        """
        if self._path is None:
            found = xr.Dataset({name: (_dimensions(name, array.ndim), array) for name, array in self.arrays.items()})
            data = found.assign_attrs(self.attributes)
        else:
            data = xr.open_zarr(self._path, chunks=None, mask_and_scale=False)
        data = data.isel(trajectory=slice(rows))
        if KEPT in data:
            data = data.set_coords(KEPT).isel(kept=np.asarray(data[KEPT]) <= rows)
        data = data.assign_coords(chain=np.arange(data.sizes["chain"]), trajectory=np.arange(1, rows + 1))
        for name, array in data.items():
            if "trajectory" in array.dims:
                data[name] = array.transpose("chain", "trajectory", ...)
        return data


class _Store(LocalStore):
    """A store in a directory that can be used for days: see `write_whole` about names of files."""

    async def set(self, key: str, value: Buffer) -> None:
        """In one piece; a checkpoint that finds it missing is passed over, so it need not be on the disk at once."""
        self._check_writable()
        file = os.path.join(self.root, key)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        write_whole(file, value.as_buffer_like(), to_disk=False)


def diagnostics_of(attributes: Mapping[Any, Any]) -> tuple[str, ...]:
    """The records that are about the kernel: all that are not observables."""
    try:
        return tuple(map(str, json.loads(attributes.get("diagnostics", "[]"))))
    except (TypeError, ValueError, RecursionError):
        raise UserError("The attribute 'diagnostics' of the histories is damaged: it is no list of names.") from None


def _dimensions(name: str, number: int) -> tuple[str, ...]:
    if name == KEPT:
        return (KEPT,)
    first, axes = (KEPT, "field") if name == CONFIGURATIONS else ("trajectory", name)
    return (first, *(f"{axes}_{axis}" for axis in range(number - 2)), "chain")


def _fill_value(dtype: np.dtype[Any], *, may_be_nan: bool) -> float | int | bool:
    """Stands for what has not been written."""
    if dtype.kind == "b":
        return False
    if dtype.kind in "fc":
        return float(np.finfo(dtype).min) if may_be_nan else np.nan
    limits = np.iinfo(dtype)
    return int(limits.min if dtype.kind == "i" else limits.max)


def _verify(array: Any, chains: int | None, rows: int) -> None:
    if array.shape[0] < rows or chains not in (None, array.shape[-1]):
        raise ValueError("it is of another run")
    if math.prod(array.chunks) > max(_CELLS_PER_CHUNK, math.prod(array.shape[1:])):
        raise ValueError("it is not stored as this program does")
    for first in range(0, rows, array.chunks[0]):
        values = np.asarray(array[first : min(first + array.chunks[0], rows)])
        lost = values == array.fill_value
        if array.fill_value != array.fill_value:
            lost = np.isnan(values)
        if values.dtype.kind != "b" and lost.any():
            raise ValueError("rows are missing")


def _damaged(path: Path, what: str, error: Exception) -> Exception:
    """What to raise for an error of zarr; a disk that fails is no damage."""
    missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    if isinstance(error, OSError | MemoryError | UserError) and not missing:
        return error
    text = (str(error).splitlines() or [type(error).__name__])[0]
    if "checksum do not match" in text:
        text = "a chunk is not what was saved (CRC)"
    return UserError(f"The history {path} {what}: {text.removesuffix('.')}.")
