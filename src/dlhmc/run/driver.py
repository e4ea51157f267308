"""The loop that every run shares: chunk after chunk of a compiled program, with sinks and signals between."""

import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from dlhmc.errors import ExitCode, UserError
from dlhmc.run import metrics, processes
from dlhmc.run.checkpoint import Checkpoints
from dlhmc.run.directory import RunDirectory
from dlhmc.run.interruption import Interruption, watch_signals
from dlhmc.run.progress import Callback, Display
from dlhmc.run.sink import Saved, Sink

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

    @abstractmethod
    def create(self, directory: RunDirectory | None) -> None:
        """Make what a new run records to: files, if it has a directory."""

    @abstractmethod
    def resume(self, directory: RunDirectory, checkpoints: Checkpoints) -> int:
        """Take up the newest intact checkpoint and return its step."""

    @abstractmethod
    def compile(self) -> None:
        """Compile before the clock starts."""

    @abstractmethod
    def advance(self, step: int, count: int) -> None:
        """Do `count` steps from `step` on, and record what they give."""

    @abstractmethod
    def figures(self) -> dict[str, float]:
        """Figures of the run so far."""

    @abstractmethod
    def words(self) -> str:
        """The same for people."""

    @abstractmethod
    def state(self) -> Saved:
        """All that is needed to go on."""

    @abstractmethod
    def finish(self, directory: RunDirectory | None, console: Console) -> ExitCode:
        """Write and show the results of a finished run; the code says whether they can be trusted."""

    def sinks(self, directory: RunDirectory, step: int) -> Sequence[Sink]:
        """Sinks beside checkpoints and metrics, for a run that goes on after `step`."""
        return ()

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

    @property
    def shows(self) -> bool:
        """Whether anybody looks at the progress."""
        return processes.is_first() and (not self.quiet or self.progress is not None)


PLAIN = ExecutionOptions()


def execute(
    work: Work,
    directory: RunDirectory | None,
    console: Console,
    options: ExecutionOptions = PLAIN,
    *,
    resuming: bool = False,
    chunk: int | None = None,
) -> ExitCode:
    """Run to the end or to an interruption; either way everything is recorded afterwards."""
    shown = Console(quiet=True) if options.quiet or not processes.is_first() else console
    with watch_signals(options.time_limit) as interruption, ExitStack() as stack:
        step, sinks = 0, list[Sink]()
        if directory is None:
            work.create(None)
        else:
            step, sinks = _open(work, directory, shown, resuming=resuming)
            for sink in sinks:
                stack.callback(sink.close)
        if options.shows:
            display = Display(console, work.title, work.total, callback=options.progress)
            stack.enter_context(display.running(step))
            sinks.append(display)
        if step < work.total and (processes.several() or not interruption):
            work.compile()
        step, code = drive(work, step, sinks, interruption, chunk=chunk)
    if (reason := work.verdict()) is not None:
        raise reason
    if step < work.total:
        again = "" if directory is None else f"; go on with\n  dlhmc resume {shlex.quote(str(directory.path))}"
        saved = "" if directory is None else ", all saved"
        shown.out(f"stopped after {step} of {work.total} {work.unit}{saved}{again}", highlight=False)
        return code
    processes.barrier("finished")  # all histories are written
    return work.finish(directory, shown) if processes.is_first() else ExitCode.OK


def _open(work: Work, directory: RunDirectory, console: Console, *, resuming: bool) -> tuple[int, list[Sink]]:
    """The step from which a run goes on, and its files."""
    first = processes.is_first()
    if resuming and not directory.never_began():
        _require_checkpoints(directory.checkpoints)
        checkpoints = Checkpoints(directory.checkpoints)
        step = work.resume(directory, checkpoints)
        if first:
            metrics.cut(directory.metrics, step)
        for problem in checkpoints.passed_over:
            text = f"damaged, so an earlier checkpoint is used (step {step}): {problem}"
            console.out(text, style="red", highlight=False)
    else:
        if first:
            directory.clear()
        work.create(directory)
        step, checkpoints = 0, Checkpoints(directory.checkpoints)
        checkpoints.save(0, work.state())
    files: list[Sink] = [metrics.MetricsFile(directory.metrics), *work.sinks(directory, step)] if first else []
    return step, [_StillThere(directory), checkpoints, *files]


def _require_checkpoints(path: Path) -> None:
    """Before anything is written there."""
    Checkpoints(path, read_only=True)


class _StillThere(Sink):
    """Refuses to go on without the directory."""

    saves = True

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory

    def report(self, step: int, figures: Any, words: str) -> None:
        """Before anything is written."""
        self._directory.require_still_there()

    def save(self, step: int, state: Saved) -> None:
        """Before anything is saved."""
        self._directory.require_still_there()


def adapted(length: int, wanted: float) -> int:
    """The length of the next chunk, which stays as it is while it is about right."""
    return length if 1 / _CHANGE_OF_LENGTH < wanted / length < _CHANGE_OF_LENGTH else max(1, round(wanted))


def decide_together(code: ExitCode, length: int, *, save: bool) -> tuple[ExitCode, int, bool]:
    """What happens next, the same in all processes: each has its own clock and gets its own signals.

    Any of them may end the run; the rest is decided by the first.
    """
    rows = processes.gathered((code, length, save))
    stop = next((ExitCode(row[0]) for row in rows if row[0] != ExitCode.OK), ExitCode.OK)
    return stop, rows[0][1], bool(rows[0][2])


def drive(
    work: Work, step: int, sinks: Sequence[Sink], interruption: Interruption, *, chunk: int | None = None
) -> tuple[int, ExitCode]:
    """Run from `step` until done or interrupted, save, and return the step reached and why it ended."""
    length = min(work.capacity, chunk or _FIRST_CHUNK)
    code = ExitCode.OK
    keepers = [sink for sink in sinks if sink.saves]

    def save() -> float:
        """Save, and say when it is worth saving again."""
        started = time.monotonic()
        if keepers:
            state = work.state()
            for sink in keepers:
                sink.save(step, state)
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
        rate = count / (time.perf_counter() - started)
        step += count
        work.inspect(step)
        if sinks:
            figures = {"steps_per_second": rate} | work.figures()
            words = f"{work.words()}  {float(f'{rate:.3g}'):g}/s"
            for sink in sinks:
                sink.report(step, figures, words)
        if chunk is None:
            length = adapted(length, min(work.capacity, rate * _SECONDS_PER_CHUNK))
    save()
    return step, code
