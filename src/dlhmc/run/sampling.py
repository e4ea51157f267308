"""A sampling run from start to end: a kernel, how much of it, and what it is in words."""

import dataclasses
import functools
import json
import math
import time
import types
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict, cast

import equinox as eqx
import jax
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dlhmc.errors import ExitCode, Setting, UserError
from dlhmc.kernels.contract import Kernel
from dlhmc.names import Start
from dlhmc.numerics.leaves import integer, leaf, on_host
from dlhmc.run import processes
from dlhmc.run.checkpoint import Checkpoints, Notes
from dlhmc.run.configurations import Given
from dlhmc.run.describe import checksum, describe_kernel
from dlhmc.run.devices import Devices, own_part
from dlhmc.run.directory import (
    Place,
    RunDirectory,
    open_run,
    require_newest,
    run_directory,
    versions,
    write_json,
)
from dlhmc.run.driver import PLAIN, ExecutionOptions, Work, execute
from dlhmc.run.engine import TARGET_ONLY, Carry, Measurements, Schedule, advance, begin
from dlhmc.run.history import History
from dlhmc.run.monitor import Monitor
from dlhmc.run.needs import find_needs, in_bytes, require_room, show_needs
from dlhmc.run.precision import TOLERANCE, Precision, check_precision
from dlhmc.run.samples import Samples
from dlhmc.run.settings import SampleAmounts
from dlhmc.run.show import show, show_alarms
from dlhmc.run.sink import Saved
from dlhmc.run.summary import Quantities
from dlhmc.settings import build, converted
from dlhmc.targets.contract import ExactDraws, Target
from dlhmc.targets.temperature import TEMPERATURE

# Records of a chunk wait in memory until it is done: at most this many numbers of each kind.
_BUFFER_NUMBERS = 2**18
_CAPACITY = 4096


class Sampler(NamedTuple):
    """What is to run, as objects."""

    kernel: Kernel
    #: whether the step size is tuned during the warm-up
    tune: bool = False
    #: what is measured beside the observables of the target
    measured: Measurements = TARGET_ONLY
    #: what the history says of measurements, beside their names
    notes: Mapping[str, Any] = types.MappingProxyType({})
    #: makes the first configurations, where they are given; not before JAX knows its devices
    start: Callable[[], Given] | None = None
    #: the target in words and numbers; if not given, what the object tells
    what: Mapping[str, Any] | None = None

    @property
    def target(self) -> Target:
        """What is sampled."""
        return self.kernel.target

    def wanted_acceptance(self, amounts: SampleAmounts) -> float:
        """To which the step size is tuned."""
        return amounts.target_acceptance or self.target.known.wanted_acceptance

    def starts_from(self, amounts: SampleAmounts) -> str:
        """The first configurations: a name, a file, or an array."""
        if self.start is not None:
            return amounts.start or "array"
        return default_start(self.kernel, cast(Start | None, amounts.start))


def exact_draws(target: Target) -> ExactDraws:
    """Exact draws, where they are asked for."""
    draws = target.exact_draws()
    if draws is None:
        raise UserError("This target has no exact draws: use another kernel and a hot or cold start.")
    return draws


def first_draws(target: Target, start: Start) -> ExactDraws | None:
    """What draws the first configurations; None for those that are hot or cold."""
    if start == "exact":
        return exact_draws(target)
    if start == "near" and (draws := target.known.approximate_draws(target)) is None:
        raise UserError("This target knows no starts near equilibrium: use a hot or cold one.")
    return draws if start == "near" else None


def default_start(kernel: Kernel, start: Start | None) -> Start:
    """The first configurations: exact draws where the target has them, unless others are asked for."""
    target = kernel.target
    if start is not None or target.exact_draws() is not None:
        return start or "exact"
    return "near" if kernel.needs_equilibrium and target.known.approximate_draws(target) is not None else "hot"


