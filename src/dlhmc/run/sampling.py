"""A sampling run from start to end: a kernel, how much of it, and what it is in words."""

import dataclasses
import functools
import json
import math
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

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
from dlhmc.run.configurations import first_draws
from dlhmc.run.describe import checksum, describe_kernel
from dlhmc.run.devices import Devices, own_part
from dlhmc.run.directory import Place, RunDirectory, open_run, require_newest, versions, write_json
from dlhmc.run.driver import PLAIN, ExecutionOptions, Run, execute
from dlhmc.run.engine import TARGET_ONLY, Carry, Measurements, Schedule, advance, begin, told
from dlhmc.run.history import History
from dlhmc.run.monitor import Monitor
from dlhmc.run.needs import in_bytes, of_fields, require_room, show_needs
from dlhmc.run.precision import TOLERANCE, Precision, check_precision
from dlhmc.run.samples import Samples
from dlhmc.run.settings import SampleAmounts
from dlhmc.run.show import show
from dlhmc.run.sink import Saved
from dlhmc.run.summary import Quantities
from dlhmc.settings import build, converted
from dlhmc.targets.contract import Target
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
    #: an array of first configurations, where they are given
    start: Any = None
    #: the target in words and numbers; if not given, what the object tells
    what: Mapping[str, Any] | None = None

    @property
    def target(self) -> Target:
        """What is sampled."""
        return self.kernel.target

    def wanted_acceptance(self, amounts: SampleAmounts) -> float:
        """To which the step size is tuned."""
        return amounts.target_acceptance or self.target.known.wanted_acceptance

    def first(self, amounts: SampleAmounts) -> Any:
        """The first configurations: exact draws where the target has them, unless others are asked for."""
        if self.start is not None or amounts.start is not None:
            return amounts.start if self.start is None else self.start
        if self.target.exact_draws() is not None:
            return "exact"
        knows_near = self.target.known.approximate_draws(self.target) is not None
        return "near" if self.kernel.needs_equilibrium and knows_near else "hot"


def sample(
    sampler: Sampler,
    amounts: SampleAmounts,
    place: Place | None,
    console: Console,
    options: ExecutionOptions = PLAIN,
) -> tuple["Sampling", ExitCode]:
    """Run in the precision that JAX is set to; without a place everything stays in memory. The run is returned."""
    run = Sampling(sampler, amounts, options)
    return run, execute(run, place, console, options, chunk=amounts.chunk)


def prepare(sampler: Sampler, amounts: SampleAmounts, options: ExecutionOptions = PLAIN) -> tuple[Devices, Carry]:
    """First configurations, on the devices wanted."""
    require_room(sampler.target, amounts.chains)
    devices = Devices(options.devices, options.split_lattice)
    start = sampler.first(amounts)
    draws = first_draws(sampler.target, start, amounts.chains)
    kernel, draws = on_host((sampler.kernel, draws))
    devices.require(sampler.target.geometry.shape, amounts.chains)
    with devices.beginning():
        name: Start = "cold" if draws is None and start == "cold" else "hot"
        carry = begin(kernel, draws, integer(amounts.seed, np.uint32), name, amounts.chains, sampler.measured)
    held = devices.distribute(carry.held)
    return devices, Carry(devices.distribute(carry.state), devices.copy(carry.tuner), held)


def estimate(sampler: Sampler, amounts: SampleAmounts, console: Console) -> None:
    """Print what a run would take: memory, disk, and time from a measured trajectory."""
    run = Sampling(sampler, amounts)
    kept = amounts.keep_configurations * of_fields(sampler.target, amounts.chains)[0]
    history = amounts.trajectories * sum(row.nbytes for row in run.rows.values())
    more = {"disk": f"at most {in_bytes(history + kept)} of history, before compression"}
    show_needs(sampler.target, amounts.chains, lambda n: run.run(0, n), run.total, run.unit, more, console)


def show_results(path: Path, console: Console) -> dict[str, Any]:
    """The results so far of a run, finished or not."""
    found, wanted, problems = open_samples(path)
    lost = [f"damaged, so these are the results of an earlier checkpoint: {problem}" for problem in problems]
    for text in lost:
        console.out(text, style="red", highlight=False)
    summary = found.summary()
    show(summary, console)
    if (rows := summary["trajectories"]) < wanted:
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
    total = amounts.warmup + amounts.trajectories
    problems = checkpoints.passed_over or directory.what_is_lost(step, total)
    return _samples(history, rows, notes), amounts.trajectories, problems


def load_samples(path: Path) -> Samples:
    """The measurements of a run directory, finished or not; what has lost its newest checkpoint is refused."""
    found, _, problems = open_samples(path)
    require_newest(path, problems)
    return Samples(found.data.load())


def _samples(history: History, rows: int, notes: Notes) -> Samples:
    about = {name: notes[name] for name in ("seconds", "step_size") if name in notes}
    return Samples(history.dataset(rows).assign_attrs(about, precision=json.dumps(notes["precision"])))


