"""A sampling run from start to end."""

import functools
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dlhmc.errors import ExitCode, UserError
from dlhmc.kernels import DLHMC, HMC, Exact, Kernel, State
from dlhmc.kernels.integrators import INTEGRATORS
from dlhmc.machine import processes
from dlhmc.machine.devices import Devices, own_part
from dlhmc.models import model as models
from dlhmc.numerics.leaves import integer, leaf, on_host
from dlhmc.runs import targets
from dlhmc.runs.checkpoint import Checkpoints, Notes, noted
from dlhmc.runs.config import ObjectSampleConfig, SampleConfig
from dlhmc.runs.describe import describe_kernel
from dlhmc.runs.directory import (
    RunDirectory,
    new_run,
    objects_run,
    old_run,
    open_run,
    require_same_model,
    run_kind,
    versions,
    write_json,
)
from dlhmc.runs.engine import Carry, Schedule, advance, begin
from dlhmc.runs.history import History
from dlhmc.runs.loop import PLAIN, Conditions, Work, execute
from dlhmc.runs.monitor import Monitor
from dlhmc.runs.precision import TOLERANCE, Precision, check_precision
from dlhmc.runs.summary import Quantities, Stored, show, summarise
from dlhmc.targets import ExactDraws, Target
from dlhmc.theories.u1.hits import InstantonHits

_FIRST_GUESS_OF_STEP_SIZE = 0.1
# Records of a chunk wait in memory until it is done: at most this many numbers of each kind.
_BUFFER_NUMBERS = 2**19
_CAPACITY = 4096


class Plan(NamedTuple):
    """What is to run, as objects."""

    kernel: Kernel
    start_draws: ExactDraws | None
    tune: bool
    #: the same in words and numbers
    what: dict[str, Any]

    @property
    def target(self) -> Target:
        """What is sampled."""
        return self.kernel.target


def plan(config: SampleConfig) -> Plan:
    """Build target and kernel; call it with double precision switched as the configuration says."""
    target = targets.build(config)
    draws = target.exact_draws()
    kernel: Kernel
    if config.kernel == "exact":
        kernel = Exact(target, targets.require_draws(draws))
    elif config.model is not None:
        targets.require_target_of_model(models.find(config.model), config.target, config.lattice)
        kernel = learned_kernel(config.model, target)
    else:
        step_size = _FIRST_GUESS_OF_STEP_SIZE if config.step_size is None else config.step_size
        kernel = HMC(target, step_size, config.leapfrog_steps, INTEGRATORS[config.integrator])
    if config.hits:
        kernel = InstantonHits(kernel, config.hits)
    tune = config.step_size is None and kernel.tunable_step_size() is not None
    start_draws = targets.require_draws(draws) if config.start == "exact" else None
    return Plan(kernel, start_draws, tune, what_ran(config))


def what_ran(config: SampleConfig) -> dict[str, Any]:
    """Kernel and target; that of U(1) by its lattice and coupling, others by name."""
    if config.lattice is None:
        return {"kernel": config.kernel, "target": config.target}
    return {"kernel": config.kernel, "lattice": list(config.lattice), "beta": config.beta}


def plan_of_objects(kernel: Kernel, config: ObjectSampleConfig) -> Plan:
    """The same for a kernel that was made in Python."""
    start_draws = targets.require_draws(kernel.target.exact_draws()) if config.start == "exact" else None
    return Plan(kernel, start_draws, config.tune, describe_kernel(kernel))


def learned_kernel(name: str, target: Target) -> DLHMC:
    """The kernel of a trained model, on a target of any coupling."""
    file = models.find(name)
    built_from, description = models.read_config(file)
    like = eqx.filter_eval_shape(models.build, built_from, target, jax.random.key(0))
    return DLHMC(target, models.load(file, like), symmetric=description.get("symmetric") is True)


