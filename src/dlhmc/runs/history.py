"""Histories of a run as a zarr store that xarray opens: arrays [trajectory, chain], written as the run goes on.

Arrays have their full length from the start and rows that have not been reached hold the fill value, so a resumed
run overwrites what came after its checkpoint and the store never has to be cut.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from jaxtyping import Array
from numpy.typing import NDArray

from dlhmc.devices import pieces_to_write, shape_of_pieces
from dlhmc.errors import UserError

# About a megabyte of float32: large enough for disks, small enough to rewrite with every chunk of the run.
_CELLS_PER_CHUNK = 2**18


class History:
    """The open store."""

    def __init__(self, group: zarr.Group, path: Path) -> None:
        self._group = group
        self._path = path

    @classmethod
    def create(
        cls,
        path: Path,
        rows: int,
        records: Mapping[str, NDArray[Any]],
        configuration_steps: list[int],
        configuration: Array,
        attributes: Mapping[str, Any],
    ) -> "History":
        """A store for `rows` trajectories of the given records (one row of each tells dtype and chains)."""
        group = zarr.open_group(path, mode="w-", attributes=dict(attributes))
        chunk_of_configuration = shape_of_pieces(configuration)
        for name, row in records.items():
            group.create_array(
                name,
                shape=(rows, *row.shape),
                chunks=(max(1, min(rows, _CELLS_PER_CHUNK // row.size)), *chunk_of_configuration[-1:]),
                dtype=row.dtype,
                fill_value=np.nan if row.dtype.kind == "f" else -1,
                dimension_names=("trajectory", "chain"),
            )
        if configuration_steps:
            field = tuple(f"field_{axis}" for axis in range(configuration.ndim - 1))
            group.create_array(
                "configurations",
                shape=(len(configuration_steps), *configuration.shape),
                chunks=(1, *chunk_of_configuration),
                dtype=configuration.dtype,
                fill_value=np.nan,
                dimension_names=("kept", *field, "chain"),
            )
            kept = group.create_array(
                "kept", shape=(len(configuration_steps),), dtype=np.int64, dimension_names=("kept",)
            )
            kept[:] = np.asarray(configuration_steps)
        with warnings.catch_warnings():
            # Consolidated metadata is an extension of the format; xarray looks for it and warns without.
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(path)
        return cls(group, path)

    @classmethod
    def open(cls, path: Path, mode: str = "r+") -> "History":
        """The store of an earlier run."""
        try:
            return cls(zarr.open_group(path, mode=mode), path)  # type: ignore[arg-type]
        except Exception as error:  # zarr raises many kinds for a damaged store
            raise UserError(f"The history {path} is missing or damaged: {error}.") from None

    def array(self, name: str) -> zarr.Array[Any]:
        """One array of the store."""
        try:
            array = self._group[name]
        except KeyError:
            raise UserError(f"The history {self._path} is damaged: it has no '{name}'.") from None
        if not isinstance(array, zarr.Array):
            raise UserError(f"The history {self._path} is damaged: '{name}' is not an array.")
        return array

    def write(self, first_row: int, records: Mapping[str, Array], rows: slice = slice(None)) -> None:
        """Store some rows of buffers from `first_row` on; each process stores its own chains."""
        for name, buffer in records.items():
            array = self.array(name)
            for index, values in pieces_to_write(buffer, array.chunks):
                part = values[rows]
                with _damage_named(self._path):  # the rows before are read and written again with these
                    array[(slice(first_row, first_row + len(part)), *index[1:])] = part

    def check(self, rows: int, records: Mapping[str, NDArray[Any]]) -> None:
        """Refuse a store that has lost some of its first `rows` trajectories."""
        for name, row in records.items():
            array = self.array(name)
            if array.shape[1:] != row.shape or array.dtype != row.dtype:
                raise UserError(f"The history {self._path} is damaged: '{name}' is of another run.")
            Rows(array, rows).total()

    def write_configuration(self, number: int, configuration: Array) -> None:
        """Store a kept configuration; each process stores its own part."""
        array = self.array("configurations")
        for index, values in pieces_to_write(configuration, array.chunks[1:]):
            array[(number, *index)] = values


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Say which store is damaged; a disk that fails is not one."""
    try:
        yield
    except (OSError, MemoryError, UserError):
        raise
    except Exception as error:  # zarr and its codecs raise many kinds for damaged chunks
        raise UserError(f"The history {path} is damaged: {error}.") from None


class Rows:
    """The first rows of an array as the statistics want them: sliced by chains, in double precision.

    The fill value of a row that was lost is an error, but for the one record that may be NaN.
    """

    def __init__(self, array: zarr.Array[Any], rows: int, power: int = 1) -> None:
        self._array = array
        self._power = power
        self.shape = (rows, array.shape[1])

    def __getitem__(self, index: tuple[slice, slice]) -> NDArray[np.float64]:
        """series[:, a:b]."""
        rows, chains = index
        rows = slice(*rows.indices(self.shape[0]))
        path = Path(str(self._array.store_path).removeprefix("file://"))
        with _damage_named(path):
            values = np.asarray(self._array[rows, chains])
        lost = np.isnan(values) if values.dtype.kind == "f" else values < 0
        if self._array.basename != "energy_change" and lost.any():
            raise UserError(f"The history {path} is damaged: rows are missing.")
        return values.astype(np.float64) ** self._power

    def total(self) -> float:
        """The sum over all rows and chains, a part of the rows at a time."""
        step = self._array.chunks[0]
        return sum(float(self[first : first + step, :].sum()) for first in range(0, self.shape[0], step))
