"""Checkpoints: Orbax writes them atomically, and a SHA-256 of every leaf finds what the disk has changed since."""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint._src.serialization import tensorstore_utils

from dlhmc import processes
from dlhmc.errors import UserError
from dlhmc.files import sealed, unsealed
from dlhmc.leaves import by_name, digest

T = TypeVar("T")
R = TypeVar("R")
#: what a run knows about a step beside its arrays
Notes = dict[str, Any]
#: raises UserError for notes that do not fit what else is on disk
Check = Callable[[int, Notes], None]
#: of the record beside the arrays
FORMAT = 2
_KEPT = 2


class Checkpoints:
    """The checkpoints of a run, the last two of them; `run` tells them from those of others."""

    def __init__(self, path: Path, *, run: str = "", create: bool = True, read_only: bool = False) -> None:
        if not create and not path.is_dir():
            raise UserError(f"There are no checkpoints in {path.parent}: start the run anew in another directory.")
        self._path = path
        self._run = run
        #: what is wrong with checkpoints that an older one had to stand in for
        self.passed_over: list[str] = []
        if read_only:  # a run may be writing here
            options = ocp.CheckpointManagerOptions(read_only=True, save_interval_steps=0, create=False)
        else:
            options = ocp.CheckpointManagerOptions(
                max_to_keep=_KEPT,
                enable_async_checkpointing=False,
                create=create,
                cleanup_tmp_directories=True,  # what a run was writing when it died
            )
        # What goes wrong is raised; threads of Orbax would print it as well, each with a traceback.
        logging.getLogger("absl").addFilter(_nothing)
        self._manager = ocp.CheckpointManager(path.absolute(), options=options)

    def save(self, step: int, tree: Any, notes: Notes) -> None:
        """Save a pytree of arrays with notes (plain JSON) about it."""
        if self._manager.latest_step() == step:
            return
        record = sealed(
            {"format": FORMAT, "run": self._run, "kinds": _kinds(tree), "digests": _digests(tree), "notes": notes}
        )
        arguments = ocp.args.Composite(tree=ocp.args.StandardSave(tree), record=ocp.args.JsonSave(record))
        try:
            with _late_complaints_hushed(), _bytes_not_counted():
                self._manager.save(step, args=arguments)
        except OSError:
            raise
        except Exception as error:  # TensorStore has exceptions of its own for a disk that fails
            code = re.search(r"os_error_code='(\d+)'", str(error))
            why = os.strerror(int(code[1])) if code else _first_line(error)
            raise OSError(f"checkpoint {step}: {why}") from error

    def restore(self, like: T, check: Check | None = None) -> tuple[int, T, Notes]:
        """The newest intact checkpoint, as (step, tree, notes); `like` has the structure, shapes and dtypes."""
        abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, like)

        def read(step: int) -> tuple[T, Notes]:
            tree, notes = self._restore_one(step, abstract)
            if check is not None:
                check(step, notes)
            return tree, notes

        step, (tree, notes), damaged = self._newest(read)
        for other in damaged:
            # Orbax would not save a step again, nor one before its newest.
            self._manager.delete(other)
        return step, tree, notes

    def newest_notes(self, check: Check | None = None) -> tuple[int, Notes]:
        """Step and notes of the newest intact checkpoint, without its arrays."""

        def read(step: int) -> Notes:
            notes: Notes = self._record(step)["notes"]
            if check is not None:
                check(step, notes)
            return notes

        return self._newest(read)[:2]

    def _newest(self, read: Callable[[int], R]) -> tuple[int, R, list[int]]:
        """The newest step that can be read, what was read, and those after it that cannot."""
        steps = sorted(self._manager.all_steps(), reverse=True)
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

    def _record(self, step: int) -> dict[str, Any]:
        try:
            found = self._manager.restore(step, args=ocp.args.Composite(record=ocp.args.JsonRestore())).record
        except Exception as error:  # Orbax raises many kinds for damaged files
            raise _DamagedError(f"its record cannot be read ({_first_line(error)})") from None
        if not isinstance(found, dict):
            raise _DamagedError("its record is damaged: it does not hold a table")
        if type(version := found.get("format", 1)) is int and version != FORMAT:
            raise UserError(
                f"it has format {version}, but this version of dlhmc reads {FORMAT}: "
                "go on with the version that wrote it"
            )
        try:
            record = unsealed(found)
        except ValueError as error:
            raise _DamagedError(f"its record is damaged: {error}") from None
        if record["run"] != self._run:
            raise _DamagedError("it is of another run")
        return record

    def _restore_one(self, step: int, abstract: T) -> tuple[T, Notes]:
        record = self._record(step)
        try:
            other = _differences(record["kinds"], _kinds(abstract))
            if other:
                raise _DamagedError(f"leaf {other} is not of this run")
            arguments = ocp.args.Composite(tree=ocp.args.StandardRestore(abstract))
            with _late_complaints_hushed():
                tree = self._manager.restore(step, args=arguments).tree
            wrong = _differences(record["digests"], _digests(tree))
        except _DamagedError:
            raise
        except Exception as error:  # Orbax and TensorStore raise many kinds for damaged files
            raise _DamagedError(f"cannot be read ({_first_line(error)})") from None
        if wrong:
            raise _DamagedError(f"leaf {wrong} is not what was saved")
        return tree, record["notes"]

    def close(self) -> None:
        """Wait for what is being written."""
        self._manager.close()


class _DamagedError(Exception):
    """A checkpoint that must not be used."""


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


@contextmanager
def _bytes_not_counted() -> Iterator[None]:
    """Orbax asks TensorStore for all its counters, twice a save, only to log them, and each answer leaks memory.

    Without, 600 saves cost a run 5 kB of memory each, where they had cost more than 40 (TensorStore 0.1.86).
    """
    counted = getattr(tensorstore_utils, _COUNTER, None)
    setattr(tensorstore_utils, _COUNTER, lambda *_: 0)
    try:
        yield
    finally:
        if counted is not None:
            setattr(tensorstore_utils, _COUNTER, counted)


_COUNTER = "get_tensorstore_raw_bytes"


@contextmanager
def _late_complaints_hushed() -> Iterator[None]:
    """Threads go on failing after Orbax has given up on a damaged file or a full disk: without a traceback each."""
    unraisable, uncaught = sys.unraisablehook, sys.excepthook

    def hush_unraisable(event: "sys.UnraisableHookArgs") -> None:
        if not str(event.exc_value).startswith(_LATE):
            unraisable(event)

    def hush_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not str(error).startswith(_LATE):
            uncaught(kind, error, trace)

    sys.unraisablehook, sys.excepthook = hush_unraisable, hush_uncaught
    yield
    sys.unraisablehook, sys.excepthook = unraisable, uncaught  # only if all went well: there may be more to come


_LATE = ("Event loop is closed", "Encountered error while reading array index")


def _nothing(_: logging.LogRecord) -> bool:
    return False


def _differences(expected: dict[str, str], found: dict[str, str]) -> str:
    return ", ".join(sorted(n for n in expected.keys() | found.keys() if expected.get(n) != found.get(n)))


def _kinds(tree: Any) -> dict[str, str]:
    """Dtype and shape of each leaf."""
    return {name: f"{leaf.dtype}{list(leaf.shape)}" for name, leaf in by_name(tree).items()}


def _digests(tree: Any) -> dict[str, str]:
    return {name: digest(processes.whole(leaf)) for name, leaf in by_name(tree).items()}
