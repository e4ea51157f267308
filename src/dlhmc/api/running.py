"""How a run from Python is done: what is shown, where it writes, and what Ctrl-C does."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import jax.numpy as jnp
from rich.console import Console

from dlhmc.errors import ExitCode, UserError
from dlhmc.run.directory import Place
from dlhmc.run.driver import ExecutionOptions
from dlhmc.run.progress import Callback

#: True for a live line; False for nothing; a function gets (done, total, figures in words)
Progress: TypeAlias = bool | Callback


class Interrupted(KeyboardInterrupt):
    """Ctrl-C: everything is saved, and `result` is what the run had reached; None if that was nothing."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result


def is_double() -> bool:
    """Whether JAX computes in double precision."""
    return bool(jnp.result_type(float) == jnp.float64)


def shown(progress: Progress, devices: int | None, time_limit: float | None) -> tuple[ExecutionOptions, Console]:
    """How it is done, and what is shown of it."""
    callback = None if isinstance(progress, bool) else progress
    return ExecutionOptions(
        devices, time_limit=time_limit, quiet=progress is False, progress=callback, results=False
    ), Console()


def place_for(out: str | Path | None, settings: Mapping[str, Any], *, resume: bool) -> Place | None:
    """Where a run writes, if it does."""
    if out is not None:
        return Place(Path(out), settings, resume)
    if resume:
        raise UserError("resume goes on with the run in a directory: give out.")
    return None


def conclude(result: Any, code: ExitCode, done: str, out: str | Path | None) -> Any:
    """The result of a run that came to its end or its time limit; after Ctrl-C, an interruption that holds it."""
    again = "" if out is None else f"; go on with resume=True and out={str(out)!r}"
    message = f"stopped after {done}{again}"
    if code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED):
        raise Interrupted(message, result)
    if code == ExitCode.TIME_OVER:
        warnings.warn(message, stacklevel=3)
    return result