def _require_history(amounts: SampleAmounts, history: History, step: int, notes: Notes) -> None:
    """Refuse notes that make no sense, and a history that has not got what they promise."""
    converted(notes, _Notes, "What a checkpoint notes")
    kept = sum(after <= step for after in _kept_after(amounts))
    history.verify(amounts.chains, max(0, step - amounts.warmup), kept)


def _kept_after(amounts: SampleAmounts) -> list[int]:
    """A configuration is kept after these trajectories (warm-up included): evenly spaced, the last one among them."""
    kept = amounts.keep_configurations
    return [amounts.warmup + math.ceil((i + 1) * amounts.trajectories / kept) for i in range(kept)]


def check_run(
    sampler: Sampler, amounts: SampleAmounts, directory: RunDirectory, console: Console
) -> tuple[ExitCode, dict[str, Any]]:
    """The rounding errors of a run, finished or not, at its last checkpoint."""
    run = Sampling(sampler, amounts)
    step, run.carry, _ = Checkpoints(directory.checkpoints, read_only=True).restore(lambda _: run.carry)
    run.check(step)
    if run.precision is None:
        console.print("the kernel makes no trajectories: there is nothing to check", highlight=False)
        return ExitCode.OK, {}
    if (problem := run.verdict()) is not None:
        console.out(problem.on_command_line(), style="red", highlight=False)
        return ExitCode.WRONG, dataclasses.asdict(run.precision)
    console.out(f"rounding errors are small: {run.precision}", highlight=False)
    return ExitCode.OK, dataclasses.asdict(run.precision)