def sample(
    sampler: Sampler,
    amounts: SampleAmounts,
    place: Place | None,
    console: Console,
    options: ExecutionOptions = PLAIN,
    *,
    show_results: bool = True,
) -> tuple["Sampling", ExitCode]:
    """Run in the precision that JAX is set to; without a place everything stays in memory.

    The table of results is shown, or not, and the work is returned.
    """
    if sampler.tune:
        amounts.require_warmup()
    # Before anything is written: the chains may not be shared, or not fit.
    devices, carry = prepare(sampler, amounts, options)
    work = Sampling(sampler, amounts, devices, carry, options, show_results=show_results)
    opened = nullcontext() if place is None else run_directory("sample", place, checksum(sampler.kernel))
    resuming = place is not None and place.resuming
    with opened as directory:
        return work, execute(work, directory, console, options, resuming=resuming, chunk=amounts.chunk)


def prepare(sampler: Sampler, amounts: SampleAmounts, options: ExecutionOptions = PLAIN) -> tuple[Devices, Carry]:
    """First configurations, on the devices wanted."""
    require_room(sampler.target, amounts.chains)
    devices = Devices(options.devices, options.split_lattice)
    start = cast(Start, sampler.starts_from(amounts))
    draws = first_draws(sampler.target, start) if sampler.start is None else sampler.start()
    kernel, draws = on_host((sampler.kernel, draws))
    devices.require(sampler.target.geometry.shape, amounts.chains)
    with devices.beginning():
        carry = begin(kernel, draws, integer(amounts.seed, np.uint32), start, amounts.chains, sampler.measured)
    held = devices.distribute(carry.held)
    return devices, Carry(devices.distribute(carry.state), devices.copy(carry.tuner), held)


def estimate(sampler: Sampler, amounts: SampleAmounts, console: Console) -> None:
    """Print what a run would take: memory, disk, and time from a measured trajectory."""
    work = Sampling(sampler, amounts, *prepare(sampler, amounts))
    needs = find_needs(sampler.target, amounts.chains, work.program, lambda program: program(*work.arguments(0, 1)))
    kept = amounts.keep_configurations * needs.fields
    history = amounts.trajectories * sum(row.nbytes for row in work.rows().values())
    more = {"disk": f"at most {in_bytes(history + kept)} of history, before compression"}
    show_needs(needs, more, amounts.warmup + amounts.trajectories, "trajectories", console)


def show_results(path: Path, console: Console) -> dict[str, Any]:
    """The results so far of a run, finished or not."""
    found, wanted, problems = open_samples(path)
    lost = [f"damaged, so these are the results of an earlier checkpoint: {problem}" for problem in problems]
    for text in lost:
        console.out(text, style="red", highlight=False)
    summary = found.summary()
    show(summary, console)
    if (rows := found.data.sizes["trajectory"]) < wanted:
        console.print(f"not finished: {rows} of {wanted} trajectories")
    return summary | {"warnings": summary["warnings"] + lost}


class _Notes(TypedDict):
    """What a checkpoint notes about its step; others may be in it, too."""

    seconds: float
    precision: Precision | None
    step_size: NotRequired[float]


def open_samples(path: Path) -> tuple[Samples, int, list[str]]:
    """The measurements of a run directory, how many there are to be, and what is wrong with newer checkpoints."""
    directory, settings = open_run("sample", path)
    amounts = build(SampleAmounts, settings.get("run", {}), str(directory.config))
    history = History.open(directory.history, writable=False)
    checkpoints = Checkpoints(directory.checkpoints, read_only=True)
    step, notes = checkpoints.newest_notes(functools.partial(_require_history, amounts, history))
    rows = step - amounts.warmup
    if rows < 1:
        raise UserError(f"{path} has no measurements yet: go on with 'dlhmc resume {path}'.")
    found = _samples(history, rows, notes["seconds"], _precision_of(notes), notes.get("step_size"))
    total = amounts.warmup + amounts.trajectories
    return found, amounts.trajectories, checkpoints.passed_over or directory.what_is_lost(step, total)


def load_samples(path: Path) -> Samples:
    """The measurements of a run directory, finished or not; what has lost its newest checkpoint is refused."""
    found, _, problems = open_samples(path)
    require_newest(path, problems)
    return Samples(found.data.load())


