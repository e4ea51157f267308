"""A training run from start to end: Algorithm 1 with progress, checkpoints and a model file."""

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Int
from numpy.typing import NDArray
from rich.console import Console

from dlhmc.errors import ExitCode, UserError
from dlhmc.layers import Trajectory
from dlhmc.machine import processes
from dlhmc.machine.devices import Devices, spread
from dlhmc.models import model as models
from dlhmc.models.model import ModelConfig
from dlhmc.names import MaskName, NetworkName, RuleName
from dlhmc.numerics import rng
from dlhmc.numerics.leaves import integer, leaf, on_host
from dlhmc.runs import targets
from dlhmc.runs.boards import require_boards
from dlhmc.runs.checkpoint import Checkpoints, Notes, noted
from dlhmc.runs.config import ObjectTrainConfig, TrainConfig
from dlhmc.runs.directory import RunDirectory, new_run, objects_run, old_run, read_json, write_json
from dlhmc.runs.loop import PLAIN, Conditions, Work, execute
from dlhmc.runs.progress import format_duration
from dlhmc.runs.summary import nonfinite_figures, show_warnings
from dlhmc.storage.files import fingerprint
from dlhmc.targets.contract import ExactDraws
from dlhmc.theories.u1.loss import charge_loss
from dlhmc.theories.u1.radial import default_radii
from dlhmc.training import Algorithm, Inputs, Knots, TrainState, advance, jump_loss, learning_rate, placed

_CAPACITY = 1024
# Averages on the progress line are over about so many steps.
_SHOWN = 200


def train(config: TrainConfig, path: Path, console: Console, conditions: Conditions = PLAIN) -> ExitCode:
    """Train in a new directory."""
    require_boards(tensorboard=config.tensorboard, wandb=config.wandb)
    with jax.enable_x64(config.float64):
        # Before anything is written: a model to start from may not fit.
        prepared = prepare(config, conditions)
        with new_run("train", config, path) as directory:
            work = Training(config, directory, *prepared, describe_model(config))
            return execute(work, directory, console, conditions, resuming=False, chunk=config.chunk)


def train_objects(
    algorithm: Algorithm,
    trajectory: Trajectory,
    description: dict[str, Any],
    config: ObjectTrainConfig,
    path: Path,
    console: Console,
    conditions: Conditions = PLAIN,
    *,
    resuming: bool = False,
) -> tuple["Training", ExitCode]:
    """The same for objects that were made in Python, in the precision that JAX is set to; the work is returned."""
    require_boards(tensorboard=config.tensorboard, wandb=config.wandb)
    devices = Devices(conditions.devices, conditions.split_lattice)
    draws = first_draws(algorithm) if config.start == "exact" else None
    algorithm, trajectory, draws = on_host((algorithm, trajectory, draws))
    devices.require(algorithm.target.shape, config.chains)
    with devices.beginning():
        state = _begin(algorithm, trajectory, draws, config)
    state = devices.copy(state)._replace(x=devices.distribute(state.x))
    with objects_run("train-objects", config, path, resuming=resuming) as directory:
        work = Training(config, directory, algorithm, devices, state, description)
        work.silent = True
        return work, execute(work, directory, console, conditions, resuming=resuming, chunk=config.chunk)


def resume(path: Path, console: Console, conditions: Conditions = PLAIN) -> ExitCode:
    """Go on with an interrupted training run."""
    with old_run("train", TrainConfig, path) as (directory, config), jax.enable_x64(config.float64):
        require_boards(tensorboard=config.tensorboard, wandb=config.wandb)
        # The parameters come from the checkpoint; the model once started from may be gone.
        prepared = prepare(dataclasses.replace(config, model=None), conditions)
        work = Training(config, directory, *prepared, describe_model(config))
        return execute(work, directory, console, conditions, resuming=True, chunk=config.chunk)


