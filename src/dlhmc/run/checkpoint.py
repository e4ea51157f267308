"""Checkpoints: a NumPy archive each, there as a whole or not at all; a SHA-256 of every leaf finds later changes.

A checkpoint holds the leaves of a pytree by their path in it, and a record: the notes of the run about the step, and
a dtype, shape and SHA-256 for each leaf. It is as safe to open as a model.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray

from dlhmc.errors import UserError
from dlhmc.files import UNFINISHED, Archive, sealed, unsealed, write_arrays
from dlhmc.numerics.leaves import by_name, digest
from dlhmc.run import processes

T = TypeVar("T")
R = TypeVar("R")
#: what a run knows about a step beside its arrays
Notes = dict[str, Any]
#: raises UserError for notes that do not fit what else is on disk
Check = Callable[[int, Notes], object]
#: of the record beside the arrays
FORMAT = 3
_RECORD = "record"
_SUFFIX = ".npz"
_KEPT = 2


class Checkpoints:
    """The checkpoints of a run, the last two of them; `run` tells them from those of others."""

    def __init__(self, path: Path, *, run: str = "", create: bool = True, read_only: bool = False) -> None:
        if not create and not path.is_dir():
            raise UserError(f"There are no checkpoints in {path.parent}: start the run anew in another directory.")
        self._path = path
        self._run = run
        self._newest_step: int | None = None
        #: what is wrong with checkpoints that an older one had to stand in for
        self.passed_over: list[str] = []
        self._may_write = processes.is_first() and not read_only  # else a run may be writing here
        if self._may_write:
            path.mkdir(exist_ok=True)
            for torn in path.glob(f".*{UNFINISHED}"):  # what a run was writing when it died
                torn.unlink()

    def save(self, step: int, tree: Any, notes: Notes) -> None:
        """Save a pytree of arrays with notes (plain JSON) about it, unless the step has been saved."""
        if step == self._newest_step:
            return
        self._newest_step = step
        leaves = {name: processes.whole(leaf) for name, leaf in by_name(tree).items()}
        if not self._may_write:
            return
        digests = {name: digest(leaf) for name, leaf in leaves.items()}
        record = {"format": FORMAT, "run": self._run, "kinds": _kinds(leaves), "digests": digests, "notes": notes}
        try:
            write_arrays(self._file(step), leaves, {_RECORD: sealed(record)}, compressed=False)
        except OSError as error:
            raise OSError(error.errno, f"checkpoint {step}: {error.strerror}") from error
        for old in self._steps()[_KEPT:]:
            os.unlink(self._file(old))

    def restore(self, like: Callable[[int], T], check: Check | None = None) -> tuple[int, T, Notes]:
        """The newest intact checkpoint, as (step, tree, notes); like(step) has its structure, kinds and devices."""

        def read(step: int) -> tuple[T, Notes]:
            tree, notes = self._restore_one(step, like(step))
            if check is not None:
                check(step, notes)
            return tree, notes

        step, (tree, notes), damaged = self._newest(read)
        # Disks of other machines may show another state: processes that go on from different steps would mix two runs.
        if len(set(processes.gathered((step,)))) > 1:
            raise UserError(
                f"The processes of the run do not see the same checkpoints in {self._path}: wait until the disk that "
                "they share shows the same files everywhere, then resume."
            )
        if self._may_write:
            for other in damaged:
                os.unlink(self._file(other))
        self._newest_step = step
        return step, tree, notes

    def newest_notes(self, check: Check | None = None) -> tuple[int, Notes]:
        """Step and notes of the newest intact checkpoint, without its arrays."""

        def read(step: int) -> Notes:
            notes: Notes = self._open(step)[0]["notes"]
            if check is not None:
                check(step, notes)
            return notes

        return self._newest(read)[:2]

    def _file(self, step: int) -> str:
        return os.path.join(self._path, f"{step}{_SUFFIX}")

    def _steps(self) -> list[int]:
        """The newest first."""
        try:
            files = os.listdir(self._path)
        except OSError as error:
            raise UserError(f"{self._path} cannot be read: {error.strerror or error}.") from error
        names = (name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX))
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def _newest(self, read: Callable[[int], R]) -> tuple[int, R, list[int]]:
        """The newest step that can be read, what was read, and those after it that cannot."""
        steps = self._steps()
        if not steps:
            raise UserError(f"There is no checkpoint in {self._path}: start the run anew in another directory.")
        problems: dict[int, str] = {}
        for step in steps:
            try:
                found = read(step)
                self.passed_over = list(problems.values())
                return step, found, list(problems)
            except (_DamagedError, UserError) as problem:
                problems[step] = f"checkpoint {step}: {str(problem).removesuffix('.')}"
        reasons = "; ".join(problems.values())
        advice = "start the run anew with its configuration (--config)"
        raise UserError(f"No checkpoint in {self._path} is intact ({reasons}): {advice}.")

    def _open(self, step: int) -> tuple[dict[str, Any], Archive]:
        """The record of a checkpoint, and its arrays, which take no more memory than the file."""
        file = self._file(step)
        try:
            archive = Archive(file, os.path.getsize(file))
            found = archive.table(_RECORD)
        except (OSError, ValueError) as error:
            raise _DamagedError(f"cannot be read ({error})") from None
        if type(version := found.get("format")) is int and version != FORMAT:
            raise UserError(
                f"it has format {version}, but this version of dlhmc reads {FORMAT}: "
                "go on with the version that wrote it"
            )
        try:
            record = unsealed(found)
        except ValueError as error:
            raise _DamagedError(f"its record is damaged: {error}") from None
        if record.get("run") != self._run:
            raise _DamagedError("it is of another run")
        if not all(isinstance(record.get(name), dict) for name in ("kinds", "digests", "notes")):
            raise _DamagedError("its record is damaged: it does not say what was saved")
        return record, archive

    def _restore_one(self, step: int, like: T) -> tuple[T, Notes]:
        record, archive = self._open(step)
        wanted = by_name(like)
        if other := _differences(record["kinds"], _kinds(wanted)):
            raise _DamagedError(f"leaf {other} is not of this run")
        try:
            arrays = {name: archive.read(name, leaf.size * leaf.dtype.itemsize) for name, leaf in wanted.items()}
        except ValueError as error:
            raise _DamagedError(f"leaf {error}") from None
        if wrong := _differences(record["digests"], {name: digest(array) for name, array in arrays.items()}):
            raise _DamagedError(f"leaf {wrong} is not what was saved")
        leaves = [_placed(arrays[name], leaf) for name, leaf in wanted.items()]
        return jax.tree.unflatten(jax.tree.structure(like), leaves), record["notes"]


class _DamagedError(Exception):
    """A checkpoint that must not be used."""


def _placed(array: NDArray[Any], like: Any) -> Any:
    """On the devices of `like`, each with its part."""
    if not isinstance(like, jax.Array):
        return array
    return jax.make_array_from_callback(array.shape, like.sharding, lambda index: array[index])


def _differences(expected: dict[str, str], found: dict[str, str]) -> str:
    return ", ".join(sorted(n for n in expected.keys() | found.keys() if expected.get(n) != found.get(n)))


def _kinds(leaves: dict[str, Any]) -> dict[str, str]:
    """Dtype and shape of each leaf."""
    return {name: f"{np.dtype(leaf.dtype)}{list(leaf.shape)}" for name, leaf in leaves.items()}
