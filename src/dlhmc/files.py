"""Files that are there as a whole or not at all.

What is read may come from a stranger: nothing in it is run, and its size is known before memory is taken for it.
"""

import contextlib
import hashlib
import io
import json
import os
import stat
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

# NumPy is imported by what needs it: the help of commands reads no arrays.
if TYPE_CHECKING:
    from numpy.typing import NDArray

AnyPath = str | os.PathLike[str]
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


class Archive:
    """All arrays of a NumPy archive, checked against its CRC; ValueError for whatever is wrong with it."""

    def __init__(self, path: AnyPath, most: int = MOST_ARRAYS) -> None:
        import numpy as np

        with open(path, "rb") as file:
            data = io.BytesIO(file.read(most))
        try:
            with zipfile.ZipFile(data) as members:
                size = sum(member.file_size for member in members.infolist())
            if size > most:
                raise ValueError(f"it would take more than {most / 2**30:.3g} GB of memory")
            with np.load(data, allow_pickle=False) as arrays:
                self._arrays = {name: np.asarray(arrays[name]) for name in arrays.files}
        except Exception as error:  # zipfile and NumPy raise many kinds for damaged files
            raise ValueError(f"it is no archive of arrays ({error})") from None
        if any(array.dtype.kind not in "biufc" for array in self._arrays.values()):
            raise ValueError("it does not hold numbers")

    @property
    def names(self) -> Iterable[str]:
        """Of the arrays."""
        return self._arrays.keys()

    def read(self, name: str) -> "NDArray[Any]":
        """One of the arrays."""
        if name not in self._arrays:
            raise ValueError(f"it has no '{name}'")
        return self._arrays[name]

    def table(self, name: str) -> dict[str, Any]:
        """A table that `write_arrays` has put beside the arrays."""
        return parse_json(self.read(name).tobytes())