class Sampling(Run):
    """Trajectories of all chains: first the warm-up, then those that are measured."""

    kind, unit = "sample", "trajectories"
    history: History
    carry: Carry

    def __init__(self, sampler: Sampler, amounts: SampleAmounts, options: ExecutionOptions = PLAIN) -> None:
        if sampler.tune:
            amounts.require_warmup()
        # Before anything is written: the chains may not be shared, or not fit.
        self.devices, self.carry = prepare(sampler, amounts, options)
        self.sampler, self._amounts = sampler, amounts
        self._kernel = on_host(sampler.kernel)
        self.title = str(sampler.kernel.describe()["kernel"])
        self.total = amounts.warmup + amounts.trajectories
        self.checksum = checksum(sampler.kernel)
        self._schedule = Schedule(
            integer(amounts.seed, np.uint32),
            integer(amounts.warmup),
            leaf(sampler.wanted_acceptance(amounts)),
            integer(amounts.measure_every),
            integer(amounts.temperature_every),
        )
        #: a row of each record
        self.rows = self._find_rows()
        largest = max(row.size for row in self.rows.values())
        # Whatever the length of the run and its chunks: others find their program compiled.
        self.capacity = max(1, min(_CAPACITY, _BUFFER_NUMBERS // largest))
        self.seconds = 0.0
        #: trajectories in the history
        self.measured = 0
        self._monitor = Monitor(sampler.target, {name for name, row in self.rows.items() if row.ndim == 1})
        self._is_watched = not options.quiet or options.progress is not None
        self._kept_after = _kept_after(amounts)
        self._check_every, self._last_check = options.check_every, time.monotonic()
        self.precision: Precision | None = None
        self._summary: dict[str, Any] | None = None

    def program(self, step: int, count: int) -> tuple[Carry, dict[str, jax.Array]]:
        """Trajectories."""
        numbers = (integer(step), integer(count), self.capacity)
        sampler = self.sampler
        return advance(self._kernel, self._schedule, self.carry, *numbers, sampler.tune, sampler.measured)

    def _find_rows(self) -> dict[str, NDArray[Any]]:
        self.capacity = 1
        with self.devices.active():
            _, shapes = eqx.filter_eval_shape(self.program, 0, 0)
        return {name: np.zeros(s.shape[1:], s.dtype) for name, s in shapes.items()}

    def create(self) -> None:
        """The empty history of a new run."""
        amounts, path = self._amounts, None if self.directory is None else self.directory.history
        if path is None or processes.is_first():
            kept, x = [step - amounts.warmup for step in self._kept_after], self.carry.state.x
            self.history = History.create(path, amounts.trajectories, self.rows, kept, x, self._describe())
        processes.barrier("history")
        if path is not None:
            self.history = History.open(path)

    def restore(self, checkpoints: Checkpoints) -> int:
        """The newest checkpoint that is intact and whose measurements are."""
        if self.directory is None:
            raise TypeError("no directory")
        amounts, history = self._amounts, History.open(self.directory.history)
        intact = functools.partial(_require_history, amounts, history)
        step, self.carry, notes = checkpoints.restore(lambda _: self.carry, intact)
        self.seconds, self.measured = notes["seconds"], max(0, step - amounts.warmup)
        self.precision = None if notes["precision"] is None else Precision(**notes["precision"])
        if processes.is_first():
            history.forget_after(self.measured)
            history.extend(amounts.trajectories, [after - amounts.warmup for after in self._kept_after])
        processes.barrier("extended")
        self.history = History.open(self.directory.history)
        return step

    def _describe(self) -> dict[str, Any]:
        """All that one needs to read the history without the program that made it."""
        sampler, amounts = self.sampler, self._amounts
        own = [name for name, _ in sampler.measured.always]
        occasional = [name for name in self.carry.held if name not in TEMPERATURE]
        return describe_kernel(sampler.kernel, sampler.what) | {
            "leapfrog_steps": sampler.kernel.leapfrog_steps,
            "start": "array" if sampler.start is not None else sampler.first(amounts),
            "warmup": amounts.warmup,
            "seed": amounts.seed,
            "quantities": Quantities.of(sampler.target, own, occasional).to_json(),
            "temperature_every": amounts.temperature_every,
            "notes": json.dumps(dict(sampler.notes)),
            "diagnostics": json.dumps(
                sorted(self.rows.keys() & {*told(sampler.kernel, self.carry.state), *TEMPERATURE})
            ),
            "versions": json.dumps(versions()),
        }

    def record(self, step: int, count: int, records: dict[str, jax.Array], seconds: float) -> None:
        """Those after the warm-up go to the history."""
        warmup = self._amounts.warmup
        measured = slice(min(max(0, warmup - step), count), count)
        if measured.start == count:
            return
        self.history.write(step + measured.start - warmup, records, measured)
        if self._is_watched or self.directory is not None:
            # Of several processes each sees its own chains only.
            self._monitor.add({name: own_part(buffer)[measured] for name, buffer in records.items()})
        self.seconds += seconds * (count - measured.start) / count
        self.measured = step + count - warmup
        if step + count in self._kept_after:
            self.history.write_configuration(self._kept_after.index(step + count), self.carry.state.x)

    def inspect(self, step: int) -> None:
        """Check the rounding errors now and then, once the step size is known; it compiles two functions more."""
        due = time.monotonic() - self._last_check >= self._check_every
        # Of several processes the first one's clock counts; all of them then check the same chains.
        if step >= self._amounts.warmup and processes.gathered((due,))[0][0]:
            self.check(step)
            self._last_check = time.monotonic()

    def check(self, step: int) -> None:
        """Find the rounding errors here; there are none of a kernel that makes no trajectories."""
        kernel = self.sampler.kernel
        if self.sampler.tune:
            kernel = kernel.with_step_size(np.exp(np.asarray(self.carry.tuner.log_average)))
        found = check_precision(kernel, processes.whole(self.carry.state.x), self._amounts.seed, step)
        self.precision = self.precision if found is None else found.worst(self.precision)

    def verdict(self) -> UserError | None:
        """Why the samples cannot be trusted, where that is known."""
        if self.precision is None or self.precision.fine:
            return None
        remedy = f"a smaller {Setting('step_size')} or fewer {Setting('leapfrog_steps')}"
        if self.step_size is None:
            remedy = "another model"
        if not self._amounts.float64:
            remedy = f"{Setting('float64')}, {remedy}"
        return UserError(
            f"Rounding errors are too large for exact sampling, {self.precision}, with a limit of {TOLERANCE:g}: "
            f"start anew with {remedy}."
        )

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
        return _samples(self.history, self.measured, self.state()[1])

    def figures(self) -> dict[str, float]:
        """Figures of the run so far."""
        figures = self._monitor.metrics()
        if self.sampler.tune and self.step_size is not None:
            figures["step_size"] = self.step_size
        if self.precision is not None:
            figures["irreversibility"] = self.precision.irreversibility
            if self.precision.acceptance_error is not None:
                figures["acceptance_error"] = self.precision.acceptance_error
        return figures

    def words(self) -> str:
        """The same for people."""
        return self._monitor.status_line()

    def state(self) -> Saved:
        """Chains, tuner, the time used, rounding errors."""
        precision = None if self.precision is None else dataclasses.asdict(self.precision)
        notes = {"seconds": self.seconds, "precision": precision, "step_size": self.step_size}
        return self.carry, {name: note for name, note in notes.items() if name != "step_size" or note is not None}

    def finish(self) -> ExitCode:
        """Write the summary; in memory, whoever wants it asks for it."""
        if self.directory is None:
            alarms = self.so_far.histories.alarms()
        else:
            self._summary = self.so_far.summary()
            write_json(self.directory.summary, self._summary)
            alarms = self._summary["alarms"]
        return ExitCode.ALARM if alarms else ExitCode.OK

    def show(self, console: Console) -> None:
        """The table."""
        if self.step_size is not None:
            tuned = " (tuned)" if self.sampler.tune else ""
            console.print(f"step size {self.step_size:.4g}{tuned}", highlight=False)
        show(self._summary or self.so_far.summary(), console)
        if self.directory is not None:
            console.out(f"written to {self.directory.path}", highlight=False)
