"""A training run from start to end: Algorithm 1 with progress, checkpoints and a model file."""

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray
from rich.console import Console

from dlhmc.errors import ExitCode, Setting, UserError
from dlhmc.geometry.contract import Field
from dlhmc.kernels import DLHMC
from dlhmc.layers import Trajectory
from dlhmc.models import model
from dlhmc.names import Start
from dlhmc.numerics import rng
from dlhmc.numerics.devices import spread
from dlhmc.numerics.leaves import integer, leaf, on_host
from dlhmc.run import processes
from dlhmc.run.checkpoint import Checkpoints, Notes
from dlhmc.run.configurations import first_draws
from dlhmc.run.describe import checksum
from dlhmc.run.devices import Devices
from dlhmc.run.directory import Place, open_run, read_json, write_json
from dlhmc.run.driver import PLAIN, ExecutionOptions, Run, execute
from dlhmc.run.metrics import TensorBoard, WeightsAndBiases, require_loggers
from dlhmc.run.needs import require_room, show_needs
from dlhmc.run.settings import TrainAmounts, stage_ends
from dlhmc.run.show import show_warnings
from dlhmc.run.sink import Saved, Sink
from dlhmc.run.summary import nonfinite_figures
from dlhmc.settings import converted
from dlhmc.targets.contract import ExactDraws
from dlhmc.training import Algorithm, Inputs, LaterStage, TrainState, advance, placed

_CAPACITY = 1024
# Averages on the progress line are over about so many steps.
_SHOWN = 200
# Sectors that change this often need no look; else so many trajectories tell how often they did before training.
_OFTEN, _COMPARED = 0.2, 50


def train(
    algorithm: Algorithm,
    trajectory: Trajectory,
    amounts: TrainAmounts,
    description: Mapping[str, Any],
    place: Place | None,
    console: Console,
    options: ExecutionOptions = PLAIN,
    *,
    later: Sequence[LaterStage] = (),
) -> tuple["Training", ExitCode]:
    """Train in the precision that JAX is set to, in this stage and later ones; the run is returned.

    `description` is what the model file will say of itself. Without a place everything stays in memory.
    """
    require_loggers(tensorboard=amounts.tensorboard, wandb=amounts.wandb)
    run = Training(algorithm, trajectory, amounts, description, options, later)
    return run, execute(run, place, console, options, chunk=amounts.chunk)


def prepare(
    algorithm: Algorithm, trajectory: Trajectory, amounts: TrainAmounts, options: ExecutionOptions = PLAIN
) -> tuple[Devices, TrainState]:
    """The first state, on the devices wanted."""
    require_room(algorithm.target, amounts.chains)
    devices = Devices(options.devices, options.split_lattice)
    first = jax.tree.map(lambda a: leaf(np.asarray(a)), algorithm.target_at(jnp.zeros((), jnp.int32)))
    knows_near = first.known.approximate_draws(first) is not None
    draws = first_draws(first, amounts.start or ("near" if knows_near else "hot"), amounts.chains)
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
    run = Training(algorithm, trajectory, amounts, {})
    leaves = jax.tree.leaves(eqx.filter(trajectory, eqx.is_inexact_array))
    more = {"parameters": f"{sum(a.size for a in leaves):,}"}
    show_needs(algorithm.target, amounts.chains, lambda n: run.run(0, n), run.total, run.unit, more, console)


def show_results(path: Path, console: Console) -> dict[str, Any]:
    """The results of a finished training run."""
    directory, _ = open_run("train", path)
    if not directory.summary.exists():
        raise UserError(f"{path} has no trained model yet: go on with 'dlhmc resume {path}'.")
    results = read_json(directory.summary)
    converted(results, _Results, str(directory.summary))
    figures = {name: value for name, value in results.items() if isinstance(value, float)}
    for name, value in figures.items():
        console.print(f"{name.replace('_', ' '):<20} {value:.4g}", markup=False, highlight=False)
    show_warnings(results, console)
    return results


@eqx.filter_jit
def _tunnelling(kernel: DLHMC, x: Field, seed: Array) -> Array:
    """The fraction of trajectories that change the sector."""
    sector: Any = kernel.target.known.sector

    def step(index: Array, carried: tuple[Any, Array]) -> tuple[Any, Array]:
        state, changes = carried
        new, _ = kernel.step(rng.step_key(seed, rng.Purpose.BURN_IN, index), state)
        before, after = (kernel.target.observables(y)[sector] for y in (state.x, new.x))
        return new, changes + jnp.mean((before != after).astype(changes.dtype))

    start = kernel.init(x), jnp.zeros((), jnp.result_type(float))
    return jax.lax.fori_loop(0, _COMPARED, step, start)[1] / _COMPARED


class _Results(TypedDict):
    """What a summary must have; figures may be in it, too."""

    nonfinite_fraction: float
    warnings: list[str]