def prepare(config: TrainConfig, conditions: Conditions) -> tuple[Algorithm, Devices, TrainState]:
    """Algorithm and first state, on the devices wanted."""
    devices = Devices(conditions.devices, conditions.split_lattice)
    algorithm, draws = on_host(plan(config))
    devices.require(algorithm.target.shape, config.chains)
    with devices.beginning():
        state = begin_state(config, algorithm, draws)
    return algorithm, devices, devices.copy(state)._replace(x=devices.distribute(state.x))


def compiled_chunk(config: TrainConfig, conditions: Conditions) -> Callable[[], None]:
    """The device's part of a chunk of a run, compiled; training goes on with each call: for benchmarks."""
    algorithm, devices, state = prepare(config, conditions)
    number = config.chunk or 1
    inputs = Inputs(algorithm, integer(config.seed, np.uint32), integer(0), integer(number))
    with devices.active():
        compiled = advance.lower(inputs, state, number).compile()  # type: ignore[attr-defined]
    latest = [state]  # the one before is used up

    def run() -> None:
        with devices.active():
            latest[0], _ = jax.block_until_ready(compiled(inputs, latest[0], number))

    return run


def plan(config: TrainConfig) -> tuple[Algorithm, ExactDraws | None]:
    """The inputs of Algorithm 1, and exact draws at the first coupling if the chains start from them."""
    target = targets.build(config)
    until = round(config.anneal * config.steps)
    if config.gamma_knots:
        pairs = zip(config.gamma_knots[0::2], config.gamma_knots[1::2], strict=True)
        gamma = Knots([(fraction * config.steps, value) for fraction, value in pairs])
    else:
        gamma = Knots.linear(config.gamma_start, 1.0, until)
    beta = None
    if config.beta_start is not None and config.beta is not None:
        beta = Knots.linear(config.beta_start, config.beta, until)
    rate = learning_rate(config.rate_schedule, config.learning_rate, config.steps, config.rate_warmup)
    optimiser = optax.chain(optax.clip_by_global_norm(config.clip), optax.adam(rate))
    algorithm = Algorithm(
        target, gamma, beta, {"charge": charge_loss, "jump": jump_loss}[config.loss], optimiser, config.symmetric
    )
    return algorithm, first_draws(algorithm) if config.start == "exact" else None


def first_draws(algorithm: Algorithm) -> ExactDraws:
    """Exact draws from the target of the first step."""
    first = algorithm.target_at(jnp.zeros((), jnp.int32))
    return targets.require_draws(jax.tree.map(lambda a: leaf(np.asarray(a)), first).exact_draws())


def estimate(config: TrainConfig, console: Console) -> None:
    """Print what a run would take: parameters, memory, and time from a measured step."""
    with jax.enable_x64(config.float64):
        algorithm, draws = plan(config)
        state = begin_state(dataclasses.replace(config, burn_in=0), algorithm, draws)
        started = time.perf_counter()
        one = integer(1)
        inputs = Inputs(algorithm, integer(0, np.uint32), one, one)
        compiled = advance.lower(inputs, state, 1).compile()  # type: ignore[attr-defined]
        compilation = time.perf_counter() - started
        state, _ = jax.block_until_ready(compiled(inputs, state, 1))
        started = time.perf_counter()
        state, _ = jax.block_until_ready(compiled(inputs, state, 1))
        seconds = time.perf_counter() - started
    leaves = jax.tree.leaves(eqx.filter(state.trajectory, eqx.is_inexact_array))
    arrays = jax.tree.leaves(eqx.filter(state, eqx.is_array))
    analysis = compiled.compiled.memory_analysis()
    working = analysis.temp_size_in_bytes if analysis is not None else 0
    total = (sum(a.nbytes for a in arrays) * 2 + working) / 1e9
    lines = (
        f"{sum(a.size for a in leaves):,} parameters",
        f"about {total:.2g} GB of memory",
        f"{seconds:.3g} s a step on this machine, {compilation:.0f} s to compile: "
        f"{format_duration(seconds * config.steps)} for {config.steps:,} steps",
    )
    for line in lines:
        console.print(line, highlight=False)


