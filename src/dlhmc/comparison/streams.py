"""Histories of a sampler in memory: arrays [trajectory, chain] that grow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlhmc.storage.files import write_arrays


class Streams:
    """One growing array for each observable; the sector, a small integer, in two bytes."""

    def __init__(self, observables: tuple[str, ...], sector: str | None, chains: int) -> None:
        self._arrays: dict[str, NDArray[Any]] = {
            name: np.empty((64, chains), np.int16 if name == sector else np.float32) for name in observables
        }
        self.rows = 0

    def extend(self, records: Mapping[str, NDArray[Any]]) -> None:
        """Take in the rows of a chunk."""
        new = next(len(records[name]) for name in self._arrays)
        for name, array in self._arrays.items():
            if self.rows + new > len(array):
                grown = np.empty((max(2 * len(array), self.rows + new), array.shape[1]), array.dtype)
                grown[: self.rows] = array[: self.rows]
                self._arrays[name] = array = grown
            array[self.rows : self.rows + new] = records[name]
        self.rows += new

    @property
    def names(self) -> tuple[str, ...]:
        """The observables."""
        return tuple(self._arrays)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """All rows so far."""
        return self._arrays[name][: self.rows]

    def save(self, path: Path) -> None:
        """Write a NumPy archive of plain arrays in one piece."""
        write_arrays(path, {name: self[name] for name in self._arrays})