class _Notes(TypedDict):
    """What a checkpoint notes about its step; others may be in it, too."""

    seconds: float
    nonfinite: int
    #: figures of the last steps
    figures: dict[str, float]
    #: all steps there were to be
    steps: int


class Training(Run):
    """Steps of Algorithm 1."""

    kind, unit = "train", "steps"
    capacity = _CAPACITY
    carry: TrainState

    def __init__(
        self,
        algorithm: Algorithm,
        trajectory: Trajectory,
        amounts: TrainAmounts,
        description: Mapping[str, Any],
        options: ExecutionOptions = PLAIN,
        later: Sequence[LaterStage] = (),
    ) -> None:
        self._first, self._later = (algorithm, trajectory), later
        self._amounts, self._options, self._description = amounts, options, dict(description)
        self.total = amounts.total
        #: the steps after which stages end
        self._ends = stage_ends(self.total, 1 + len(later))
        self._begin(0)
        network = self._description.get("network") or {}
        self.title = f"train {network.get('name', type(trajectory).__name__)}"
        self.checksum = checksum(algorithm.target)
        self.seconds = 0.0
        self.steps_done = 0
        #: of every step since the run was started or resumed
        self.records: list[dict[str, NDArray[Any]]] = []
        #: proposals that were not finite, since the first step
        self._nonfinite = 0
        #: averages over the last steps
        self._means: dict[str, float] = {}

    def restore(self, checkpoints: Checkpoints) -> int:
        """Parameters, optimiser, chains, guard, good and best parameters."""
        step, arrays, notes = checkpoints.restore(self._like, self._check)
        self.carry = eqx.combine(arrays, eqx.filter(self.carry, eqx.is_array, inverse=True))
        self.seconds, self.steps_done, self._nonfinite = notes["seconds"], step, notes["nonfinite"]
        self._means = notes["figures"]
        return step

    def _check(self, step: int, notes: Notes) -> None:
        """Stages that are over cannot become longer."""
        converted(notes, _Notes, "What a checkpoint notes")
        if self._later and notes["steps"] != self.total:
            raise UserError("a training in several stages has its steps: train on from its model instead")

    def sinks(self, step: int) -> list[Sink]:
        """TensorBoard and Weights & Biases, where they are asked for."""
        if self.directory is None:
            return []
        found: list[Sink] = [TensorBoard(self.directory.tensorboard, step)] if self._amounts.tensorboard else []
        return [*found, WeightsAndBiases(self.directory.path)] if self._amounts.wandb else found

    def _like(self, step: int) -> Any:
        """What a checkpoint of this step looks like."""
        self._begin(0)
        while step >= self._ends[self._stage] and self._stage < len(self._later):
            self._begin(self._stage + 1)
        return eqx.filter(self.carry, eqx.is_array)

    def _begin(self, stage: int) -> None:
        """The first state of a stage, which grows from the layers of the one before."""
        self._algorithm, trajectory = self._first
        if stage:
            self._algorithm, grow = self._later[stage - 1]
            trajectory = grow(self.best, self._algorithm.target)
        self._stage = stage
        self.devices, self.carry = prepare(self._algorithm, trajectory, self._amounts, self._options)
        self._algorithm = on_host(self._algorithm)

    def next_stop(self, step: int) -> int:
        """The end of the stage."""
        return self._ends[self._stage]

    def inspect(self, step: int) -> None:
        """Go on to the next stage, unless there is nothing that it could grow from."""
        if step < self.total and step == self._ends[self._stage] and not self._has_lost_its_signal:
            self._begin(self._stage + 1)
            self.run(0, 0)

    @property
    def _has_lost_its_signal(self) -> bool:
        """Whether nothing leaves its sector: no loss could teach it."""
        return self._means.get("tunnelling_rate") == 0

    def program(self, step: int, count: int) -> tuple[TrainState, dict[str, Array]]:
        """Training steps."""
        seed = integer(self._amounts.seed, np.uint32)
        inputs = Inputs(self._algorithm, seed, integer(step), integer(count))
        return advance(inputs, self.carry, self.capacity)

    def record(self, step: int, count: int, records: dict[str, Array], seconds: float) -> None:
        """Keep all, and averages over the last steps for the metrics."""
        self.seconds += seconds
        self.steps_done = step + count
        # Copies: a view would keep the whole buffer in memory.
        rows = {name: np.asarray(buffer)[:count].copy() for name, buffer in records.items()}
        self.records.append(rows)
        self._nonfinite += int(rows["nonfinite"].sum())
        recent: list[dict[str, NDArray[Any]]] = []
        while len(recent) < len(self.records) and sum(len(one["nonfinite"]) for one in recent) < _SHOWN:
            recent.append(self.records[-1 - len(recent)])
        means = {name: np.concatenate([one[name] for one in recent])[-_SHOWN:].mean() for name in rows}
        self._means = {name: float(mean) for name, mean in means.items() if np.isfinite(mean)}
        if "gamma" in rows:
            self._means["gamma"] = float(rows["gamma"][-1])

    def figures(self) -> dict[str, float]:
        """Averages over the last steps, and what the guards have counted."""
        guard = self.carry.guard
        counted = {"skipped": int(guard.skipped), "restored": int(guard.restored)}
        return self._means | counted | {"rate_factor": float(guard.rate_factor)}

    def words(self) -> str:
        """The same for people."""
        m = self.figures()
        parts = [f"γ {m['gamma']:.3f}"] if "gamma" in m else []
        parts += [f"loss {m.get('loss', math.nan):.4g}", f"acceptance {m.get('acceptance', math.nan):.3f}"]
        if "tunnelling_rate" in m:
            parts.append(f"tunnelling {m['tunnelling_rate']:.3g}")
        if m["skipped"]:
            parts.append(f"[gradient not finite: {m['skipped']:.0f} skipped]")
        if m["restored"]:
            parts.append(f"[acceptance collapsed: restored {m['restored']:.0f}×, rate × {m['rate_factor']:g}]")
        return "  ".join(parts)

    def verdict(self) -> UserError | None:
        """Why training has given up, where it has."""
        guard = self.carry.guard
        ended = self.steps_done < self.total and self.steps_done == self._ends[self._stage]
        if ended and self._has_lost_its_signal:
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
        """The whole state."""
        notes = {"seconds": self.seconds, "nonfinite": self._nonfinite, "figures": self._means, "steps": self.total}
        return eqx.filter(self.carry, eqx.is_array), notes

    def _save_model(self, which: str) -> Path | None:
        """Write the model; its file, where there is one."""
        if self.directory is None or self._stage < len(self._later):
            return None  # layers of an earlier stage are not those that the description is about
        if processes.is_first():
            objective = float(self.carry.guard.best_objective) if self._has_best else None
            training = {"steps": self.total, "seconds": self.seconds, "parameters": which, "objective": objective}
            trained = getattr(self.carry, which)
            model.save(self.directory.model, trained, self._description | {"training": training})
        return self.directory.model

    @property
    def _has_best(self) -> bool:
        """Whether training was long enough to tell which parameters are best."""
        return bool(np.isfinite(float(self.carry.guard.best_objective)))

    @property
    def best(self) -> Trajectory:
        """The parameters with the best objective; the last ones if training was too short to tell."""
        return self.carry.best if self._has_best else self.carry.trajectory

    def _results(self) -> dict[str, Any]:
        """Figures, and warnings of what was not finite."""
        counted = nonfinite_figures(self._nonfinite, self.total * self._amounts.chains)
        if skipped := int(self.carry.guard.skipped):
            warning = f"{skipped} of {self.total} updates were skipped because the gradient was not finite."
            counted["warnings"].append(warning)
        if not self._ends_finite:
            counted["warnings"].append("The last parameters are not finite; the model holds earlier ones.")
        counted["warnings"] += self._unlearned
        return self.figures() | {"seconds": self.seconds, "steps": self.total} | counted

    @functools.cached_property
    def _unlearned(self) -> list[str]:
        """A warning where sectors change no more often than with the parameters that training began with."""
        rate = self._means.get("tunnelling_rate")
        if rate is None or self._later or self.steps_done < _SHOWN or rate > _OFTEN:
            return []
        (algorithm, trajectory), seed = self._first, integer(self._amounts.seed, np.uint32)
        with self.devices.active():
            before = float(_tunnelling(DLHMC.of(algorithm.target, trajectory), self.carry.x, seed))
        if rate > 2 * before:
            return []
        return [
            f"Nothing was learned about leaving sectors: they change in {rate:.2g} of the trajectories, before "
            f"training in {before:.2g}. More steps, a lower γ at the beginning or networks in windows may help."
        ]

    @property
    def _ends_finite(self) -> bool:
        last = jax.tree.leaves(eqx.filter(self.carry.trajectory, eqx.is_array))
        return all(np.isfinite(np.asarray(array)).all() for array in last)

    def finish(self) -> ExitCode:
        """Write the model with the best objective."""
        self._save_model("best" if self._has_best else "trajectory" if self._ends_finite else "good")
        if self.directory is not None:
            write_json(self.directory.summary, self._results())
        return ExitCode.OK

    def show(self, console: Console) -> None:
        """The last figures, and how to use the model."""
        console.out(f"{self.words()}  in {self.seconds:.0f} s", highlight=False)
        show_warnings(self._results(), console)
        if self.directory is not None:
            theory, path = self._description.get("target", {}).get("name", "THEORY"), self.directory.path
            console.out(f"trained model in {path}; sample with", highlight=False)
            console.out(f"  dlhmc sample {theory} --model {path}", highlight=False)
