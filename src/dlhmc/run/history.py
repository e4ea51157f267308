"""Histories of a run as a zarr store that xarray opens: arrays [trajectory, …, chain], written as the run goes on.

What is recorded of a trajectory is a number for each chain, or an array of them; its axes stand between both.

Arrays have their full length from the start and rows that have not been reached hold the fill value, so a resumed
run overwrites what came after its checkpoint and the store never has to be cut.

Every chunk has a CRC, which zarr checks; and every array a SHA-256 of its rows so far, which checkpoints keep: rows
that were lost, changed or exchanged since are found before a number is made of them.
"""

import hashlib
import json
import math
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from jaxtyping import Array
from numpy.typing import NDArray
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest
from zarr.buffer import default_buffer_prototype
from zarr.codecs import BytesCodec, Crc32cCodec, ZstdCodec
from zarr.storage import LocalStore

from dlhmc.errors import UserError
from dlhmc.files import MOST_ARRAYS, UNFINISHED, read_text, write_whole
from dlhmc.run import processes
from dlhmc.run.devices import pieces_to_write, shape_of_pieces

# About a megabyte of float32: large enough for disks, small enough to rewrite with every chunk of the run.
_CELLS_PER_CHUNK = 2**18
# Of several processes each has its own, and a run has no more devices than this.
_MOST_PIECES = 2**16


CONFIGURATIONS, _KEPT, _METADATA = "configurations", "kept", "zarr.json"


def diagnostics_of(attributes: Mapping[Any, Any]) -> tuple[str, ...]:
    """The records that are about the kernel: all that are not observables."""
    try:
        return tuple(map(str, json.loads(attributes.get("diagnostics", "[]"))))
    except (TypeError, ValueError, RecursionError):
        raise UserError("The attribute 'diagnostics' of the histories is damaged: it is no list of names.") from None


class _Store(LocalStore):
    """A store in a directory that can be used for days: see `write_whole` about names of files."""

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """What is stored there."""
        if byte_range is not None:
            return await super().get(key, prototype, byte_range)
        try:
            with open(os.path.join(self.root, key), "rb") as file:
                return (prototype or default_buffer_prototype()).buffer.from_bytes(file.read())
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    async def set(self, key: str, value: Buffer) -> None:
        """In one piece. Checkpoints vouch for it, so that it need not be on the disk before the next one is."""
        self._check_writable()
        file = os.path.join(self.root, key)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        write_whole(file, value.as_buffer_like(), to_disk=False)


