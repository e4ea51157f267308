"""A sampling run from start to end."""

import math
import shlex
import time
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dlhmc.errors import ExitCode, UserError
from dlhmc.integrators import INTEGRATORS
from dlhmc.kernels import HMC, Exact, InstantonHits, Kernel
from dlhmc.runs import config as configuration
from dlhmc.runs.checkpoint import Checkpoints
from dlhmc.runs.config import SampleConfig
from dlhmc.runs.directory import FORMAT_VERSION, RunDirectory, manifest, read_json, write_json
from dlhmc.runs.engine import Carry, Schedule, advance, begin
from dlhmc.runs.history import History
from dlhmc.runs.interruption import watch_signals
from dlhmc.runs.loop import Work, disk_error, drive, forget_metrics_after
from dlhmc.runs.monitor import Monitor
from dlhmc.runs.progress import Display
from dlhmc.runs.summary import show, summarise
from dlhmc.targets import U1, ExactDraws, Target

_FIRST_GUESS_OF_STEP_SIZE = 0.1
# Records of a chunk wait in memory until it is done: at most this many numbers of each kind.
_BUFFER_NUMBERS = 2**19


class Plan(NamedTuple):
    """What the configuration asks for, as objects."""

    target: Target
    kernel: Kernel
    start_draws: ExactDraws | None
    tune: bool


def plan(config: SampleConfig) -> Plan:
    """Build target and kernel; call it with double precision switched as the configuration says."""
    target = U1(config.lattice, config.beta)
    draws = target.exact_draws()
    kernel: Kernel
    if config.kernel == "exact":
        kernel = Exact(target, draws)
    else:
        step_size = _FIRST_GUESS_OF_STEP_SIZE if config.step_size is None else config.step_size
        kernel = HMC(target, step_size, config.leapfrog_steps, INTEGRATORS[config.integrator])
    if config.hits:
        kernel = InstantonHits(kernel, config.hits)
    tune = config.step_size is None and kernel.tunable_step_size() is not None
    return Plan(target, kernel, draws if config.start == "exact" else None, tune)


def sample(
    config: SampleConfig, path: Path, console: Console, *, quiet: bool = False, show_results: bool = True
) -> ExitCode:
    """Run in a new directory; show progress and the table of results, or not."""
    directory = RunDirectory(path)
    try:
        directory.refuse_if_taken()
        path.mkdir(parents=True, exist_ok=True)
        with directory.locked():
            configuration.save(config, directory.config)
            devices = [f"{device.platform}: {device.device_kind}" for device in jax.devices()]
            write_json(directory.manifest, manifest("sample", config.seed, devices))
            return _run(config, directory, console, quiet=quiet, resuming=False, show_results=show_results)
    except OSError as error:
        raise disk_error(directory, error) from error


def resume(path: Path, console: Console, *, quiet: bool = False) -> ExitCode:
    """Go on with an interrupted run."""
    directory, config = open_run(path)
    try:
        with directory.locked():
            return _run(config, directory, console, quiet=quiet, resuming=True)
    except OSError as error:
        raise disk_error(directory, error) from error


def open_run(path: Path) -> tuple[RunDirectory, SampleConfig]:
    """Directory and configuration of an earlier run."""
    directory = RunDirectory(path)
    directory.require_run()
    written = read_json(directory.manifest).get("format")
    if written != FORMAT_VERSION:
        raise UserError(f"{path} has format {written}, but this version of dlhmc knows {FORMAT_VERSION} only.")
    return directory, configuration.load(SampleConfig, directory.config)


def show_summary(path: Path, console: Console) -> dict[str, Any]:
    """The results so far of a run, finished or not."""
    directory, config = open_run(path)
    with jax.enable_x64(config.float64):
        target = plan(config).target
        step, notes = Checkpoints(directory.checkpoints, create=False).newest_notes()
        rows = step - config.warmup
        if rows < 1:
            raise UserError(f"{path} has no measurements yet: go on with 'dlhmc resume {path}'.")
        summary = summarise(config, target, History.open(directory.history, "r"), rows, notes["seconds"])
        show(summary, target, console)
    if rows < config.trajectories:
        console.print(f"not finished: {rows} of {config.trajectories} trajectories")
    return summary


