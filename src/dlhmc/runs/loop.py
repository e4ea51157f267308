"""The host loop that every run shares: chunk after chunk, with progress, metrics, checkpoints and signals between."""

import shlex
import time
from abc import ABC, abstractmethod
from contextlib import closing, nullcontext
from typing import Any, NamedTuple

from rich.console import Console

from dlhmc.errors import ExitCode, UserError
from dlhmc.runs import metrics
from dlhmc.runs.checkpoint import Checkpoints
from dlhmc.runs.directory import RunDirectory
from dlhmc.runs.interruption import Interruption, watch_signals
from dlhmc.runs.progress import Display
from dlhmc.runs.tensorboard import event_file

_SECONDS_PER_CHUNK = 1.0
# A chunk ends with a checkpoint unless saving would take more than this part of the time.
_TIME_FOR_CHECKPOINTS = 0.05
_FIRST_CHUNK = 8


class Work(ABC):
    """A run as the loop sees it: `total` steps, of which up to `capacity` can be done at a time."""

    title: str
    unit: str
    total: int
    capacity: int
    #: whether the metrics go to TensorBoard, too
    tensorboard: bool = False

    @abstractmethod
    def create(self) -> None:
        """Make the files of a new run."""

    @abstractmethod
    def resume(self, checkpoints: Checkpoints) -> tuple[int, dict[str, Any]]:
        """Take up the newest intact checkpoint and return its step and notes."""

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
    shown = Console(quiet=True) if quiet else console
    with watch_signals(conditions.time_limit) as interruption:
        step = 0
        if resuming and not directory.never_began():
            checkpoints = Checkpoints(directory.checkpoints, run=directory.identity(), create=False)
            step, notes = work.resume(checkpoints)
            metrics.cut(directory.metrics, notes)
            for problem in checkpoints.passed_over:
                text = f"damaged, so an earlier checkpoint is used (step {step}): {problem}"
                console.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
        else:
            directory.clear()
            work.create()
            checkpoints = Checkpoints(directory.checkpoints, run=directory.identity())
            checkpoints.save(0, *work.checkpoint())
        display = Display(console, work.title, work.total, quiet=quiet)
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
    board = event_file(directory.tensorboard, step) if work.tensorboard else nullcontext()
    with closing(metrics.MetricsFile(directory.metrics)) as lines, board as events:

        def save() -> float:
            """Save, and say when it is worth saving again."""
            started = time.monotonic()
            tree, notes = work.checkpoint()
            checkpoints.save(step, tree, notes | lines.seal())
            ended = time.monotonic()
            return ended + (ended - started) / _TIME_FOR_CHECKPOINTS

        due = time.monotonic() + _SECONDS_PER_CHUNK
        while step < work.total and not interruption and work.verdict() is None:
            count = min(length, work.next_stop(step) - step)
            started = time.perf_counter()
            work.advance(step, count)
            directory.require_still_there()
            rate = count / (time.perf_counter() - started)
            step += count
            figures = {"steps_per_second": rate} | work.metrics()
            lines.append({"step": step} | figures)
            if events is not None:
                events.add(step, figures)
            display.update(step, f"{work.facts()}  {float(f'{rate:.3g}'):g}/s")
            if chunk is None:
                length = max(1, min(work.capacity, round(rate * _SECONDS_PER_CHUNK)))
            if time.monotonic() > due:
                due = save()
        save()
    return step
