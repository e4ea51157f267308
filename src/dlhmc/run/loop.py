"""The host loop that every run shares: chunk after chunk, with progress, metrics, checkpoints and signals between."""

import shlex
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

from rich.console import Console

from dlhmc.errors import ExitCode, UserError
from dlhmc.run import metrics, processes
from dlhmc.run.checkpoint import Checkpoints
from dlhmc.run.directory import RunDirectory
from dlhmc.run.interruption import Interruption, watch_signals
from dlhmc.run.loggers import Logger, open_loggers
from dlhmc.run.memory import give_back_what_is_free
from dlhmc.run.progress import Callback, Display

_SECONDS_PER_CHUNK = 1.0
# A chunk ends with a checkpoint, unless its length was not asked for and saving would take more of the time than this.
_TIME_FOR_CHECKPOINTS = 0.05
_FIRST_CHUNK = 8
_CHANGE_OF_LENGTH = 2.0


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
    def resume(self, checkpoints: Checkpoints) -> tuple[int, dict[str, Any]]:
        """Take up the newest intact checkpoint and return its step and notes."""

    @abstractmethod
    def compile(self) -> None:
        """Compile before the clock starts."""

    @abstractmethod
    def finish(self, console: Console) -> ExitCode:
        """Write and show the results of a finished run; the code says whether they can be trusted."""

    @abstractmethod
    def advance(self, step: int, count: int) -> None:
        """Do `count` steps from `step` on, and store what they give."""

    @abstractmethod
    def metrics(self) -> dict[str, float]:
        """Figures of the run so far, for metrics.jsonl."""

    @abstractmethod
    def status_line(self) -> str:
        """The same for people."""

    @abstractmethod
    def checkpoint(self) -> tuple[Any, dict[str, Any]]:
        """All that is needed to go on: a pytree of arrays, and notes about it."""

    def next_stop(self, step: int) -> int:
        """The next step that must end a chunk."""
        return self.total

    def inspect(self, step: int) -> None:
        """Look after the run, between two chunks; what is found is for the verdict."""
        return

    def verdict(self) -> UserError | None:
        """Why the run cannot go on; None while it can."""
        return None


class ExecutionOptions(NamedTuple):
    """How a run is done; none of it changes its numbers."""

    #: devices of each process that share the chains; one if not given, or all if there are several processes
    devices: int | None = None
    #: devices that share one lattice
    split_lattice: int = 1
    #: seconds after which the run stops by itself, with everything saved
    time_limit: float | None = None
    #: print nothing but errors
    quiet: bool = False
    #: seconds between two checks of the rounding errors of a sampling run
    check_every: float = 600.0
    #: called with steps done, all steps and figures for people, in place of anything that is shown
    progress: Callback | None = None


PLAIN = ExecutionOptions()


def execute(
    work: Work,
    directory: RunDirectory,
    console: Console,
    options: ExecutionOptions,
    *,
    resuming: bool,
    chunk: int | None,
) -> ExitCode:
    """Run to the end or to an interruption; either way everything is on disk afterwards."""
    first = processes.is_first()
    quiet = options.quiet or not first
    shown = Console(quiet=True) if quiet or work.silent else console
    with watch_signals(options.time_limit) as interruption:
        step = 0
        if resuming and not directory.never_began():
            checkpoints = Checkpoints(directory.checkpoints, run=directory.identity(), create=False)
            step, notes = work.resume(checkpoints)
            if first:
                metrics.cut(directory.metrics, notes)
            for problem in checkpoints.passed_over if first else ():
                text = f"damaged, so an earlier checkpoint is used (step {step}): {problem}"
                console.out(text, style="red", highlight=False)
        else:
            if first:
                directory.clear()
            work.create()
            checkpoints = Checkpoints(directory.checkpoints, run=directory.identity())
            checkpoints.save(0, *work.checkpoint())
        display = Display(console, work.title, work.total, quiet=quiet, callback=options.progress)
        with display.running(step):
            if step < work.total and (processes.several() or not interruption):
                work.compile()
            step, code = drive(work, step, directory, checkpoints, display, interruption, chunk=chunk)
    if (reason := work.verdict()) is not None:
        raise reason
    if step < work.total:
        again = f"  dlhmc resume {shlex.quote(str(directory.path))}"
        for line in (f"stopped after {step} of {work.total} {work.unit}, all saved; go on with", again):
            shown.out(line, highlight=False)
        return code
    processes.barrier("finished")  # all histories are written
    return work.finish(shown) if first else ExitCode.OK


def adapted(length: int, wanted: float) -> int:
    """The length of the next chunk.

    It stays as it is while it is about right: memory that is taken in a new size for every chunk falls to pieces.
    """
    return length if 1 / _CHANGE_OF_LENGTH < wanted / length < _CHANGE_OF_LENGTH else max(1, round(wanted))


def decide_together(code: ExitCode, length: int, *, save: bool) -> tuple[ExitCode, int, bool]:
    """What happens next, the same in all processes: each has its own clock and gets its own signals.

    Any of them may end the run; the rest is decided by the first.
    """
    rows = processes.gathered((code, length, save))
    stop = next((ExitCode(row[0]) for row in rows if row[0] != ExitCode.OK), ExitCode.OK)
    return stop, rows[0][1], bool(rows[0][2])


def drive(
    work: Work,
    step: int,
    directory: RunDirectory,
    checkpoints: Checkpoints,
    display: Display,
    interruption: Interruption,
    *,
    chunk: int | None,
) -> tuple[int, ExitCode]:
    """Run from `step` until done or interrupted, save, and return the step reached and why it ended."""
    length = min(work.capacity, chunk or _FIRST_CHUNK)
    code = ExitCode.OK
    with ExitStack() as files:
        lines, loggers = None, list[Logger]()
        if processes.is_first():
            lines = files.enter_context(closing(metrics.MetricsFile(directory.metrics)))
            loggers = files.enter_context(open_loggers(directory, step, tensorboard=work.tensorboard, wandb=work.wandb))

        def save() -> float:
            """Save, and say when it is worth saving again."""
            started = time.monotonic()
            tree, notes = work.checkpoint()
            checkpoints.save(step, tree, notes if lines is None else notes | lines.seal())
            give_back_what_is_free()
            ended = time.monotonic()
            return ended + (ended - started) / _TIME_FOR_CHECKPOINTS

        due = time.monotonic() + _SECONDS_PER_CHUNK
        while step < work.total and work.verdict() is None:
            is_due = chunk is not None or time.monotonic() > due
            code, length, is_due = decide_together(interruption.exit_code, length, save=is_due)
            if is_due:
                due = save()
            if code != ExitCode.OK:
                break
            count = min(length, work.next_stop(step) - step)
            started = time.perf_counter()
            work.advance(step, count)
            directory.require_still_there()
            rate = count / (time.perf_counter() - started)
            step += count
            work.inspect(step)
            figures = {"steps_per_second": rate} | work.metrics()
            if lines is not None:
                lines.append({"step": step} | figures)
            for logger in loggers:
                logger(step, figures)
            display.update(step, f"{work.status_line()}  {float(f'{rate:.3g}'):g}/s")
            if chunk is None:
                length = adapted(length, min(work.capacity, rate * _SECONDS_PER_CHUNK))
        save()
    return step, code