def sample(
    config: SampleConfig,
    path: Path,
    console: Console,
    conditions: Conditions = PLAIN,
    *,
    show_results: bool = True,
) -> ExitCode:
    """Run in a new directory; show progress and the table of results, or not."""
    with jax.enable_x64(config.float64):
        # Before anything is written: a model may not fit, or the chains may not be shared.
        prepared = prepare(config, conditions)
        with new_run("sample", config, path) as directory:
            work = Sampling(config, directory, *prepared, show_results=show_results, check_every=conditions.check_every)
            return execute(work, directory, console, conditions, resuming=False, chunk=config.chunk)


def sample_objects(
    kernel: Kernel,
    config: ObjectSampleConfig,
    path: Path,
    console: Console,
    conditions: Conditions = PLAIN,
    *,
    resuming: bool = False,
) -> tuple["Sampling", ExitCode]:
    """The same for a kernel that was made in Python, in the precision that JAX is set to; the work is returned."""
    prepared = _placed(plan_of_objects(kernel, config), config, conditions)
    with objects_run("sample-objects", config, path, resuming=resuming) as directory:
        work = Sampling(config, directory, *prepared, show_results=False, check_every=conditions.check_every)
        work.silent = True
        return work, execute(work, directory, console, conditions, resuming=resuming, chunk=config.chunk)


def resume(path: Path, console: Console, conditions: Conditions = PLAIN) -> ExitCode:
    """Go on with an interrupted run."""
    with old_run("sample", SampleConfig, path) as (directory, config), jax.enable_x64(config.float64):
        require_same_model(directory, config)
        work = Sampling(config, directory, *prepare(config, conditions), check_every=conditions.check_every)
        return execute(work, directory, console, conditions, resuming=True, chunk=config.chunk)


def prepare(config: SampleConfig, conditions: Conditions) -> tuple[Plan, Devices, Carry]:
    """Plan and first configurations, on the devices wanted."""
    return _placed(plan(config), config, conditions)


def _placed(
    planned: Plan, config: SampleConfig | ObjectSampleConfig, conditions: Conditions
) -> tuple[Plan, Devices, Carry]:
    devices = Devices(conditions.devices, conditions.split_lattice)
    planned = on_host(planned)
    devices.require(planned.target.shape, config.chains)
    with devices.beginning():
        carry = begin(planned.kernel, planned.start_draws, integer(config.seed, np.uint32), config.start, config.chains)
    return planned, devices, Carry(State(devices.distribute(carry.state.x)), devices.copy(carry.tuner))


def compiled_chunk(config: SampleConfig, conditions: Conditions) -> Callable[[], None]:
    """The device's part of a chunk of a run, compiled, from the same start each time: for benchmarks."""
    planned, devices, carry = prepare(config, conditions)
    number = config.chunk or 1
    schedule = Schedule(integer(config.seed, np.uint32), integer(0), leaf(config.target_acceptance))
    arguments = (planned.kernel, schedule, carry, integer(0), integer(number), number, planned.tune)
    with devices.active():
        compiled = advance.lower(*arguments).compile()  # type: ignore[attr-defined]

    def run() -> None:
        with devices.active():
            jax.block_until_ready(compiled(*arguments))

    return run


def show_results(path: Path, console: Console) -> dict[str, Any]:
    """The results so far of a run, finished or not."""
    directory, config = open_run("sample", SampleConfig, path)
    with jax.enable_x64(config.float64):
        require_same_model(directory, config)
        planned = plan(config)
        found = measured(directory, config)
        lost = [f"damaged, so these are the results of an earlier checkpoint: {problem}" for problem in found.problems]
        for text in lost:
            console.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
        quantities, steps = Quantities.of(planned.target), planned.kernel.leapfrog_steps
        stored = Stored(found.history, found.rows)
        summary = summarise(planned.what, quantities, stored, steps, found.seconds, found.precision)
        show(summary, quantities, console)
    if found.rows < config.trajectories:
        console.print(f"not finished: {found.rows} of {config.trajectories} trajectories")
    return summary | {"warnings": summary["warnings"] + lost}


