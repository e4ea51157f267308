"""metrics.jsonl: figures of a run as it goes on, a line for each chunk, with a checksum in every checkpoint."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from dlhmc.errors import UserError
from dlhmc.files import parse_json, write_whole

NAME = "metrics"


class MetricsFile:
    """The file, open for the lines to come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] = path.open("ab")
        self._sha256 = hashlib.sha256(path.read_bytes())
        self._size = path.stat().st_size

    def append(self, figures: Mapping[str, Any]) -> None:
        """Add a line; it has left the process when this returns."""
        line = (json.dumps(figures) + "\n").encode()
        self._file.write(line)
        self._file.flush()
        self._sha256.update(line)
        self._size += len(line)

    def seal(self) -> dict[str, Any]:
        """Size and SHA-256 so far, for the notes of a checkpoint."""
        return {NAME: {"bytes": self._size, "sha256": self._sha256.hexdigest()}}

    def close(self) -> None:
        """No more lines."""
        self._file.close()


def cut(path: Path, notes: Mapping[str, Any]) -> None:
    """Drop what a run wrote after the checkpoint that it resumes from."""
    if path.exists():
        write_whole(path, _saved(path, notes))


def read(path: Path, notes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines up to a checkpoint, as they were written."""
    try:
        lines = [parse_json(line) for line in _saved(path, notes).splitlines()]
        if not all(type(line.get("step")) is int for line in lines):
            raise ValueError("a line does not say which step it is of")
        if not all(type(value) in (int, float) for line in lines for value in line.values()):
            raise ValueError("a line holds something else than numbers")
        return lines
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is missing or damaged: {error}.") from None


def _saved(path: Path, notes: Mapping[str, Any]) -> bytes:
    """The part of the file that the checkpoint vouches for."""
    if NAME not in notes:  # the checkpoint before the first line
        return b""
    saved = notes[NAME]
    if not isinstance(saved, dict) or type(size := saved.get("bytes")) is not int or size < 0:
        raise UserError("Its checkpoint is damaged: it does not say how long metrics.jsonl was.")
    with path.open("rb") as file:
        data = file.read(min(size, os.fstat(file.fileno()).st_size))
    if hashlib.sha256(data).hexdigest() != saved.get("sha256"):
        raise UserError(
            f"{path} is damaged: its first {size} bytes are not what was saved; put it back, or remove it to go on "
            "without these figures."
        )
    return data