class History:
    """The open store."""

    def __init__(self, group: zarr.Group, path: Path) -> None:
        self._group = group
        self._path = path
        # Of the rows written so far, by array.
        self._hashes: dict[str, Any] = {}
        self._metadata = ""

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
        """A store for `rows` trajectories of the given records (one row [*element, chain] of each tells its shape)."""
        group = zarr.open_group(_Store(path), mode="w-", attributes=dict(attributes))
        pieces = shape_of_pieces(configuration)
        for name, row in records.items():
            elements = tuple(f"{name}_{axis}" for axis in range(row.ndim - 1))
            _create_array(
                group,
                name,
                (rows, *row.shape),
                row.dtype,
                ("trajectory", *elements, "chain"),
                (*row.shape[:-1], *pieces[-1:]),
            )
        if configuration_steps:
            field = tuple(f"field_{axis}" for axis in range(configuration.ndim - 1))
            names = (_KEPT, *field, "chain")
            shape = (len(configuration_steps), *configuration.shape)
            _create_array(group, CONFIGURATIONS, shape, configuration.dtype, names, pieces, chunk_rows=1)
            kept = _create_array(group, _KEPT, shape[:1], np.dtype(np.int64), (_KEPT,), ())
            kept[:] = np.asarray(configuration_steps)
        with warnings.catch_warnings():
            # Consolidated metadata is an extension of the format; xarray looks for it and warns without.
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(_Store(path))
        history = cls(group, path)
        history._metadata = history._fingerprint_of_metadata()
        history._hashes = {name: hashlib.sha256() for name in group.array_keys()}
        if configuration_steps:
            history._hashes[_KEPT].update(_plain(np.asarray(configuration_steps, np.int64)))
        return history

    @classmethod
    def open(cls, path: Path, mode: str = "r+") -> "History":
        """The store of an earlier run."""
        with _damage_named(path, "is missing or damaged"):
            if not path.is_dir():  # zarr would make one
                raise FileNotFoundError("there is no such directory")
            return cls(zarr.open_group(_Store(path), mode=mode), path)  # type: ignore[arg-type]

    @property
    def names(self) -> list[str]:
        """The arrays of the store."""
        return sorted(self._group.array_keys())

    @property
    def attributes(self) -> dict[str, Any]:
        """What the store says about itself."""
        return dict(self._group.attrs)

    @property
    def records(self) -> list[str]:
        """The arrays that have a row for each trajectory."""
        return [name for name in self.names if name not in (CONFIGURATIONS, _KEPT)]

    @property
    def chains(self) -> int:
        """How many there are."""
        return self.array(next(iter(self.records), "records")).shape[-1]

    def rows(self, name: str, rows: int, power: int = 1, element: tuple[Any, ...] = ()) -> "Rows":
        """The first rows of a record, or of one element of it, raised to a power."""
        return Rows(self.array(name), rows, power, element, nan=name in diagnostics_of(self.attributes))

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
        """Store some rows of buffers from `first_row` on; of several processes, each stores its own chains."""
        for name, buffer in records.items():
            array = self.array(name)
            for index, values in pieces_to_write(buffer, array.chunks):
                part = values[rows]
                with _damage_named(self._path):  # the rows before are read and written again with these
                    array[(slice(first_row, first_row + len(part)), *index[1:])] = part
            self._vouch_for(name, processes.whole(buffer)[rows])

    def write_configuration(self, number: int, configuration: Array) -> None:
        """Store a kept configuration; of several processes, each stores its own part."""
        array = self.array(CONFIGURATIONS)
        for index, values in pieces_to_write(configuration, array.chunks[1:]):
            array[(number, *index)] = values
        self._vouch_for(CONFIGURATIONS, processes.whole(configuration))

    def _vouch_for(self, name: str, values: NDArray[Any]) -> None:
        """Add values to those that the next checkpoint vouches for, whose notes the first process writes."""
        if processes.is_first():
            self._hashes[name].update(_plain(values))

    def digests(self) -> dict[str, str]:
        """SHA-256 of the rows of each array so far, and of the metadata: for the checkpoint."""
        return {name: sha.hexdigest() for name, sha in self._hashes.items()} | {_METADATA: self._metadata}

    def verify(self, shape: tuple[int, int], rows: int, kept: int, digests: Mapping[str, str]) -> None:
        """Refuse a store whose first `rows` trajectories and `kept` configurations are not those of the digests.

        `shape` is that of every record, trajectories and chains. Afterwards the store can be written on from there.
        """
        with _damage_named(self._path):
            self._metadata = self._fingerprint_of_metadata()
        if self._metadata != digests.get(_METADATA):
            raise UserError(f"The history {self._path} is damaged: its metadata ({_METADATA}) are not those saved.")
        if other := digests.keys() - {_METADATA} ^ {*self.names}:
            raise UserError(f"The history {self._path} is damaged: '{min(other)}' is missing, or of another run.")
        self._hashes = {}
        for name in self.names:
            array = self.array(name)
            if name == CONFIGURATIONS:
                count, fits = kept, kept <= array.shape[0] <= shape[0] and array.shape[-1] == shape[1]
            elif name == _KEPT:
                count, fits = array.shape[0], kept <= array.shape[0] <= shape[0] and array.ndim == 1
            else:
                of_run = array.ndim > 1 and (array.shape[0], array.shape[-1]) == shape
                count, fits = rows, of_run and rows <= shape[0]
            if not fits:
                raise UserError(f"The history {self._path} is damaged: '{name}' is of another run.")
            _require_modest_chunks(self._path, array, count)
            self._hashes[name] = sha = hashlib.sha256()
            step = array.chunks[0]
            for first in range(0, count, step):
                with _damage_named(self._path, f"is damaged in '{name}'"):
                    sha.update(_plain(np.asarray(array[first : min(first + step, count)])))
            if sha.hexdigest() != digests[name]:
                raise UserError(f"The history {self._path} is damaged: '{name}' is not what was saved.")

    def forget_after(self, rows: int) -> None:
        """Drop chunks after the first `rows` trajectories, which may be damaged, and half-written files."""
        for name in self._hashes.keys() - {CONFIGURATIONS, _KEPT}:
            step = self.array(name).chunks[0]
            for chunk in (self._path / name / "c").glob("*"):
                if chunk.name.isdecimal() and int(chunk.name) * step >= rows:
                    shutil.rmtree(chunk)
        for torn in self._path.rglob(f".*{UNFINISHED}"):
            torn.unlink()

    def _fingerprint_of_metadata(self) -> str:
        sha = hashlib.sha256()
        for file in sorted(self._path.rglob(_METADATA)):
            sha.update(f"{file.relative_to(self._path)}\n".encode())
            sha.update(read_text(file))
        return sha.hexdigest()