class Measured(NamedTuple):
    """What the newest intact checkpoint of a run vouches for."""

    history: History
    rows: int
    seconds: float
    precision: Precision | None
    #: what is wrong with newer checkpoints
    problems: list[str]
    #: of the trajectories that are measured, for kernels that have one
    step_size: float | None = None


def open_sampling(path: Path) -> tuple[RunDirectory, SampleConfig | ObjectSampleConfig]:
    """An earlier run, of a command or of objects made in Python."""
    kind = "sample-objects"
    if run_kind(path) == kind:
        return open_run(kind, ObjectSampleConfig, path)
    return open_run("sample", SampleConfig, path)


def measured(directory: RunDirectory, config: SampleConfig | ObjectSampleConfig) -> Measured:
    """The measurements of a run so far, every one as it was written."""
    history = History.open(directory.history, "r")
    checkpoints = _checkpoints(directory)
    step, notes = checkpoints.newest_notes(functools.partial(require_history, config, history))
    rows = step - config.warmup
    if rows < 1:
        raise UserError(f"{directory.path} has no measurements yet: go on with 'dlhmc resume {directory.path}'.")
    return Measured(
        history,
        rows,
        notes["seconds"],
        precision_of(notes),
        checkpoints.passed_over or directory.what_is_lost(step, config.warmup + config.trajectories),
        notes.get("step_size"),
    )


def _checkpoints(directory: RunDirectory) -> Checkpoints:
    """To look at, not to write."""
    return Checkpoints(directory.checkpoints, run=directory.identity(), create=False, read_only=True)


def require_history(config: SampleConfig | ObjectSampleConfig, history: History, step: int, notes: Notes) -> None:
    """Refuse notes that make no sense, and a history that is not the one of the checkpoint."""
    noted(notes, "seconds", float)
    noted(notes, "step_size", float, type(None))
    precision_of(notes)
    kept = sum(after <= step for after in _kept_after(config))
    rows = max(0, step - config.warmup)
    history.verify((config.trajectories, config.chains), rows, kept, noted(notes, "history", dict))


def _kept_after(config: SampleConfig | ObjectSampleConfig) -> list[int]:
    """A configuration is kept after these trajectories (warm-up included): evenly spaced, the last one among them."""
    kept = config.keep_configurations
    return [config.warmup + math.ceil((i + 1) * config.trajectories / kept) for i in range(kept)]


def examine(planned: Plan, carry: Carry, seed: int, step: int) -> Precision | None:
    """The rounding errors of a run where it is now; None for a kernel that makes no trajectories."""
    kernel = planned.kernel
    if planned.tune:
        kernel = kernel.with_step_size(np.exp(np.asarray(carry.tuner.log_average)))
    return check_precision(kernel, processes.whole(carry.state.x), seed, step)


def precision_of(notes: dict[str, Any]) -> Precision | None:
    """What a checkpoint knows of rounding errors."""
    written = noted(notes, "precision", dict, type(None))
    if written is None:
        return None
    if written.keys() != {*Precision._fields} or not all(type(v) in (int, float, type(None)) for v in written.values()):
        raise UserError("Its notes are damaged: 'precision' makes no sense.")
    return Precision(**written)


def advice(precision: Precision, config: SampleConfig | ObjectSampleConfig) -> str:
    """What to do about rounding errors that are too large."""
    learned = isinstance(config, SampleConfig) and config.model
    steps = "another --model" if learned else "a smaller --step-size or fewer --leapfrog-steps"
    double = "" if config.float64 else "--float64, "
    return (
        f"Rounding errors are too large for exact sampling, {precision}, with a limit of {TOLERANCE:g}: "
        f"start anew with {double}{steps}."
    )