def _run(
    config: SampleConfig,
    directory: RunDirectory,
    console: Console,
    *,
    quiet: bool,
    resuming: bool,
    show_results: bool = True,
) -> ExitCode:
    def say(text: str) -> None:
        if not quiet:
            console.print(text, markup=False, highlight=False, soft_wrap=True)

    with jax.enable_x64(config.float64), watch_signals() as interruption:
        checkpoints = Checkpoints(directory.checkpoints, create=not resuming)
        work = Sampling(config, directory)
        step = work.resume(checkpoints) if resuming else 0
        if not resuming:
            work.create_history()
            checkpoints.save(0, *work.checkpoint())
        display = Display(console, config.kernel, work.total, quiet=quiet)
        with display.running(step):
            if step < work.total and not interruption:
                work.compile()
            step = drive(work, step, directory, checkpoints, display, interruption, chunk=config.chunk)
        checkpoints.close()
        if step < work.total:
            say(f"stopped after {step} of {work.total} trajectories, all saved; go on with")
            say(f"  dlhmc resume {shlex.quote(str(directory.path))}")
            return interruption.exit_code
        if config.kernel == "hmc":
            say(f"step size {work.step_size:.4g}{' (tuned)' if work.plan.tune else ''}")
        summary = summarise(config, work.plan.target, work.history, config.trajectories, work.seconds)
        write_json(directory.summary, summary)
        if show_results and not quiet:
            show(summary, work.plan.target, console)
            say(f"written to {directory.path}")
    return ExitCode.OK


class Sampling(Work):
    """Trajectories of all chains: first the warm-up, then those that are measured."""

    carry: Carry
    history: History

    def __init__(self, config: SampleConfig, directory: RunDirectory) -> None:
        self._config = config
        self._directory = directory
        self.plan = plan(config)
        self.total = config.warmup + config.trajectories
        self.capacity = max(1, min(self.total, config.chunk or 4096, _BUFFER_NUMBERS // config.chains))
        self._schedule = Schedule(
            jax.device_put(np.uint32(config.seed)),
            jax.device_put(np.int32(config.warmup)),
            jax.device_put(config.target_acceptance),
        )
        kernel, draws = self.plan.kernel, self.plan.start_draws
        self.carry = begin(kernel, draws, self._schedule.seed, config.start, config.chains)
        self.seconds = 0.0
        self._monitor = Monitor(self.plan.target)
        # A configuration is kept after these trajectories (warm-up included): evenly spaced, the last one among them.
        kept = config.keep_configurations
        self._kept_after = [config.warmup + math.ceil((i + 1) * config.trajectories / kept) for i in range(kept)]

    def create_history(self) -> None:
        """The empty history of a new run."""
        config = self._config
        attributes = {"kernel": config.kernel, "lattice": list(config.lattice), "beta": config.beta}
        self.history = History.create(
            self._directory.history,
            config.trajectories,
            self._rows(),
            [step - config.warmup for step in self._kept_after],
            np.asarray(self.carry.state.x),
            attributes,
        )

    def _rows(self) -> dict[str, NDArray[Any]]:
        """A row of each record, for its shape and dtype."""
        _, shapes = eqx.filter_eval_shape(advance, *self._arguments(0, 0))
        return {name: np.zeros(s.shape[1:], s.dtype) for name, s in shapes.items()}

    def resume(self, checkpoints: Checkpoints) -> int:
        """Take up the newest intact checkpoint and return its step."""
        step, self.carry, notes = checkpoints.restore(self.carry)
        self.seconds = float(notes["seconds"])
        self.history = History.open(self._directory.history)
        self.history.check(max(0, step - self._config.warmup), self._rows())
        forget_metrics_after(self._directory.metrics, step)
        return step

    def compile(self) -> None:
        """Compile before the clock starts."""
        self._advance = advance.lower(*self._arguments(0, 0)).compile()  # type: ignore[attr-defined]

    def _arguments(self, step: int, count: int) -> tuple[Any, ...]:
        numbers = (jax.device_put(np.int32(step)), jax.device_put(np.int32(count)))
        return (self.plan.kernel, self._schedule, self.carry, *numbers, self.capacity, self.plan.tune)

    def advance(self, step: int, count: int) -> None:
        """Run trajectories; those after the warm-up go to the history."""
        started = time.perf_counter()
        self.carry, buffers = jax.block_until_ready(self._advance(*self._arguments(step, count)))
        elapsed = time.perf_counter() - started
        skipped = min(max(0, self._config.warmup - step), count)
        if skipped == count:
            return
        rows = {name: np.asarray(buffer)[skipped:count] for name, buffer in buffers.items()}
        self.history.write(step + skipped - self._config.warmup, rows)
        self._monitor.add(rows)
        self.seconds += elapsed * (count - skipped) / count
        if step + count in self._kept_after:
            index = self._kept_after.index(step + count)
            self.history.write_configuration(index, np.asarray(self.carry.state.x))

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
        return self._monitor.metrics() | ({"step_size": self.step_size} if self.plan.tune else {})

    def facts(self) -> str:
        """The same for people."""
        return self._monitor.facts()

    def checkpoint(self) -> tuple[Carry, dict[str, Any]]:
        """Chains, tuner, and the time used."""
        return self.carry, {"seconds": self.seconds}
