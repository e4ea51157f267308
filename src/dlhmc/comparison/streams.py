"""Histories of a sampler in memory: arrays [trajectory, chain] that grow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlhmc.files import write_arrays


class Streams:
    """Rows of each observable, chunk after chunk; the sector, a small integer, in two bytes."""

    def __init__(self, observables: tuple[str, ...], sector: str | None, chains: int) -> None:
        self._chunks: dict[str, list[NDArray[Any]]] = {
            name: [np.empty((0, chains), np.int16 if name == sector else np.float32)] for name in observables
        }
        self.rows = 0

    def extend(self, records: Mapping[str, NDArray[Any]]) -> None:
        """Take in the rows of a chunk."""
        for name, chunks in self._chunks.items():
            chunks.append(records[name].astype(chunks[0].dtype))
        self.rows += next(len(records[name]) for name in self._chunks)

    @property
    def names(self) -> tuple[str, ...]:
        """The observables."""
        return tuple(self._chunks)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """All rows so far."""
        self._chunks[name] = [np.concatenate(self._chunks[name])]
        return self._chunks[name][0]

    def save(self, path: Path) -> None:
        """Write a NumPy archive of plain arrays in one piece."""
        write_arrays(path, {name: self[name] for name in self.names})
