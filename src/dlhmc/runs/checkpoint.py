"""Checkpoints: Orbax writes them atomically, and a SHA-256 of every leaf finds what the disk has changed since."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import jax
import orbax.checkpoint as ocp

from dlhmc import processes
from dlhmc.errors import UserError
from dlhmc.leaves import by_name, digest

T = TypeVar("T")
_KEPT = 2


class Checkpoints:
    """The checkpoints of a run, the last two of them."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        if not create and not path.is_dir():
            raise UserError(f"There are no checkpoints in {path.parent}: start the run anew in another directory.")
        self._path = path
        options = ocp.CheckpointManagerOptions(max_to_keep=_KEPT, enable_async_checkpointing=False, create=create)
        self._manager = ocp.CheckpointManager(path.absolute(), options=options)

    def save(self, step: int, tree: Any, notes: dict[str, Any]) -> None:
        """Save a pytree of arrays with notes (plain JSON) about it."""
        if self._manager.latest_step() == step:
            return
        record = {"kinds": _kinds(tree), "digests": _digests(tree), "notes": notes}
        self._manager.save(
            step, args=ocp.args.Composite(tree=ocp.args.StandardSave(tree), record=ocp.args.JsonSave(record))
        )

    def restore(self, like: T) -> tuple[int, T, dict[str, Any]]:
        """The newest intact checkpoint, as (step, tree, notes); `like` has the structure, shapes and dtypes."""
        steps = sorted(self._manager.all_steps(), reverse=True)
        if not steps:
            raise UserError(f"There is no checkpoint in {self._path}: start the run anew in another directory.")
        abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, like)
        problems: dict[int, str] = {}
        for step in steps:
            try:
                tree, notes = self._restore_one(step, abstract)
            except _DamagedError as problem:
                problems[step] = f"checkpoint {step}: {problem}"
                continue
            for damaged in problems:
                # Orbax would not save a step again, nor one before its newest.
                self._manager.delete(damaged)
            return step, tree, notes
        raise UserError(
            f"No checkpoint in {self._path} is intact ({'; '.join(problems.values())}): start the run anew."
        )

    def newest_notes(self) -> tuple[int, dict[str, Any]]:
        """Step and notes of the newest checkpoint, without its arrays."""
        step = self._manager.latest_step()
        if step is None:
            raise UserError(f"There is no checkpoint in {self._path}: start the run anew in another directory.")
        try:
            record = self._manager.restore(step, args=ocp.args.Composite(record=ocp.args.JsonRestore())).record
            return step, record["notes"]
        except Exception as error:
            raise UserError(f"Checkpoint {step} in {self._path} is damaged: {_first_line(error)}.") from None

    def _restore_one(self, step: int, abstract: T) -> tuple[T, dict[str, Any]]:
        try:
            record = self._manager.restore(step, args=ocp.args.Composite(record=ocp.args.JsonRestore())).record
            kinds, digests, notes = record["kinds"], record["digests"], record["notes"]
            other = _differences(kinds, _kinds(abstract))
            if other:
                raise _DamagedError(f"leaf {other} is not of this run")
            arguments = ocp.args.Composite(tree=ocp.args.StandardRestore(abstract))
            with _late_reads_hushed():
                tree = self._manager.restore(step, args=arguments).tree
        except _DamagedError:
            raise
        except Exception as error:  # Orbax and TensorStore raise many kinds for damaged files
            raise _DamagedError(f"cannot be read ({_first_line(error)})") from None
        wrong = _differences(digests, _digests(tree))
        if wrong:
            raise _DamagedError(f"leaf {wrong} is not what was saved")
        return tree, notes

    def close(self) -> None:
        """Wait for what is being written."""
        self._manager.close()


class _DamagedError(Exception):
    """A checkpoint that must not be used."""


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


@contextmanager
def _late_reads_hushed() -> Iterator[None]:
    """Reads of a damaged checkpoint go on failing after Orbax has given up: let them, without a traceback each."""
    report = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if str(unraisable.exc_value) != "Event loop is closed":
            report(unraisable)

    sys.unraisablehook = hook
    yield
    sys.unraisablehook = report  # only if all went well: after an error, there may be more to come


def _differences(expected: dict[str, str], found: dict[str, str]) -> str:
    return ", ".join(sorted(n for n in expected.keys() | found.keys() if expected.get(n) != found.get(n)))


def _kinds(tree: Any) -> dict[str, str]:
    """Dtype and shape of each leaf."""
    return {name: f"{leaf.dtype}{list(leaf.shape)}" for name, leaf in by_name(tree).items()}


def _digests(tree: Any) -> dict[str, str]:
    return {name: digest(processes.whole(leaf)) for name, leaf in by_name(tree).items()}