def model_config(config: TrainConfig) -> ModelConfig:
    """The part of the settings that the model is built from."""
    return default_model(
        config.beta,
        network=config.network,
        leapfrog_steps=config.leapfrog_steps,
        hidden=config.hidden,
        rule=config.rule,
        mask=config.mask,
        step_size=config.step_size,
        radii=config.radii,
        flux=config.flux,
        window=config.window,
    )


def default_model(
    beta: float | None,
    *,
    network: NetworkName,
    leapfrog_steps: int,
    hidden: tuple[int, ...],
    rule: RuleName,
    mask: MaskName,
    step_size: float | None,
    radii: tuple[float, ...],
    flux: float,
    window: int,
) -> ModelConfig:
    """What a model is built from, with lengths that suit the coupling where they are not given."""
    own_step_size, own_radii, hole = 0.1, tuple[float, ...](), 0.0
    if network != "dense" and beta is not None:
        # The correlation length grows with √β, and with it the hole; the fastest mode has the period π/√(2β).
        root = math.sqrt(beta)
        own_step_size, own_radii, hole = 0.4 / root, default_radii(3 * root), 0.19 * root
    return ModelConfig(
        network=network,
        leapfrog_steps=leapfrog_steps,
        hidden=hidden,
        rule=rule,
        mask=mask,
        step_size=step_size or own_step_size,
        radii=radii or own_radii,
        hole=hole,
        flux=flux,
        window=window,
    )


def describe_model(config: TrainConfig) -> dict[str, Any]:
    """What a model file says about itself."""
    return {
        "model": dataclasses.asdict(model_config(config)),
        "target": targets.describe(config),
        "symmetric": config.symmetric,
    }


def begin_state(config: TrainConfig, algorithm: Algorithm, draws: ExactDraws | None) -> TrainState:
    """Parameters, chains and optimiser before the first step, burn-in included."""
    seed = integer(config.seed, np.uint32)
    build = eqx.filter_jit(lambda s: models.build(model_config(config), algorithm.target, _model_key(s)))
    trajectory = build(seed)
    if config.model is not None:
        file = models.find(config.model)
        targets.require_target_of_model(file, config.target, config.lattice)
        targets.require_layers_of_model(file, model_config(config))
        trajectory = models.load(file, trajectory)
    return _begin(algorithm, trajectory, draws, config)


def _begin(
    algorithm: Algorithm, trajectory: Trajectory, draws: ExactDraws | None, config: TrainConfig | ObjectTrainConfig
) -> TrainState:
    seed = integer(config.seed, np.uint32)

    @eqx.filter_jit
    def begin(algorithm: Algorithm, trajectory: Any, draws: ExactDraws | None, seed: Array) -> TrainState:
        dtype = jnp.dtype(jnp.result_type(float))
        key = rng.step_key(seed, rng.Purpose.START, jnp.zeros((), jnp.uint32))
        if draws is not None:
            x = draws.draw(key, config.chains, dtype)
        else:
            x = algorithm.target.start(key, config.start, config.chains, dtype)
        state = placed(algorithm.begin(trajectory, spread(x)))
        arrays, static = eqx.partition(state, eqx.is_array)

        def burn(index: Array, arrays: Any) -> Any:
            return eqx.filter(algorithm.burn_in(seed, index, eqx.combine(arrays, static)), eqx.is_array)

        return placed(eqx.combine(jax.lax.fori_loop(0, config.burn_in, burn, arrays), static))

    return begin(algorithm, trajectory, draws, seed)


def _model_key(seed: Int[Array, ""]) -> Array:
    return rng.step_key(seed, rng.Purpose.MODEL, jnp.zeros((), jnp.uint32))


def show_results(path: Path, console: Console) -> dict[str, Any]:
    """The results of a finished training run."""
    directory = RunDirectory(path)
    if not directory.summary.exists():
        raise UserError(f"{path} has no trained model yet: go on with 'dlhmc resume {path}'.")
    results = read_json(directory.summary, directory.identity())
    try:
        for name, value in results.items():
            if isinstance(value, int | float):
                console.print(f"{name.replace('_', ' '):<20} {value:.4g}", markup=False, highlight=False)
        show_warnings(results, console)
    except (KeyError, TypeError, OverflowError) as error:
        raise UserError(f"{directory.summary} is damaged or of another version of dlhmc: {error!r}.") from None
    return results


