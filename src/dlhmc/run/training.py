"""A training run from start to end: Algorithm 1 with progress, checkpoints and a model file."""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray
from rich.console import Console

from dlhmc.errors import ExitCode, Setting, UserError
from dlhmc.geometry.contract import Field, real_dtype
from dlhmc.kernels import DLHMC
from dlhmc.layers import Trajectory
from dlhmc.models import model
from dlhmc.names import Start
from dlhmc.numerics import rng
from dlhmc.numerics.devices import spread
from dlhmc.numerics.leaves import integer, leaf, on_host
from dlhmc.run import processes
from dlhmc.run.checkpoint import Checkpoints, Notes
from dlhmc.run.describe import checksum
from dlhmc.run.devices import Devices
from dlhmc.run.directory import Place, RunDirectory, open_run, read_json, run_directory, write_json
from dlhmc.run.driver import PLAIN, ExecutionOptions, Work, execute
from dlhmc.run.metrics import TensorBoard, WeightsAndBiases, require_loggers
from dlhmc.run.needs import find_needs, require_room, show_needs
from dlhmc.run.sampling import first_draws
from dlhmc.run.settings import TrainAmounts, stage_ends
from dlhmc.run.show import show_warnings
from dlhmc.run.sink import Saved, Sink
from dlhmc.run.summary import nonfinite_figures
from dlhmc.settings import converted
from dlhmc.targets.contract import ExactDraws
from dlhmc.training import Algorithm, Inputs, LaterStage, TrainState, advance, placed

_CAPACITY = 1024
# Whoever leaves its sector this often has learned it; others are compared with where they began, in so many steps.
_OFTEN, _COMPARED = 0.2, 50
# Averages on the progress line are over about so many steps.
_SHOWN = 200
# Curves have a point at every step up to this one, then so many for each factor of ten.
_EVERY_STEP = 100
_POINTS_PER_DECADE = 64


def train(
    algorithm: Algorithm,
    trajectory: Trajectory,
    amounts: TrainAmounts,
    description: Mapping[str, Any],
    place: Place | None,
    console: Console,
    options: ExecutionOptions = PLAIN,
    *,
    silent: bool = False,
    later: Sequence[LaterStage] = (),
) -> tuple["Training", ExitCode]:
    """Train in the precision that JAX is set to, in this stage and later ones; the work is returned.

    `description` is what the model file will say of itself. Without a place everything stays in memory. A silent run
    keeps its records for the one who called it, and prints nothing at its end.
    """
    require_loggers(tensorboard=amounts.tensorboard, wandb=amounts.wandb)
    work = Training(Stages(algorithm, trajectory, tuple(later), amounts, options), dict(description), silent=silent)
    opened = nullcontext() if place is None else run_directory("train", place, checksum(algorithm.target))
    resuming = place is not None and place.resuming
    with opened as directory:
        return work, execute(work, directory, console, options, resuming=resuming, chunk=amounts.chunk)


def prepare(
    algorithm: Algorithm, trajectory: Trajectory, amounts: TrainAmounts, options: ExecutionOptions = PLAIN
) -> tuple[Devices, TrainState]:
    """The first state, on the devices wanted."""
    require_room(algorithm.target, amounts.chains)
    devices = Devices(options.devices, options.split_lattice)
    draws = None
    if amounts.start not in ("hot", "cold"):
        first = algorithm.target_at(jnp.zeros((), jnp.int32))
        first = jax.tree.map(lambda a: leaf(np.asarray(a)), first)
        draws = first.known.approximate_draws(first) if amounts.start is None else first_draws(first, amounts.start)
    algorithm, trajectory, draws = on_host((algorithm, trajectory, draws))
    devices.require(algorithm.target.geometry.shape, amounts.chains)
    with devices.beginning():
        numbers = integer(amounts.seed, np.uint32), integer(amounts.burn_in)
        state = _begin(algorithm, trajectory, draws, *numbers, amounts.start or "hot", amounts.chains)
    return devices, devices.copy(state)._replace(x=devices.distribute(state.x))