def check_run(path: Path, console: Console) -> tuple[ExitCode, dict[str, Any]]:
    """The rounding errors of a run, finished or not, at its last checkpoint."""
    directory, config = open_run("sample", SampleConfig, path)
    with jax.enable_x64(config.float64):
        require_same_model(directory, config)
        planned, _, carry = prepare(config, PLAIN)
        step, carry, _ = _checkpoints(directory).restore(carry)
        found = examine(planned, carry, config.seed, step)
    if found is None:
        console.print(f"the kernel {config.kernel} makes no trajectories: there is nothing to check", highlight=False)
        return ExitCode.OK, {}
    if not found.fine:
        console.print(advice(found, config), style="red", markup=False, highlight=False, soft_wrap=True)
        return ExitCode.WRONG, found._asdict()
    console.print(f"rounding errors are small: {found}", markup=False, highlight=False, soft_wrap=True)
    return ExitCode.OK, found._asdict()


class Sampling(Work):
    """Trajectories of all chains: first the warm-up, then those that are measured."""

    history: History

    def __init__(
        self,
        config: SampleConfig | ObjectSampleConfig,
        directory: RunDirectory,
        planned: Plan,
        devices: Devices,
        carry: Carry,
        *,
        show_results: bool = True,
        check_every: float = PLAIN.check_every,
    ) -> None:
        self._config = config
        self._directory = directory
        self._show_results = show_results
        self.title, self.unit = str(planned.what["kernel"]), "trajectories"
        self.plan = planned
        self.total = config.warmup + config.trajectories
        # Whatever the length of the run: those of another length find their program compiled.
        self.capacity = max(1, min(config.chunk or _CAPACITY, _BUFFER_NUMBERS // config.chains))
        self._devices = devices
        self._schedule = Schedule(
            integer(config.seed, np.uint32), integer(config.warmup), leaf(config.target_acceptance)
        )
        self.carry = carry
        self.seconds = 0.0
        #: trajectories in the history
        self.measured = 0
        self._monitor = Monitor(self.plan.target)
        self._kept_after = _kept_after(config)
        self._check_every = check_every
        self._last_check = time.monotonic()
        self._precision: Precision | None = None

    def create(self) -> None:
        """The empty history of a new run."""
        config = self._config
        if processes.is_first():
            self.history = History.create(
                self._directory.history,
                config.trajectories,
                self._rows(),
                [step - config.warmup for step in self._kept_after],
                self.carry.state.x,
                self._attributes(),
            )
        processes.barrier("history")
        if not processes.is_first():
            self.history = History.open(self._directory.history)

    def _attributes(self) -> dict[str, Any]:
        """All that one needs to read the history without the program that made it."""
        kernel, config = self.plan.kernel, self._config
        return self.plan.what | {
            "leapfrog_steps": kernel.leapfrog_steps,
            "warmup": config.warmup,
            "seed": config.seed,
            "quantities": json.dumps(Quantities.of(self.plan.target).to_json()),
            "versions": json.dumps(versions()),
        }

    def _rows(self) -> dict[str, NDArray[Any]]:
        """A row of each record, for its shape and dtype."""
        with self._devices.active():
            _, shapes = eqx.filter_eval_shape(advance, *self._arguments(0, 0))
        return {name: np.zeros(s.shape[1:], s.dtype) for name, s in shapes.items()}

    def resume(self, checkpoints: Checkpoints) -> tuple[int, Notes]:
        """Take up the newest checkpoint that is intact and whose measurements are."""
        self.history = History.open(self._directory.history)
        step, self.carry, notes = checkpoints.restore(
            self.carry, functools.partial(require_history, self._config, self.history)
        )
        self.seconds, self.measured = notes["seconds"], max(0, step - self._config.warmup)
        self._precision = precision_of(notes)
        if processes.is_first():
            self.history.forget_after(max(0, step - self._config.warmup))
        return step, notes

    def compile(self) -> None:
        """Compile before the clock starts."""
        with self._devices.active():
            self._advance = advance.lower(*self._arguments(0, 0)).compile()  # type: ignore[attr-defined]

    def _arguments(self, step: int, count: int) -> tuple[Any, ...]:
        numbers = (integer(step), integer(count))
        return (self.plan.kernel, self._schedule, self.carry, *numbers, self.capacity, self.plan.tune)

    def advance(self, step: int, count: int) -> None:
        """Run trajectories; those after the warm-up go to the history."""
        started = time.perf_counter()
        with self._devices.active():
            self.carry, buffers = jax.block_until_ready(self._advance(*self._arguments(step, count)))
        elapsed = time.perf_counter() - started
        skipped = min(max(0, self._config.warmup - step), count)
        if skipped == count:
            return
        self._directory.require_still_there()
        self.history.write(step + skipped - self._config.warmup, buffers, slice(skipped, count))
        # Of several processes each sees its own chains only.
        self._monitor.add({name: own_part(buffer)[skipped:count] for name, buffer in buffers.items()})
        self.seconds += elapsed * (count - skipped) / count
        self.measured = step + count - self._config.warmup
        if step + count in self._kept_after:
            self.history.write_configuration(self._kept_after.index(step + count), self.carry.state.x)

    def inspect(self, step: int) -> None:
        """Check the rounding errors now and then, once the step size is known; it compiles two functions more."""
        due = time.monotonic() - self._last_check >= self._check_every
        # Of several processes the first one's clock counts; all of them then check the same chains.
        if step < self._config.warmup or not processes.gathered((due,))[0][0]:
            return
        found = examine(self.plan, self.carry, self._config.seed, step)
        if found is not None:
            self._precision = found.worst(self._precision)
        self._last_check = time.monotonic()

    def verdict(self) -> str | None:
        """Why the samples cannot be trusted, where that is known."""
        return None if self._precision is None or self._precision.fine else advice(self._precision, self._config)

    def next_stop(self, step: int) -> int:
        """The next trajectory after which a configuration is kept, or the last one."""
        return next((stop for stop in self._kept_after if stop > step), self.total)

    @property
    def step_size(self) -> float:
        """The step size of the trajectories that are measured."""
        step_size = self.plan.kernel.tunable_step_size()
        if step_size is None:
            return math.nan
        return math.exp(float(self.carry.tuner.log_average)) if self.plan.tune else float(step_size)

    def metrics(self) -> dict[str, float]:
        """Figures of the run so far."""
        figures = self._monitor.metrics() | ({"step_size": self.step_size} if self.plan.tune else {})
        if self._precision is not None:
            figures["irreversibility"] = self._precision.irreversibility
            if self._precision.acceptance_error is not None:
                figures["acceptance_error"] = self._precision.acceptance_error
        return figures

    def facts(self) -> str:
        """The same for people."""
        return self._monitor.facts()

    def checkpoint(self) -> tuple[Carry, Notes]:
        """Chains, tuner, the time used, rounding errors, and fingerprints of the history."""
        precision = None if self._precision is None else self._precision._asdict()
        step_size = {} if math.isnan(self.step_size) else {"step_size": self.step_size}
        notes = {"seconds": self.seconds, "precision": precision, "history": self.history.digests()}
        return self.carry, notes | step_size

    def finish(self, console: Console) -> None:
        """Write summary.json and show the table."""
        planned, quantities = self.plan, Quantities.of(self.plan.target)
        if planned.kernel.tunable_step_size() is not None:
            tuned = " (tuned)" if planned.tune else ""
            console.print(f"step size {self.step_size:.4g}{tuned}", highlight=False)
        # What was written is what the disk gives back.
        require_history(self._config, self.history, self.total, self.checkpoint()[1])
        stored = Stored(self.history, self._config.trajectories)
        steps = planned.kernel.leapfrog_steps
        summary = summarise(planned.what, quantities, stored, steps, self.seconds, self._precision)
        write_json(self._directory.summary, summary, self._directory.identity())
        if self._show_results:
            show(summary, quantities, console)
            console.print(f"written to {self._directory.path}", markup=False, highlight=False, soft_wrap=True)
