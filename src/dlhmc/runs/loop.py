"""The host loop that every run shares: chunk after chunk, with progress, metrics, checkpoints and signals between."""

import json
import os
import shlex
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from dlhmc.errors import ExitCode, UserError
from dlhmc.runs.boards import open_boards
from dlhmc.runs.checkpoint import Checkpoints
from dlhmc.runs.directory import RunDirectory
from dlhmc.runs.interruption import Interruption, watch_signals
from dlhmc.runs.progress import Callback, Display

_SECONDS_PER_CHUNK = 1.0
_SECONDS_BETWEEN_CHECKPOINTS = 10.0
_FIRST_CHUNK = 8


class Work(ABC):
    """A run as the loop sees it: `total` steps, of which up to `capacity` can be done at a time."""

    title: str
    unit: str
    total: int
    capacity: int
    #: whether the metrics go to TensorBoard or Weights & Biases, too
    tensorboard: bool = False
    wandb: bool = False
    #: whether results are shown by someone else
    silent: bool = False

    @abstractmethod
    def create(self) -> None:
        """Make the files of a new run."""

    @abstractmethod
    def resume(self, checkpoints: Checkpoints) -> int:
        """Take up the newest intact checkpoint and return its step."""

    @abstractmethod
    def compile(self) -> None:
        """Compile before the clock starts."""

    @abstractmethod
    def finish(self, console: Console) -> None:
        """Write and show the results of a finished run."""

    @abstractmethod
    def advance(self, step: int, count: int) -> None:
        """Do `count` steps from `step` on, and store what they give."""

    @abstractmethod
    def metrics(self) -> dict[str, float]:
        """Figures of the run so far, for metrics.jsonl."""

    @abstractmethod
    def facts(self) -> str:
        """The same for people."""

    @abstractmethod
    def checkpoint(self) -> tuple[Any, dict[str, Any]]:
        """All that is needed to go on: a pytree of arrays, and notes about it."""

    def next_stop(self, step: int) -> int:
        """The next step that must end a chunk."""
        return self.total

    def verdict(self) -> str | None:
        """Why the run cannot go on, in one sentence; None while it can."""
        return None


class Conditions(NamedTuple):
    """How a run is done; none of it changes its numbers."""

    #: devices that share the chains; one if not given
    devices: int | None = None
    #: seconds after which the run stops by itself, with everything saved
    time_limit: float | None = None
    #: print nothing but errors
    quiet: bool = False
    #: called with steps done, all steps and figures for people, in place of anything that is shown
    progress: Callback | None = None


PLAIN = Conditions()


def execute(
    work: Work,
    directory: RunDirectory,
    console: Console,
    conditions: Conditions,
    *,
    resuming: bool,
    chunk: int | None,
) -> ExitCode:
    """Run to the end or to an interruption; either way everything is on disk afterwards."""
    quiet = conditions.quiet
    shown = Console(quiet=True) if quiet or work.silent else console
    with watch_signals(conditions.time_limit) as interruption:
        checkpoints = Checkpoints(directory.checkpoints, create=not resuming)
        step = work.resume(checkpoints) if resuming else 0
        if resuming:
            forget_metrics_after(directory.metrics, step)
        else:
            work.create()
            checkpoints.save(0, *work.checkpoint())
        display = Display(console, work.title, work.total, quiet=quiet, callback=conditions.progress)
        with display.running(step):
            if step < work.total and not interruption:
                work.compile()
            step = drive(work, step, directory, checkpoints, display, interruption, chunk=chunk)
        checkpoints.close()
    if (reason := work.verdict()) is not None:
        raise UserError(reason)
    if step < work.total:
        again = f"  dlhmc resume {shlex.quote(str(directory.path))}"
        for line in (f"stopped after {step} of {work.total} {work.unit}, all saved; go on with", again):
            shown.print(line, markup=False, highlight=False, soft_wrap=True)
        return interruption.exit_code
    work.finish(shown)
    return ExitCode.OK


def drive(
    work: Work,
    step: int,
    directory: RunDirectory,
    checkpoints: Checkpoints,
    display: Display,
    interruption: Interruption,
    *,
    chunk: int | None,
) -> int:
    """Run from `step` until done or interrupted, save, and return the step reached."""
    length = min(work.capacity, chunk or _FIRST_CHUNK)
    saved = time.monotonic()
    boards = open_boards(directory, step, tensorboard=work.tensorboard, wandb=work.wandb)
    with directory.metrics.open("a", encoding="utf-8") as metrics, boards as open_ones:
        while step < work.total and not interruption and work.verdict() is None:
            count = min(length, work.next_stop(step) - step)
            started = time.perf_counter()
            work.advance(step, count)
            rate = count / (time.perf_counter() - started)
            step += count
            figures = {"steps_per_second": rate} | work.metrics()
            metrics.write(json.dumps({"step": step} | figures) + "\n")
            metrics.flush()
            for board in open_ones:
                board.add(step, figures)
            display.update(step, f"{work.facts()}  {float(f'{rate:.3g}'):g}/s")
            if chunk is None:
                length = max(1, min(work.capacity, round(rate * _SECONDS_PER_CHUNK)))
            if time.monotonic() - saved > _SECONDS_BETWEEN_CHECKPOINTS:
                checkpoints.save(step, *work.checkpoint())
                saved = time.monotonic()
    checkpoints.save(step, *work.checkpoint())
    return step


def forget_metrics_after(path: Path, step: int) -> None:
    """Drop what a run wrote to metrics.jsonl after the checkpoint that it resumes from."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
        except (ValueError, KeyError, TypeError):
            continue  # the line that was being written when the run died
    temporary = path.with_suffix(".tmp")
    temporary.write_text("".join(kept), encoding="utf-8")
    os.replace(temporary, path)