@eqx.filter_jit
def _begin(
    algorithm: Algorithm,
    trajectory: Any,
    draws: ExactDraws | None,
    seed: Array,
    burn_in: Array,
    start: Start,
    chains: int,
) -> TrainState:
    """Parameters, chains and optimiser before the first step, burn-in included."""
    dtype = jnp.dtype(jnp.result_type(float))
    key = rng.step_key(seed, rng.Purpose.START, jnp.zeros((), jnp.uint32))
    x = algorithm.target.start(key, start, chains, dtype) if draws is None else draws.draw(key, chains, dtype)
    state = placed(algorithm.begin(trajectory, spread(x)))
    arrays, static = eqx.partition(state, eqx.is_array)

    def burn(index: Array, arrays: Any) -> Any:
        return eqx.filter(algorithm.burn_in(seed, index, eqx.combine(arrays, static)), eqx.is_array)

    return placed(eqx.combine(jax.lax.fori_loop(0, burn_in, burn, arrays), static))


def estimate(algorithm: Algorithm, trajectory: Trajectory, amounts: TrainAmounts, console: Console) -> None:
    """Print what a run would take: parameters, memory, and time from a measured step."""
    work = Training(Stages(algorithm, trajectory, (), amounts, PLAIN), {})
    leaves = jax.tree.leaves(eqx.filter(trajectory, eqx.is_inexact_array))

    def step(program: Any) -> None:
        work._program = program
        work.advance(0, 1)

    needs = find_needs(algorithm.target, amounts.chains, work.program, step)
    more = {"parameters": f"{sum(a.size for a in leaves):,}"}
    show_needs(needs, more, amounts.total, "steps", console)


def show_results(path: Path, console: Console) -> dict[str, Any]:
    """The results of a finished training run."""
    directory, _ = open_run("train", path)
    if not directory.summary.exists():
        raise UserError(f"{path} has no trained model yet: go on with 'dlhmc resume {path}'.")
    results = read_json(directory.summary)
    try:
        for name, value in results.items():
            if isinstance(value, int | float):
                console.print(f"{name.replace('_', ' '):<20} {value:.4g}", markup=False, highlight=False)
        show_warnings(results, console)
    except (KeyError, TypeError, OverflowError) as error:
        raise UserError(f"{directory.summary} is damaged or of another version of dlhmc: {error!r}.") from None
    return results


def curve_steps(first: int, last: int) -> list[tuple[int, int]]:
    """Steps after `first` up to `last` at which curves have a point, each after the one before it.

    Every step of the first hundred, then evenly spaced on a logarithmic scale.

    >>> curve_steps(98, 112)
    [(98, 99), (99, 100), (100, 104), (104, 107), (107, 111)]
    """
    found, before, power = [], min(first, _EVERY_STEP), 0
    while before < last:
        power += before >= _EVERY_STEP
        at = before + 1 if before < _EVERY_STEP else round(_EVERY_STEP * 10 ** (power / _POINTS_PER_DECADE))
        if first < at <= last:
            found.append((before, at))
        before = at
    return found


@eqx.filter_jit
def _tunnelling(kernel: DLHMC, x: Field, seed: Array) -> Array:
    """The fraction of trajectories that change the sector."""
    sector: Any = kernel.target.known.sector

    def step(index: Array, carried: tuple[Field, Array]) -> tuple[Field, Array]:
        x, changes = carried
        new, _ = kernel.step(rng.step_key(seed, rng.Purpose.BURN_IN, index), kernel.init(x))
        before, after = (kernel.target.observables(y)[sector] for y in (x, new.x))
        return new.x, changes + jnp.mean((before != after).astype(changes.dtype))

    return jax.lax.fori_loop(0, _COMPARED, step, (x, jnp.zeros((), real_dtype(x))))[1] / _COMPARED


class _Notes(TypedDict):
    """What a checkpoint notes about its step; others may be in it, too."""

    seconds: float
    nonfinite: int
    recent: dict[str, list[float | None]]
    #: what the curves of a report are made of
    curve: NotRequired[list[dict[str, float]]]
    #: all steps there were to be
    steps: NotRequired[int]