def _require_sense(_: int, notes: Notes) -> None:
    """Refuse notes that no run has written."""
    noted(notes, "seconds", float)
    noted(notes, "nonfinite", int)
    recent = noted(notes, "recent", dict).values()
    if not all(type(rows) is list and all(type(row) in (int, float, type(None)) for row in rows) for rows in recent):
        raise UserError("Its notes are damaged: 'recent' makes no sense.")


class Training(Work):
    """Steps of Algorithm 1."""

    def __init__(
        self,
        config: TrainConfig | ObjectTrainConfig,
        directory: RunDirectory,
        algorithm: Algorithm,
        devices: Devices,
        state: TrainState,
        description: dict[str, Any],
    ) -> None:
        self._config = config
        self._devices = devices
        self._description = description
        self._directory = directory
        self._algorithm = algorithm
        self.state = state
        what = config.network if isinstance(config, TrainConfig) else config.trajectory
        self.title, self.unit = f"train {what}", "steps"
        self.total = config.steps
        self.tensorboard, self.wandb = config.tensorboard, config.wandb
        self.capacity = config.chunk or _CAPACITY
        self.seconds = 0.0
        self.steps_done = 0
        self._recent: dict[str, NDArray[Any]] = {}
        #: of every step since the run was started or resumed, for those who called it from Python
        self.records: list[dict[str, NDArray[Any]]] = []
        #: proposals that were not finite, since the first step
        self._nonfinite = 0
        self._seed = integer(config.seed, np.uint32)

    def create(self) -> None:
        """Nothing but the checkpoint."""

    def resume(self, checkpoints: Checkpoints) -> tuple[int, dict[str, Any]]:
        """Parameters, optimiser, chains, guard, good and best parameters."""
        arrays, static = eqx.partition(self.state, eqx.is_array)
        step, arrays, notes = checkpoints.restore(arrays, _require_sense)
        self.state = eqx.combine(arrays, static)
        self.seconds, self.steps_done, self._nonfinite = notes["seconds"], step, notes["nonfinite"]
        # None becomes NaN.
        self._recent = {name: np.asarray(rows, self.state.x.dtype) for name, rows in notes["recent"].items()}
        return step, notes

    def compile(self) -> None:
        """Compile before the clock starts."""
        with self._devices.active():
            self._advance = advance.lower(*self._arguments(0, 0)).compile()  # type: ignore[attr-defined]

    def _arguments(self, step: int, count: int) -> tuple[Any, ...]:
        numbers = (integer(step), integer(count))
        return Inputs(self._algorithm, self._seed, *numbers), self.state, self.capacity

    def advance(self, step: int, count: int) -> None:
        """Train, and keep what the progress line needs."""
        started = time.perf_counter()
        with self._devices.active():
            self.state, buffers = jax.block_until_ready(self._advance(*self._arguments(step, count)))
        self.seconds += time.perf_counter() - started
        self.steps_done = step + count
        # Copies: a view would keep the whole buffer in memory.
        records = {name: np.asarray(buffer)[:count].copy() for name, buffer in buffers.items()}
        if isinstance(self._config, ObjectTrainConfig):
            self.records.append(records)
        self._nonfinite += int(records["nonfinite"].sum())
        for name, rows in records.items():
            self._recent[name] = np.concatenate([self._recent.get(name, rows[:0]), rows])[-_SHOWN:]

    def metrics(self) -> dict[str, float]:
        """Averages over the last steps, and what the guards have counted."""
        guard = self.state.guard
        means = {name: float(rows.mean()) for name, rows in self._recent.items()}
        finite = {name: value for name, value in means.items() if np.isfinite(value)}
        return finite | {
            "gamma": float(self._recent["gamma"][-1]),
            "skipped": int(guard.skipped),
            "restored": int(guard.restored),
            "rate_factor": float(guard.rate_factor),
        }

    def facts(self) -> str:
        """The same for people."""
        m = self.metrics()
        parts = [f"γ {m['gamma']:.3f}", f"loss {m.get('loss', float('nan')):.4g}", f"acceptance {m['acceptance']:.3f}"]
        if "tunnelling_rate" in m:
            parts += [f"⟨δQ²⟩ {m['charge_jump_squared']:.3g}"] if "charge_jump_squared" in m else []
            parts.append(f"tunnelling {m['tunnelling_rate']:.3g}")
        if m["skipped"]:
            parts.append(f"[gradient not finite: {m['skipped']:.0f} skipped]")
        if m["restored"]:
            parts.append(f"[acceptance collapsed: restored {m['restored']:.0f}×, rate × {m['rate_factor']:g}]")
        return "  ".join(parts)

    def verdict(self) -> str | None:
        """Why training has given up, where it has."""
        guard = self.state.guard
        if not bool(guard.halted):
            return None
        self._save_model("good")
        why = "the gradient was not finite" if int(guard.skipped_in_a_row) else "the acceptance collapsed"
        return (
            f"Training stopped because {why} again and again; the last good parameters are in "
            f"{self._directory.model}: start anew with a lower --learning-rate or a smaller --step-size."
        )

    def checkpoint(self) -> tuple[Any, dict[str, Any]]:
        """The whole state, and what the metrics need: averages do not begin afresh when a run goes on."""
        recent = {
            name: [row if math.isfinite(row) else None for row in rows.tolist()] for name, rows in self._recent.items()
        }
        notes = {"seconds": self.seconds, "recent": recent, "nonfinite": self._nonfinite}
        return eqx.filter(self.state, eqx.is_array), notes

    def _warnings(self) -> dict[str, Any]:
        """Proposals and gradients that were not finite."""
        figures = nonfinite_figures(self._nonfinite, self._config.steps * self._config.chains)
        if skipped := int(self.state.guard.skipped):
            warning = f"{skipped} of {self._config.steps} updates were skipped because the gradient was not finite."
            figures["warnings"].append(warning)
        return figures

    def _save_model(self, which: str) -> None:
        if not processes.is_first():
            return
        best = float(self.state.guard.best_objective)
        training = {
            "steps": self._config.steps,
            "seconds": self.seconds,
            "parameters": which,
            "objective": best if np.isfinite(best) else None,
        }
        models.save(self._directory.model, getattr(self.state, which), self._description | {"training": training})

    @property
    def best(self) -> Trajectory:
        """The parameters with the best objective; the last ones if training was too short to tell."""
        return self.state.best if np.isfinite(float(self.state.guard.best_objective)) else self.state.trajectory

    def finish(self, console: Console) -> None:
        """Write the model with the best objective, and say how to use it."""
        m, warnings = self.metrics(), self._warnings()
        which = "best" if np.isfinite(float(self.state.guard.best_objective)) else "trajectory"
        last = jax.tree.leaves(eqx.filter(self.state.trajectory, eqx.is_array))
        if not all(np.isfinite(np.asarray(a)).all() for a in last):
            warnings["warnings"].append("The last parameters are not finite; the model holds earlier ones.")
            which = "best" if which == "best" else "good"
        self._save_model(which)
        saved = {
            "seconds": self.seconds,
            "steps": self._config.steps,
            "model_sha256": fingerprint(self._directory.model),
        }
        write_json(self._directory.summary, m | saved | warnings, self._directory.identity())
        if isinstance(self._config, ObjectTrainConfig):
            return
        model, target = self._directory.path, f"--target {self._config.target}"
        if self._config.lattice is not None:
            target = f"--lattice {' '.join(map(str, self._config.lattice))} --beta {self._config.beta:g}"
        command = f"  dlhmc sample --model {model} {target}"
        console.print(f"{self.facts()}  in {self.seconds:.0f} s", markup=False, highlight=False, soft_wrap=True)
        show_warnings(warnings, console)
        console.print(f"trained model in {model}; sample with", markup=False, highlight=False, soft_wrap=True)
        console.print(command, markup=False, highlight=False, soft_wrap=True)
