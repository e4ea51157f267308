"""Files that are there as a whole or not at all, and that tell when they have been changed since.

What is read may come from a stranger: nothing in it is run, and its size is known before memory is taken for it.
"""

import contextlib
import hashlib
import io
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

# NumPy is imported by what needs it: the help of commands reads no arrays.
if TYPE_CHECKING:
    from numpy.typing import NDArray

AnyPath = str | os.PathLike[str]
_SEAL = "sha256"
#: how the names of files end that are being written
UNFINISHED = ".tmp"
#: no text file of a run comes near this
MOST_TEXT = 2**26
#: nor any archive near this: a few bytes of an archive can stand for as much as they like
MOST_ARRAYS = 2**31


def write_whole(path: AnyPath, data: Any, *, to_disk: bool = True) -> None:
    """Write a file in one piece: a crash leaves the old one, or none; one of the machine, too, if it is `to_disk`.

    Names are texts here: `pathlib` keeps every part of every path in a table of the interpreter, which grows with the
    names of the files that a long run writes; since Python 3.12 for good.
    """
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}{UNFINISHED}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            if to_disk:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def read_text(path: Path) -> bytes:
    """All of a text file, unless it is far too large to be one."""
    with path.open("rb") as file:
        data = file.read(MOST_TEXT + 1)
    if len(data) > MOST_TEXT:
        raise ValueError(f"it is larger than {MOST_TEXT // 2**20} MB")
    return data


def read_regular(path: AnyPath, most: int = MOST_ARRAYS) -> bytes:
    """All of a file that is there itself: no link to another, no device or pipe, which may never end."""
    # Not waiting for who writes to a pipe. Windows has neither flag.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if os.path.islink(path):
        raise ValueError("it is a symbolic link, so give the file itself")
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if status.st_size > most:
            raise ValueError(f"it is larger than {most / 2**30:.3g} GB")
        return file.read(status.st_size)


def fingerprint(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sealed(content: Mapping[str, Any], run: str = "") -> dict[str, Any]:
    """A table with the SHA-256 of itself and of the run that it belongs to.

    >>> unsealed(sealed({"a": 1})), sealed({"a": 1}) == {"a": 1}
    ({'a': 1}, False)
    """
    return {**content, _SEAL: _digest(content, run)}


def unsealed(table: Mapping[str, Any], run: str = "") -> dict[str, Any]:
    """The table that was sealed; ValueError if it is another one now, or that of another run."""
    content = {key: value for key, value in table.items() if key != _SEAL}
    if _SEAL not in table:
        raise ValueError("its SHA-256 is missing")
    if table[_SEAL] != _digest(content, run):
        raise ValueError("it is not what was saved there (SHA-256)")
    return content


def _digest(content: Mapping[str, Any], run: str) -> str:
    # As it will be read: JSON has no tuples, and its keys are texts.
    plain = json.loads(json.dumps(content, allow_nan=False))
    return hashlib.sha256(f"{run}{json.dumps(plain, sort_keys=True)}".encode()).hexdigest()


def parse_json(data: bytes) -> dict[str, Any]:
    """A table from JSON; ValueError for whatever is none."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number of JSON")

    try:
        content = json.loads(data.decode(), parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("it does not hold a table")
    return content


def write_arrays(
    path: AnyPath,
    arrays: "Mapping[str, NDArray[Any]]",
    tables: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    compressed: bool = True,
) -> None:
    """Write a NumPy archive of plain arrays, and of tables as JSON."""
    import numpy as np

    texts = {name: np.frombuffer(json.dumps(table).encode(), np.uint8) for name, table in (tables or {}).items()}
    buffer = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(buffer, allow_pickle=False, **arrays, **texts)
    write_whole(path, buffer.getbuffer())


# The header of an array in an archive is shorter than this.
_HEADER = 2**14


class Archive:
    """A NumPy archive in a file of which nothing is known; ValueError for whatever is wrong with it."""

    def __init__(self, path: AnyPath, most: int = MOST_ARRAYS) -> None:
        try:
            with open(path, "rb") as file:
                # From memory: a file that changes while it is read is another matter.
                self._zip = zipfile.ZipFile(io.BytesIO(file.read(most)))
            self._members = {entry.filename.removesuffix(".npy"): entry for entry in self._zip.infolist()}
        except _BAD_ZIP as error:
            raise ValueError(f"it is not an archive ({error})") from None
        # Others unpack a few kilobytes into as much as they like before they can be stopped.
        if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in self._zip.infolist()):
            raise ValueError("it is compressed in a way that NumPy does not use")
        if sum(entry.file_size for entry in self._members.values()) > most:
            raise ValueError(f"it would take more than {most / 2**30:.3g} GB of memory")

    @property
    def names(self) -> Iterable[str]:
        """Of the arrays."""
        return self._members.keys()

    def read(self, name: str, most: int = MOST_ARRAYS) -> "NDArray[Any]":
        """An array of at most `most` bytes, checked against the CRC of the archive."""
        if name not in self._members:
            raise ValueError(f"it has no '{name}'")
        entry = self._members[name]
        if entry.file_size > most + _HEADER:
            raise ValueError(f"'{name}' is too large")
        try:
            with self._zip.open(entry) as file:
                data = file.read(entry.file_size + 1)
        except _BAD_ZIP as error:
            raise ValueError(f"'{name}' cannot be read ({error})") from None
        if len(data) != entry.file_size:
            raise ValueError(f"'{name}' has another size than the archive says")
        return _array(name, data)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of an array."""
        return self.read(name).shape

    def table(self, name: str) -> dict[str, Any]:
        """A table that `write_arrays` has put beside the arrays."""
        return parse_json(self.read(name, MOST_TEXT).tobytes())


# What zipfile raises for damaged archives.
_BAD_ZIP = (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError, OverflowError, zlib.error)


def _array(name: str, data: bytes) -> "NDArray[Any]":
    """The array of an .npy file: no objects, and as large as the data are."""
    import numpy as np

    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran_order, dtype = read_header(file)
    except KeyError:
        raise ValueError(f"'{name}' is of an unknown version of the NumPy format") from None
    except Exception as error:  # the header is a literal of Python, which fails in many ways
        raise ValueError(f"'{name}' is not an array ({type(error).__name__})") from None
    if dtype.kind not in "biufc":
        raise ValueError(f"'{name}' does not hold numbers")
    size = 1
    for side in shape:
        size *= side
    if min(shape, default=0) < 0 or size * dtype.itemsize != len(data) - file.tell():
        raise ValueError(f"'{name}' has another size than its shape says")
    flat = np.frombuffer(data, dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if fortran_order else "C")