def _samples(
    history: History, rows: int, seconds: float, precision: Precision | None, step_size: float | None
) -> Samples:
    about: dict[str, Any] = {"seconds": seconds}
    if precision is not None:
        about["precision"] = json.dumps(dataclasses.asdict(precision))
    if step_size is not None:
        about["step_size"] = step_size
    return Samples(history.dataset(rows).assign_attrs(about))


def _require_history(amounts: SampleAmounts, history: History, step: int, notes: Notes) -> None:
    """Refuse notes that make no sense, and a history that has not got what they promise."""
    converted(notes, _Notes, "What a checkpoint notes")
    kept = sum(after <= step for after in _kept_after(amounts))
    history.verify(amounts.chains, max(0, step - amounts.warmup), kept)


def _precision_of(notes: Notes) -> Precision | None:
    known = notes["precision"]
    return None if known is None else converted(known, Precision, "What a checkpoint notes")


def _kept_after(amounts: SampleAmounts) -> list[int]:
    """A configuration is kept after these trajectories (warm-up included): evenly spaced, the last one among them."""
    kept = amounts.keep_configurations
    return [amounts.warmup + math.ceil((i + 1) * amounts.trajectories / kept) for i in range(kept)]


def examine(sampler: Sampler, carry: Carry, seed: int, step: int) -> Precision | None:
    """The rounding errors of a run where it is now; None for a kernel that makes no trajectories."""
    kernel = sampler.kernel
    if sampler.tune:
        kernel = kernel.with_step_size(np.exp(np.asarray(carry.tuner.log_average)))
    return check_precision(kernel, processes.whole(carry.state.x), seed, step)


def too_imprecise(precision: Precision, kernel: Kernel, *, double: bool) -> UserError:
    """What to do about rounding errors that are too large."""
    remedy = f"a smaller {Setting('step_size')} or fewer {Setting('leapfrog_steps')}"
    if kernel.tunable_step_size() is None:
        remedy = "another model"
    if not double:
        remedy = f"{Setting('float64')}, {remedy}"
    what = f"Rounding errors are too large for exact sampling, {precision}, with a limit of {TOLERANCE:g}"
    return UserError(f"{what}: start anew with {remedy}.")


def check_run(
    sampler: Sampler, amounts: SampleAmounts, directory: RunDirectory, console: Console
) -> tuple[ExitCode, dict[str, Any]]:
    """The rounding errors of a run, finished or not, at its last checkpoint."""
    _, carry = prepare(sampler, amounts)
    step, carry, _ = Checkpoints(directory.checkpoints, read_only=True).restore(lambda _: carry)
    found = examine(sampler, carry, amounts.seed, step)
    if found is None:
        console.print("the kernel makes no trajectories: there is nothing to check", highlight=False)
        return ExitCode.OK, {}
    if not found.fine:
        problem = too_imprecise(found, sampler.kernel, double=amounts.float64).on_command_line()
        console.out(problem, style="red", highlight=False)
        return ExitCode.WRONG, dataclasses.asdict(found)
    console.out(f"rounding errors are small: {found}", highlight=False)
    return ExitCode.OK, dataclasses.asdict(found)