def _create_array(
    group: zarr.Group,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    dimensions: tuple[str, ...],
    pieces: tuple[int, ...],
    chunk_rows: int | None = None,
) -> zarr.Array[Any]:
    """An array cut into chunks along its first axis, and into pieces for processes to write; each with a CRC."""
    size = math.prod(shape[1:])
    rows = chunk_rows or max(1, min(shape[0], _CELLS_PER_CHUNK // max(1, size)))
    return group.create_array(
        name,
        shape=shape,
        chunks=(rows, *pieces),
        dtype=dtype,
        compressors=_COMPRESSORS,
        fill_value=_fill_value(dtype),
        dimension_names=dimensions,
    )


def _fill_value(dtype: np.dtype[Any]) -> float | int | bool:
    """Stands for what has not been written; a flag has no value to spare."""
    if dtype.kind == "b":
        return False
    return np.nan if dtype.kind in "fc" else int(np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max)


_COMPRESSORS = (ZstdCodec(level=0), Crc32cCodec())


def _plain(rows: NDArray[Any]) -> memoryview:
    """Bytes that do not depend on which of many NaN a NaN is: zarr gives its own back for a chunk of nothing else."""
    if rows.dtype.kind in "fc":
        rows = np.where(np.isnan(rows), rows.dtype.type(np.nan), rows)
    return np.ascontiguousarray(rows).data


def _require_modest_chunks(path: Path, array: zarr.Array[Any], rows: int) -> None:
    """Refuse chunks that would take more memory than the array says, before they are unpacked."""
    cells = math.prod(array.chunks)
    codecs = tuple(array.metadata.codecs)  # type: ignore[union-attr]
    cuts = [math.ceil(size / chunk) for size, chunk in zip(array.shape[1:], array.chunks[1:], strict=True)]
    plain = math.prod(cuts) <= _MOST_PIECES and array.chunks[0] <= max(1, array.shape[0])
    plain = plain and (array.chunks[0] == 1 or cells <= _CELLS_PER_CHUNK or array.ndim == 1)
    if not plain or len(codecs) != 3 or not isinstance(codecs[0], BytesCodec) or codecs[1:] != _COMPRESSORS:
        raise UserError(f"The history {path} is damaged: '{array.basename}' is not stored as this program does.")
    wanted = cells * array.dtype.itemsize
    if wanted > MOST_ARRAYS:
        raise UserError(f"The history {path} is damaged: a chunk of '{array.basename}' would take {wanted} bytes.")
    for index in np.ndindex(math.ceil(rows / array.chunks[0]), *cuts):
        file = path / array.basename / array.metadata.encode_chunk_key(index)
        if not file.is_file():
            if array.basename not in (CONFIGURATIONS, _KEPT):
                continue  # nothing but fill values, unless the SHA-256 says otherwise
            raise UserError(f"The history {path} is damaged: '{array.basename}' is not what was saved.")
        with file.open("rb") as content:
            if _unpacked_size(content.read(18)) != wanted:
                raise UserError(f"The history {path} is damaged in '{array.basename}': {file.name} has another size.")


def _unpacked_size(head: bytes) -> int | None:
    """How many bytes a Zstandard frame says it holds (RFC 8878, section 3.1.1)."""
    if len(head) < 6 or head[:4] != b"\x28\xb5\x2f\xfd":
        return None
    descriptor = head[4]
    single, code = descriptor >> 5 & 1, descriptor >> 6
    start = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
    length = (single, 2, 4, 8)[code]
    size = int.from_bytes(head[start : start + length], "little")
    return size + 256 if code == 1 else size if length else None


@contextmanager
def _damage_named(path: Path, what: str = "is damaged") -> Iterator[None]:
    """Say which store is damaged; a disk that fails is not one."""
    try:
        yield
    except (OSError, MemoryError, UserError) as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise UserError(f"The history {path} {what}: {error}.") from None
        raise
    except Exception as error:  # zarr and its codecs raise many kinds for damaged chunks
        text = (str(error).splitlines() or [type(error).__name__])[0]
        if "checksum do not match" in text:
            text = "a chunk is not what was saved (CRC)"
        raise UserError(f"The history {path} {what}: {text.removesuffix('.')}.") from None


class Rows:
    """The first rows of a record as the statistics want them: sliced by chains, in double precision.

    Of an array-valued record that is one element, or all [trajectory, …, chain]. The fill value of a row that was lost
    is an error, unless it is NaN and the record may be.
    """

    def __init__(
        self,
        array: zarr.Array[Any],
        rows: int,
        power: int = 1,
        element: tuple[Any, ...] = (),
        *,
        nan: bool = False,
    ) -> None:
        self._array = array
        self._power = power
        self._element = element
        self._nan = nan
        self.shape = (rows, array.shape[-1])

    def __getitem__(self, index: tuple[slice, slice]) -> NDArray[np.float64]:
        """series[:, a:b]."""
        rows, chains = index
        rows = slice(*rows.indices(self.shape[0]))
        path = Path(str(self._array.store_path).removeprefix("file://"))
        with _damage_named(path):
            values = np.asarray(self._array[rows, *self._element, ..., chains])
        if values.dtype.kind == "f":
            lost = not self._nan and not np.isfinite(values).all()
        else:
            lost = values.dtype.kind != "b" and (values == self._array.fill_value).any()
        if lost:
            raise UserError(f"The history {path} is damaged: rows are missing, or not finite.")
        return values.astype(np.float64) ** self._power

    def total(self) -> float:
        """The sum over all rows and chains, a part of the rows at a time."""
        step = self._array.chunks[0]
        return sum(float(self[first : first + step, :].sum()) for first in range(0, self.shape[0], step))
