"""Checkpoints: a NumPy archive each, there as a whole or not at all; its CRC finds later changes.

A checkpoint holds the leaves of a pytree by their path in it, and the notes of the run about the step.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from dlhmc.errors import UserError
from dlhmc.files import UNFINISHED, Archive, write_arrays
from dlhmc.numerics.leaves import by_name
from dlhmc.run import processes
from dlhmc.run.sink import Saved

T = TypeVar("T")
R = TypeVar("R")
#: what a run knows about a step beside its arrays
Notes = dict[str, Any]
#: raises UserError for notes that do not fit what else is on disk
Check = Callable[[int, Notes], object]
_NOTES = "notes"
_SUFFIX = ".npz"
_KEPT = 2


def _accept(step: int, notes: Notes) -> None:
    """Any notes."""


class Checkpoints:
    """The checkpoints of a run: the last two of them."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        if read_only and not path.is_dir():
            raise UserError(f"There are no checkpoints in {path.parent}: start the run anew in another directory.")
        self._path = path
        self._newest: int | None = None
        #: what is wrong with checkpoints that an older one had to stand in for
        self.passed_over: list[str] = []
        self._may_write = processes.is_first() and not read_only  # else a run may be writing here
        if self._may_write:
            path.mkdir(exist_ok=True)
            for torn in path.glob(f".*{UNFINISHED}"):  # what a run was writing when it died
                torn.unlink()

    def save(self, step: int, state: Saved) -> None:
        """Save a step, unless it has been."""
        if step == self._newest:
            return
        self._newest = step
        tree, notes = state
        leaves = {name: processes.whole(leaf) for name, leaf in by_name(tree).items()}
        if not self._may_write:
            return
        try:
            write_arrays(self._file(step), leaves, {_NOTES: notes}, compressed=False)
        except OSError as error:
            raise OSError(error.errno, f"checkpoint {step}: {error.strerror}") from error
        for old in self._steps()[_KEPT:]:
            os.unlink(self._file(old))

    def restore(self, like: Callable[[int], T], check: Check = _accept) -> tuple[int, T, Notes]:
        """The newest intact checkpoint, as (step, tree, notes); like(step) has its structure, kinds and devices."""

        def read(archive: Archive, step: int) -> T:
            wanted = like(step)
            leaves = [_placed(archive, name, leaf) for name, leaf in by_name(wanted).items()]
            return jax.tree.unflatten(jax.tree.structure(wanted), leaves)

        step, tree, notes = self._first_intact(read, check)
        # Disks of other machines may show another state: processes that go on from different steps would mix two runs.
        if len(set(processes.gathered((step,)))) > 1:
            raise UserError(
                f"The processes of the run do not see the same checkpoints in {self._path}: wait until the disk that "
                "they share shows the same files everywhere, then resume."
            )
        for later in self._steps() if self._may_write else ():
            if later > step:
                os.unlink(self._file(later))
        self._newest = step
        return step, tree, notes

    def newest_notes(self, check: Check = _accept) -> tuple[int, Notes]:
        """Step and notes of the newest intact checkpoint."""
        step, _, notes = self._first_intact(lambda *_: None, check)
        return step, notes

    def _file(self, step: int) -> str:
        return os.path.join(self._path, f"{step}{_SUFFIX}")

    def _steps(self) -> list[int]:
        """The newest first."""
        names = (name.removesuffix(_SUFFIX) for name in os.listdir(self._path) if name.endswith(_SUFFIX))
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def _first_intact(self, read: Callable[[Archive, int], R], check: Check) -> tuple[int, R, Notes]:
        """The newest checkpoint that can be read."""
        steps = self._steps()
        if not steps:
            raise UserError(f"There is no checkpoint in {self._path}: start the run anew in another directory.")
        problems: list[str] = []
        for step in steps:
            try:
                archive = Archive(self._file(step))
                notes = archive.table(_NOTES)
                check(step, notes)
                found = read(archive, step)
            except (OSError, ValueError, UserError) as problem:
                problems.append(f"checkpoint {step}: {str(problem).removesuffix('.')}")
            else:
                self.passed_over = problems
                return step, found, notes
        raise UserError(
            f"No checkpoint in {self._path} is intact ({'; '.join(problems)}): start the run anew with its "
            "configuration (--config)."
        )


def _placed(archive: Archive, name: str, like: Any) -> Any:
    """A leaf on the devices of `like`, each with its part."""
    array = archive.read(name)
    if array.shape != like.shape or array.dtype != np.dtype(like.dtype):
        raise ValueError(f"leaf {name} is not of this run")
    if not isinstance(like, jax.Array):
        return array
    return jax.make_array_from_callback(array.shape, like.sharding, lambda index: array[index])