class Sampling(Work):
    """Trajectories of all chains: first the warm-up, then those that are measured."""

    unit = "trajectories"
    history: History

    def __init__(
        self,
        sampler: Sampler,
        amounts: SampleAmounts,
        devices: Devices,
        carry: Carry,
        options: ExecutionOptions = PLAIN,
        *,
        show_results: bool = True,
    ) -> None:
        self.sampler = sampler
        self._kernel = on_host(sampler.kernel)
        self._amounts = amounts
        self.carry = carry
        self._show_results = show_results
        self.title = str(sampler.kernel.describe()["kernel"])
        self.total = amounts.warmup + amounts.trajectories
        self._observables = eqx.filter_eval_shape(sampler.target.observables, carry.state.x)
        own = eqx.filter_eval_shape(sampler.measured.always.evaluate, carry.state.x)
        largest = max(math.prod(record.shape) for record in jax.tree.leaves((self._observables, own, carry.held)))
        # Whatever the length of the run and its chunks: others find their program compiled.
        self.capacity = max(1, min(_CAPACITY, _BUFFER_NUMBERS // max(amounts.chains, largest)))
        self._devices = devices
        self._schedule = Schedule(
            integer(amounts.seed, np.uint32),
            integer(amounts.warmup),
            leaf(sampler.wanted_acceptance(amounts)),
            integer(amounts.measure_every),
            integer(amounts.temperature_every),
        )
        self.seconds = 0.0
        #: trajectories in the history
        self.measured = 0
        self._monitor: Monitor | None = Monitor(sampler.target) if options.shows else None
        self._directory: RunDirectory | None = None
        self._kept_after = _kept_after(amounts)
        self._check_every = options.check_every
        self._last_check = time.monotonic()
        self._precision: Precision | None = None

    def create(self, directory: RunDirectory | None) -> None:
        """The empty history of a new run."""
        amounts = self._amounts
        kept = [step - amounts.warmup for step in self._kept_after]
        parts = (amounts.trajectories, self.rows(), kept, self.carry.state.x, self._attributes())
        if directory is None:
            self.history = History.create(None, *parts)
            return
        self._keep_in(directory)
        if processes.is_first():
            self.history = History.create(directory.history, *parts)
        processes.barrier("history")
        if not processes.is_first():
            self.history = History.open(directory.history)

    def _keep_in(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._monitor = Monitor(self.sampler.target)  # for the metrics

    def resume(self, directory: RunDirectory, checkpoints: Checkpoints) -> int:
        """Take up the newest checkpoint that is intact and whose measurements are."""
        self._keep_in(directory)
        amounts, history = self._amounts, History.open(directory.history)
        step, self.carry, notes = checkpoints.restore(
            lambda _: self.carry, functools.partial(_require_history, amounts, history)
        )
        self.seconds, self.measured = notes["seconds"], max(0, step - amounts.warmup)
        self._precision = _precision_of(notes)
        if processes.is_first():
            history.forget_after(self.measured)
            history.extend(amounts.trajectories, [after - amounts.warmup for after in self._kept_after])
        processes.barrier("extended")
        self.history = History.open(directory.history)
        return step

    def _attributes(self) -> dict[str, Any]:
        """All that one needs to read the history without the program that made it."""
        kernel, amounts, measured = self.sampler.kernel, self._amounts, self.sampler.measured
        occasional = [name for name in self.carry.held if name not in TEMPERATURE]
        diagnostics = self.rows().keys() - {*self._observables, *measured.always, *occasional}
        what = describe_kernel(kernel, self.sampler.what)
        return what | {
            "leapfrog_steps": kernel.leapfrog_steps,
            "start": self.sampler.starts_from(amounts),
            "warmup": amounts.warmup,
            "seed": amounts.seed,
            "quantities": Quantities.of(self.sampler.target, measured.always, occasional).to_json(),
            "temperature_every": amounts.temperature_every,
            "notes": json.dumps(dict(self.sampler.notes)),
            "diagnostics": json.dumps(sorted(diagnostics)),
            "versions": json.dumps(versions()),
        }

    def rows(self) -> dict[str, NDArray[Any]]:
        """A row of each record, for its shape and dtype."""
        with self._devices.active():
            _, shapes = eqx.filter_eval_shape(advance, *self.arguments(0, 0))
        return {name: np.zeros(s.shape[1:], s.dtype) for name, s in shapes.items()}

    def program(self) -> Any:
        """The compiled chunk."""
        with self._devices.active():
            return advance.lower(*self.arguments(0, 0)).compile()  # type: ignore[attr-defined]

    def compile(self) -> None:
        """Compile before the clock starts, unless an earlier run has: a chunk of nothing."""
        self._run(0, 0)

    def _run(self, step: int, count: int) -> dict[str, jax.Array]:
        with self._devices.active():
            self.carry, buffers = jax.block_until_ready(advance(*self.arguments(step, count)))
        return buffers

    def arguments(self, step: int, count: int) -> tuple[Any, ...]:
        """Of the compiled chunk."""
        numbers = (integer(step), integer(count), self.capacity)
        return (self._kernel, self._schedule, self.carry, *numbers, self.sampler.tune, self.sampler.measured)

    def advance(self, step: int, count: int) -> None:
        """Run trajectories; those after the warm-up go to the history."""
        started = time.perf_counter()
        buffers = self._run(step, count)
        elapsed = time.perf_counter() - started
        skipped = min(max(0, self._amounts.warmup - step), count)
        if skipped == count:
            return
        if self._directory is not None:
            self._directory.require_still_there()
        self.history.write(step + skipped - self._amounts.warmup, buffers, slice(skipped, count))
        if self._monitor is not None:
            # Of several processes each sees its own chains only.
            self._monitor.add({name: own_part(buffer)[skipped:count] for name, buffer in buffers.items()})
        self.seconds += elapsed * (count - skipped) / count
        self.measured = step + count - self._amounts.warmup
        if step + count in self._kept_after:
            self.history.write_configuration(self._kept_after.index(step + count), self.carry.state.x)

    def inspect(self, step: int) -> None:
        """Check the rounding errors now and then, once the step size is known; it compiles two functions more."""
        due = time.monotonic() - self._last_check >= self._check_every
        # Of several processes the first one's clock counts; all of them then check the same chains.
        if step < self._amounts.warmup or not processes.gathered((due,))[0][0]:
            return
        found = examine(self.sampler, self.carry, self._amounts.seed, step)
        if found is not None:
            self._precision = found.worst(self._precision)
        self._last_check = time.monotonic()

    def verdict(self) -> UserError | None:
        """Why the samples cannot be trusted, where that is known."""
        if self._precision is None or self._precision.fine:
            return None
        return too_imprecise(self._precision, self.sampler.kernel, double=self._amounts.float64)

    def next_stop(self, step: int) -> int:
        """The next trajectory after which a configuration is kept, or the last one."""
        return next((stop for stop in self._kept_after if stop > step), self.total)

    @property
    def step_size(self) -> float | None:
        """The step size of the trajectories that are measured, for kernels that have one."""
        step_size = self.sampler.kernel.tunable_step_size()
        if step_size is None:
            return None
        return math.exp(float(self.carry.tuner.log_average)) if self.sampler.tune else float(step_size)

    @property
    def so_far(self) -> Samples:
        """What has been measured."""
        return _samples(self.history, self.measured, self.seconds, self._precision, self.step_size)

    def figures(self) -> dict[str, float]:
        """Figures of the run so far."""
        figures = {} if self._monitor is None else self._monitor.metrics()
        if self.sampler.tune and self.step_size is not None:
            figures["step_size"] = self.step_size
        if self._precision is not None:
            figures["irreversibility"] = self._precision.irreversibility
            if self._precision.acceptance_error is not None:
                figures["acceptance_error"] = self._precision.acceptance_error
        return figures

    def words(self) -> str:
        """The same for people."""
        return "" if self._monitor is None else self._monitor.status_line()

    def state(self) -> Saved:
        """Chains, tuner, the time used, rounding errors."""
        precision = None if self._precision is None else dataclasses.asdict(self._precision)
        step_size = {} if self.step_size is None else {"step_size": self.step_size}
        return self.carry, {"seconds": self.seconds, "precision": precision} | step_size

    def finish(self, directory: RunDirectory | None, console: Console) -> ExitCode:
        """Show the table, and write it to summary.json."""
        if directory is None and not self._show_results:  # whoever wants to know more asks for it
            alarms = self.so_far.histories.alarms()
            show_alarms({"alarms": alarms}, console)
            return ExitCode.ALARM if alarms else ExitCode.OK
        summary = self.so_far.summary()
        if directory is not None:
            write_json(directory.summary, summary)
        if self.step_size is not None and self._show_results:
            tuned = " (tuned)" if self.sampler.tune else ""
            console.print(f"step size {self.step_size:.4g}{tuned}", highlight=False)
        if self._show_results:
            show(summary, console)
        else:
            show_alarms(summary, console)
        if directory is not None and self._show_results:
            console.out(f"written to {directory.path}", highlight=False)
        return ExitCode.ALARM if summary["alarms"] else ExitCode.OK
