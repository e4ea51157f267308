"""The loop that every run shares: chunk after chunk of a compiled program, with sinks and signals between."""

import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import jax
from jaxtyping import Array
from rich.console import Console

from dlhmc.errors import ExitCode, UserError
from dlhmc.run import metrics, processes
from dlhmc.run.checkpoint import Checkpoints
from dlhmc.run.devices import Devices
from dlhmc.run.directory import Place, RunDirectory, run_directory
from dlhmc.run.interruption import Interruption, watch_signals
from dlhmc.run.progress import Callback, Display
from dlhmc.run.sink import Saved, Sink

_SECONDS_PER_CHUNK = 1.0
# A chunk ends with a checkpoint, unless its length was not asked for and saving would take more of the time than this.
_TIME_FOR_CHECKPOINTS = 0.05
# The first chunk is short, and none is more than twice as long as the one before: curves have points early on.
_FIRST_CHUNK = 2


class Run(ABC):
    """A run as the loop sees it: `total` steps of a compiled program, up to `capacity` of them at a time."""

    #: what its directory says that it is
    kind: str
    title: str
    unit: str
    total: int
    capacity: int
    devices: Devices
    #: what the program takes from chunk to chunk
    carry: Any
    #: of what must be the same when it goes on
    checksum: int = 0
    directory: RunDirectory | None = None

    @abstractmethod
    def program(self, step: int, count: int) -> tuple[Any, dict[str, Array]]:
        """`count` steps from `step` on: what is carried on, and the records of each step."""

    @abstractmethod
    def record(self, step: int, count: int, records: dict[str, Array], seconds: float) -> None:
        """Take the records of the steps from `step` on, which took so long."""

    @abstractmethod
    def state(self) -> Saved:
        """All that is needed to go on."""

    @abstractmethod
    def restore(self, checkpoints: Checkpoints) -> int:
        """Take up the state of the newest intact checkpoint, and return its step."""

    @abstractmethod
    def figures(self) -> dict[str, float]:
        """Figures of the run so far."""

    @abstractmethod
    def words(self) -> str:
        """The same for people."""

    @abstractmethod
    def finish(self) -> ExitCode:
        """Write the results of a finished run; the code says whether they can be trusted."""

    @abstractmethod
    def show(self, console: Console) -> None:
        """Show the results."""

    def create(self) -> None:
        """Make what a new run records to."""
        return

    def sinks(self, step: int) -> Sequence[Sink]:
        """Sinks beside checkpoints and metrics, for a run in a directory that goes on after `step`."""
        return ()

    def next_stop(self, step: int) -> int:
        """The next step that must end a chunk."""
        return self.total

    def inspect(self, step: int) -> None:
        """Look after the run, between two chunks."""
        return

    def verdict(self) -> UserError | None:
        """Why the run cannot go on; None while it can."""
        return None

    def run(self, step: int, count: int) -> dict[str, Array]:
        """Run the program. A chunk of nothing compiles it, unless an earlier run has."""
        with self.devices.active():
            self.carry, records = jax.block_until_ready(self.program(step, count))
        return records

    def advance(self, step: int, count: int) -> None:
        """Do `count` steps from `step` on, and record what they give."""
        started = time.perf_counter()
        records = self.run(step, count)
        seconds = time.perf_counter() - started
        if self.directory is not None:
            self.directory.require_still_there()
        self.record(step, count, records, seconds)


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
    #: whether results are shown at the end
    results: bool = True


PLAIN = ExecutionOptions()