class Stages(NamedTuple):
    """All that a training begins with; stages take turns after the same number of steps."""

    algorithm: Algorithm
    trajectory: Trajectory
    later: tuple[LaterStage, ...]
    amounts: TrainAmounts
    options: ExecutionOptions

    def begin(self, stage: int, trained: Trajectory) -> tuple[Algorithm, Devices, TrainState]:
        """The first state of a stage; `trained` are the layers of the one before."""
        algorithm, trajectory = self.algorithm, self.trajectory
        if stage:
            algorithm, grow = self.later[stage - 1]
            trajectory = grow(trained, algorithm.target)
        devices, state = prepare(algorithm, trajectory, self.amounts, self.options)
        return on_host(algorithm), devices, state

    def end(self, stage: int) -> int:
        """The step after which it ends."""
        return stage_ends(self.amounts.total, 1 + len(self.later))[stage]

    def at(self, step: int) -> int:
        """The stage of a step."""
        return next((stage for stage in range(len(self.later)) if step < self.end(stage)), len(self.later))


class Training(Work):
    """Steps of Algorithm 1."""

    unit = "steps"

    def __init__(self, stages: Stages, description: dict[str, Any], *, silent: bool = False) -> None:
        self._stages, self._amounts = stages, stages.amounts
        self._stage = 0
        self._algorithm, self._devices, self.training = stages.begin(0, stages.trajectory)
        self._description = description
        self._silent = silent
        self._directory: RunDirectory | None = None
        amounts = self._amounts
        described = description.get("network") or {}
        self.title = f"train {described.get('name', type(self.training.trajectory).__name__)}"
        self.total = amounts.total
        self.capacity = _CAPACITY
        self._program: Any = advance
        self.seconds = 0.0
        self.steps_done = 0
        self._recent: dict[str, NDArray[Any]] = {}
        #: of every step since the run was started or resumed, for those who called it from Python
        self.records: list[dict[str, NDArray[Any]]] = []
        #: proposals that were not finite, since the first step
        self._nonfinite = 0
        #: records at `curve_steps`, each an average since the one before
        self._curve: list[dict[str, float]] = []
        self._seed = integer(amounts.seed, np.uint32)

    def create(self, directory: RunDirectory | None) -> None:
        """Nothing but the checkpoint."""
        self._directory = directory

    def resume(self, directory: RunDirectory, checkpoints: Checkpoints) -> int:
        """Parameters, optimiser, chains, guard, good and best parameters."""
        self._directory = directory
        step, arrays, notes = checkpoints.restore(self._like, self._check)
        self.training = eqx.combine(arrays, eqx.filter(self.training, eqx.is_array, inverse=True))
        self.seconds, self.steps_done, self._nonfinite = notes["seconds"], step, notes["nonfinite"]
        self._curve = notes.get("curve", [])
        # None becomes NaN.
        self._recent = {name: np.asarray(rows, real_dtype(self.training.x)) for name, rows in notes["recent"].items()}
        return step

    def _check(self, step: int, notes: Notes) -> None:
        """Stages that are over cannot become longer."""
        converted(notes, _Notes, "What a checkpoint notes")
        if self._stages.later and notes.get("steps", self.total) != self.total:
            raise UserError("a training in several stages has its steps: train on from its model instead")

    def sinks(self, directory: RunDirectory, step: int) -> list[Sink]:
        """TensorBoard and Weights & Biases, where they are asked for."""
        found: list[Sink] = [TensorBoard(directory.tensorboard, step)] if self._amounts.tensorboard else []
        return [*found, WeightsAndBiases(directory.path)] if self._amounts.wandb else found

    def _like(self, step: int) -> Any:
        """What a checkpoint of this step looks like."""
        for stage in range(self._stages.at(step) + 1):
            self._begin(stage)
        return eqx.filter(self.training, eqx.is_array)

    def _begin(self, stage: int) -> None:
        self._stage = stage
        self._algorithm, self._devices, self.training = self._stages.begin(stage, self.best)

    def next_stop(self, step: int) -> int:
        """The end of the stage."""
        return self._stages.end(self._stages.at(step))

    def inspect(self, step: int) -> None:
        """Go on to the next stage, unless there is nothing that it could grow from."""
        if step < self.total and step == self._stages.end(self._stage) and not self._has_lost_its_signal():
            self._begin(self._stage + 1)
            self.compile()

    def _has_lost_its_signal(self) -> bool:
        """Whether nothing leaves its sector: no loss could teach it."""
        rates = self._recent.get("tunnelling_rate")
        return rates is not None and len(rates) > 0 and not np.any(rates)

    def program(self) -> Any:
        """The compiled chunk."""
        with self._devices.active():
            return advance.lower(*self._arguments(0, 0)).compile()  # type: ignore[attr-defined]

    def compile(self) -> None:
        """Compile before the clock starts, unless an earlier run has: a chunk of nothing."""
        self._run(0, 0)

    def _run(self, step: int, count: int) -> dict[str, Array]:
        with self._devices.active():
            self.training, buffers = jax.block_until_ready(self._program(*self._arguments(step, count)))
        return buffers

    def _arguments(self, step: int, count: int) -> tuple[Any, ...]:
        numbers = (integer(step), integer(count))
        return Inputs(self._algorithm, self._seed, *numbers), self.training, self.capacity

    def advance(self, step: int, count: int) -> None:
        """Train, and keep what the progress line needs."""
        started = time.perf_counter()
        buffers = self._run(step, count)
        self.seconds += time.perf_counter() - started
        self.steps_done = step + count
        # Copies: a view would keep the whole buffer in memory.
        records = {name: np.asarray(buffer)[:count].copy() for name, buffer in buffers.items()}
        if self._silent:
            self.records.append(records)
        self._nonfinite += int(records["nonfinite"].sum())
        kept = len(next(iter(self._recent.values()), ()))
        rows = {name: np.concatenate([self._recent.get(name, new[:0]), new]) for name, new in records.items()}
        for before, at in curve_steps(step, step + count):
            end = kept + at - step
            means = {
                name: float(row[max(0, end - min(at - before, _SHOWN)) : end].mean()) for name, row in rows.items()
            }
            finite = {name: value for name, value in means.items() if math.isfinite(value)}
            self._curve.append(finite | {"step": float(at), "rate_factor": float(self.training.guard.rate_factor)})
        self._recent = {name: row[-_SHOWN:] for name, row in rows.items()}

    def figures(self) -> dict[str, float]:
        """Averages over the last steps, and what the guards have counted."""
        guard = self.training.guard
        means = {name: float(rows.mean()) for name, rows in self._recent.items()}
        finite = {name: value for name, value in means.items() if np.isfinite(value)}
        return finite | {
            **{name: float(self._recent[name][-1]) for name in ("gamma",) if name in self._recent},
            "skipped": int(guard.skipped),
            "restored": int(guard.restored),
            "rate_factor": float(guard.rate_factor),
        }

    def words(self) -> str:
        """The same for people."""
        m = self.figures()
        parts = [f"γ {m['gamma']:.3f}"] if "gamma" in m else []
        parts += [f"loss {m.get('loss', float('nan')):.4g}", f"acceptance {m['acceptance']:.3f}"]
        if "tunnelling_rate" in m:
            sector = self._algorithm.target.known.sector
            parts += [f"⟨(Δ{sector})²⟩ {m.get(f'{sector}_jump_squared', math.nan):.3g}"]
            parts.append(f"tunnelling {m['tunnelling_rate']:.3g}")
        if m["skipped"]:
            parts.append(f"[gradient not finite: {m['skipped']:.0f} skipped]")
        if m["restored"]:
            parts.append(f"[acceptance collapsed: restored {m['restored']:.0f}×, rate × {m['rate_factor']:g}]")
        return "  ".join(parts)

    def verdict(self) -> UserError | None:
        """Why training has given up, where it has."""
        guard = self.training.guard
        ended = self.steps_done < self.total and self.steps_done == self._stages.end(self._stage)
        if ended and self._has_lost_its_signal():
            return UserError(
                f"Training stopped at step {self.steps_done}: nothing leaves its sector any more, so there is nothing "
                f"to learn from; begin with a lower {Setting('gamma_start')}, or take more {Setting('steps')}."
            )
        if not bool(guard.halted):
            return None
        saved = self._save_model("good")
        why = "the gradient was not finite" if int(guard.skipped_in_a_row) else "the acceptance collapsed"
        kept = "" if saved is None else f"; the last good parameters are in {saved}"
        return UserError(
            f"Training stopped because {why} again and again{kept}: start anew with a lower "
            f"{Setting('learning_rate')} or a smaller {Setting('step_size')}."
        )

    def state(self) -> Saved:
        """The whole state, and what the metrics need: averages do not begin afresh when a run goes on."""
        recent = {
            name: [row if math.isfinite(row) else None for row in rows.tolist()] for name, rows in self._recent.items()
        }
        notes = {
            "seconds": self.seconds,
            "recent": recent,
            "nonfinite": self._nonfinite,
            "curve": self._curve,
            "steps": self.total,
        }
        return eqx.filter(self.training, eqx.is_array), notes

    def _warnings(self) -> dict[str, Any]:
        """Proposals and gradients that were not finite."""
        figures = nonfinite_figures(self._nonfinite, self.total * self._amounts.chains)
        if skipped := int(self.training.guard.skipped):
            warning = f"{skipped} of {self.total} updates were skipped because the gradient was not finite."
            figures["warnings"].append(warning)
        return figures

    def _stays_in_sectors(self) -> list[str]:
        """A warning where sectors change no more often than with the parameters that training began with."""
        rates = self._recent.get("tunnelling_rate")
        if rates is None or len(rates) < _SHOWN or rates.mean() > _OFTEN:
            return []
        kernel = DLHMC(self._algorithm.target, self._stages.trajectory)
        with self._devices.active():
            before = float(_tunnelling(kernel, self.training.x, self._seed))
        if rates.mean() > 2 * before:
            return []
        return [
            f"Nothing was learned about leaving sectors: they change in {rates.mean():.2g} of the trajectories, before "
            f"training in {before:.2g}. More steps, a lower γ at the beginning or networks in windows may help."
        ]

    def _save_model(self, which: str) -> Path | None:
        """Write the model; its file, where there is one."""
        if self._directory is None or self._stage < len(self._stages.later):
            return None  # layers of an earlier stage are not those that the description is about
        if processes.is_first():
            best = float(self.training.guard.best_objective)
            training = {
                "steps": self.total,
                "seconds": self.seconds,
                "parameters": which,
                "objective": best if np.isfinite(best) else None,
            }
            trained = getattr(self.training, which)
            model.save(self._directory.model, trained, self._description | {"training": training})
        return self._directory.model

    @property
    def best(self) -> Trajectory:
        """The parameters with the best objective; the last ones if training was too short to tell."""
        return (
            self.training.best if np.isfinite(float(self.training.guard.best_objective)) else self.training.trajectory
        )

    def finish(self, directory: RunDirectory | None, console: Console) -> ExitCode:
        """Write the model with the best objective, and say how to use it."""
        figures, warnings = self.figures(), self._warnings()
        which = "best" if np.isfinite(float(self.training.guard.best_objective)) else "trajectory"
        last = jax.tree.leaves(eqx.filter(self.training.trajectory, eqx.is_array))
        if not all(np.isfinite(np.asarray(a)).all() for a in last):
            warnings["warnings"].append("The last parameters are not finite; the model holds earlier ones.")
            which = "best" if which == "best" else "good"
        warnings["warnings"] += self._stays_in_sectors()
        path = self._save_model(which)
        if directory is not None:
            write_json(directory.summary, figures | {"seconds": self.seconds, "steps": self.total} | warnings)
        if self._silent:
            return ExitCode.OK
        console.out(f"{self.words()}  in {self.seconds:.0f} s", highlight=False)
        show_warnings(warnings, console)
        if path is not None:
            theory = self._description.get("target", {}).get("name", "THEORY")
            console.out(f"trained model in {path.parent}; sample with", highlight=False)
            console.out(f"  dlhmc sample {theory} --model {path.parent}", highlight=False)
        return ExitCode.OK
