"""How a run from Python is done: what is shown, and where it writes."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import jax.numpy as jnp
from rich.console import Console

from dlhmc.errors import UserError
from dlhmc.names import Start
from dlhmc.runs.loop import Conditions
from dlhmc.runs.progress import Callback
from dlhmc.targets import Target

#: True for a live line, a bar in a notebook; False for nothing; a function gets (done, total, figures in words)
Progress: TypeAlias = bool | Callback


def start_of(target: Target, start: Start | None) -> Start:
    """The first configurations: exact draws where the target has them, unless others are asked for."""
    return start or ("hot" if target.exact_draws() is None else "exact")


def is_double() -> bool:
    """Whether JAX computes in double precision."""
    return bool(jnp.result_type(float) == jnp.float64)


def shown(progress: Progress, devices: int | None, time_limit: float | None) -> tuple[Conditions, Console]:
    """How it is done, and what is shown of it."""
    callback = None if isinstance(progress, bool) else progress
    return Conditions(devices, time_limit=time_limit, quiet=progress is False, progress=callback), Console()


@contextmanager
def run_directory(out: str | Path | None, *, resume: bool) -> Iterator[Path]:
    """Where a run writes; a temporary place if nobody says where."""
    if out is not None:
        yield Path(out)
        return
    if resume:
        raise UserError("resume goes on with the run in a directory: give out.")
    with tempfile.TemporaryDirectory(prefix="dlhmc-") as temporary:
        yield Path(temporary) / "run"