def execute(
    run: Run, place: Place | None, console: Console, options: ExecutionOptions = PLAIN, *, chunk: int | None = None
) -> ExitCode:
    """Run to the end or to an interruption; either way everything is recorded afterwards."""
    first = processes.is_first()
    screen = Console(quiet=True) if options.quiet or not first else console
    with ExitStack() as outer:
        if place is not None:
            run.directory = outer.enter_context(run_directory(run.kind, place, run.checksum))
        with watch_signals(options.time_limit) as interruption, ExitStack() as inner:
            step, checkpoints, sinks = _open(run, screen, resuming=place is not None and place.resuming)
            for sink in sinks:
                inner.callback(sink.close)
            if first and (options.progress is not None or not options.quiet):
                display = Display(console, run.title, run.total, callback=options.progress)
                sinks.append(inner.enter_context(display.running(step)))
            if step < run.total and (processes.several() or not interruption):
                run.run(0, 0)
            step, code = drive(run, step, checkpoints, sinks, interruption, chunk=chunk)
        if (reason := run.verdict()) is not None:
            raise reason
        if step < run.total:
            path = None if run.directory is None else shlex.quote(str(run.directory.path))
            again = "" if path is None else f", all saved; go on with\n  dlhmc resume {path}"
            screen.out(f"stopped after {step} of {run.total} {run.unit}{again}", highlight=False)
            return code
        processes.barrier("finished")  # all histories are written
        if first:
            code = run.finish()
            if options.results:
                run.show(screen)
        return code


def _open(run: Run, console: Console, *, resuming: bool) -> tuple[int, Checkpoints | None, list[Sink]]:
    """The step from which a run goes on, and its files."""
    directory, first = run.directory, processes.is_first()
    if directory is None:
        run.create()
        return 0, None, []
    step = 0
    if resuming and not directory.never_began():
        Checkpoints(directory.checkpoints, read_only=True)  # refuses before anything is written
        checkpoints = Checkpoints(directory.checkpoints)
        step = run.restore(checkpoints)
        if first:
            metrics.cut(directory.metrics, step)
        for problem in checkpoints.passed_over:
            text = f"damaged, so an earlier checkpoint is used (step {step}): {problem}"
            console.out(text, style="red", highlight=False)
    else:
        if first:
            directory.clear()
        run.create()
        checkpoints = Checkpoints(directory.checkpoints)
        checkpoints.save(0, run.state())
    return step, checkpoints, [metrics.MetricsFile(directory.metrics), *run.sinks(step)] if first else []


def decide_together(code: ExitCode, length: int, *, save: bool) -> tuple[ExitCode, int, bool]:
    """What happens next, the same in all processes: each has its own clock and gets its own signals.

    Any of them may end the run; the rest is decided by the first.
    """
    rows = processes.gathered((code, length, save))
    stop = next((ExitCode(row[0]) for row in rows if row[0] != ExitCode.OK), ExitCode.OK)
    return stop, rows[0][1], bool(rows[0][2])


def drive(
    run: Run,
    step: int,
    checkpoints: Checkpoints | None,
    sinks: Sequence[Sink],
    interruption: Interruption,
    *,
    chunk: int | None = None,
) -> tuple[int, ExitCode]:
    """Run from `step` until done or interrupted, save, and return the step reached and why it ended."""
    length = min(run.capacity, chunk or _FIRST_CHUNK)
    code = ExitCode.OK
    save_after = time.monotonic() + _SECONDS_PER_CHUNK
    while step < run.total and run.verdict() is None:
        is_due = chunk is not None or time.monotonic() > save_after
        code, length, is_due = decide_together(interruption.exit_code, length, save=is_due)
        if is_due and checkpoints is not None:
            started = time.monotonic()
            checkpoints.save(step, run.state())
            save_after = time.monotonic() + (time.monotonic() - started) / _TIME_FOR_CHECKPOINTS
        if code != ExitCode.OK:
            break
        count = min(length, run.next_stop(step) - step)
        started = time.perf_counter()
        run.advance(step, count)
        rate = count / (time.perf_counter() - started)
        step += count
        run.inspect(step)
        if sinks:
            figures, words = {"steps_per_second": rate} | run.figures(), f"{run.words()}  {float(f'{rate:.3g}'):g}/s"
            for sink in sinks:
                sink.report(step, figures, words)
        if chunk is None:
            length = min(run.capacity, 2 * length, max(1, round(rate * _SECONDS_PER_CHUNK)))
    if checkpoints is not None:
        checkpoints.save(step, run.state())
    return step, code
