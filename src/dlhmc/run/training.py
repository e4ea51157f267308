"""A training run from start to end: Algorithm 1 with progress, checkpoints and a model file."""

import math
import time
from collections.abc import Mapping, Sequence
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
from dlhmc.numerics import rng
from dlhmc.numerics.devices import spread
from dlhmc.numerics.leaves import integer, leaf, on_host
from dlhmc.run import processes
from dlhmc.run.checkpoint import Checkpoints
from dlhmc.run.devices import Devices
from dlhmc.run.directory import Place, RunDirectory, open_run, read_json, run_directory, write_json
from dlhmc.run.loggers import require_loggers
from dlhmc.run.loop import PLAIN, ExecutionOptions, Work, execute
from dlhmc.run.needs import find_needs, fitting, require_room, show_needs
from dlhmc.run.sampling import first_draws
from dlhmc.run.settings import TrainAmounts, stage_ends
from dlhmc.run.summary import nonfinite_figures, show_warnings
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
    place: Place,
    console: Console,
    options: ExecutionOptions = PLAIN,
    *,
    silent: bool = False,
    later: Sequence[LaterStage] = (),
) -> tuple["Training", ExitCode]:
    """Train in the precision that JAX is set to, in this stage and later ones; the work is returned.

    `description` is what the model file will say of itself. A silent run keeps its records for the one who called it,
    and prints nothing at its end.
    """
    require_loggers(tensorboard=amounts.tensorboard, wandb=amounts.wandb)
    stages = Stages(algorithm, trajectory, tuple(later), amounts, options)
    with run_directory("train", place) as directory:
        work = Training(stages, directory, dict(description))
        work.silent = silent
        return work, execute(work, directory, console, options, resuming=place.resuming, chunk=amounts.chunk)


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
        draws = first.approximate_draws() if amounts.start is None else first_draws(first, amounts.start)
    algorithm, trajectory, draws = on_host((algorithm, trajectory, draws))
    devices.require(algorithm.target.shape, amounts.chains)
    with devices.beginning():
        state = _begin(algorithm, trajectory, draws, amounts)
    return devices, devices.copy(state)._replace(x=devices.distribute(state.x))


def _begin(algorithm: Algorithm, trajectory: Trajectory, draws: ExactDraws | None, amounts: TrainAmounts) -> TrainState:
    """Parameters, chains and optimiser before the first step, burn-in included."""
    seed = integer(amounts.seed, np.uint32)

    @eqx.filter_jit
    def begin(algorithm: Algorithm, trajectory: Any, draws: ExactDraws | None, seed: Array) -> TrainState:
        dtype = jnp.dtype(jnp.result_type(float))
        key = rng.step_key(seed, rng.Purpose.START, jnp.zeros((), jnp.uint32))
        if draws is not None:
            x = draws.draw(key, amounts.chains, dtype)
        else:
            x = algorithm.target.start(key, amounts.start or "hot", amounts.chains, dtype)
        state = placed(algorithm.begin(trajectory, spread(x)))
        arrays, static = eqx.partition(state, eqx.is_array)

        def burn(index: Array, arrays: Any) -> Any:
            return eqx.filter(algorithm.burn_in(seed, index, eqx.combine(arrays, static)), eqx.is_array)

        return placed(eqx.combine(jax.lax.fori_loop(0, amounts.burn_in, burn, arrays), static))

    return begin(algorithm, trajectory, draws, seed)


def estimate(algorithm: Algorithm, trajectory: Trajectory, amounts: TrainAmounts, console: Console) -> None:
    """Print what a run would take: parameters, memory, and time from a measured step."""
    # The directory is not touched.
    work = Training(Stages(algorithm, trajectory, (), amounts, PLAIN), RunDirectory(Path()), {})
    leaves = jax.tree.leaves(eqx.filter(trajectory, eqx.is_inexact_array))

    def step(program: Any) -> None:
        work._advance = program
        work.advance(0, 1)

    needs = find_needs(algorithm.target, amounts.chains, work.program, step)
    more = {"parameters": f"{sum(a.size for a in leaves):,}"}
    show_needs(needs, more, amounts.total, "steps", console)


def show_results(path: Path, console: Console) -> dict[str, Any]:
    """The results of a finished training run."""
    directory, _ = open_run("train", path)
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
    sector: Any = kernel.target.sector

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

    def __init__(self, stages: Stages, directory: RunDirectory, description: dict[str, Any]) -> None:
        self._stages, self._amounts = stages, stages.amounts
        self._stage = 0
        self._algorithm, self._devices, self.state = stages.begin(0, stages.trajectory)
        self._description = description
        self._directory = directory
        state, amounts = self.state, self._amounts
        described = description.get("network") or {}
        self.title, self.unit = f"train {described.get('name', type(state.trajectory).__name__)}", "steps"
        self.total = amounts.total
        self.tensorboard, self.wandb = amounts.tensorboard, amounts.wandb
        self.capacity = amounts.chunk or _CAPACITY
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

    def create(self) -> None:
        """Nothing but the checkpoint."""

    def resume(self, checkpoints: Checkpoints) -> tuple[int, dict[str, Any]]:
        """Parameters, optimiser, chains, guard, good and best parameters."""
        step, arrays, notes = checkpoints.restore(
            self._like, lambda _, notes: converted(notes, _Notes, "What a checkpoint notes")
        )
        self.state = eqx.combine(arrays, eqx.filter(self.state, eqx.is_array, inverse=True))
        self.seconds, self.steps_done, self._nonfinite = notes["seconds"], step, notes["nonfinite"]
        self._curve = notes.get("curve", [])
        # None becomes NaN.
        self._recent = {name: np.asarray(rows, real_dtype(self.state.x)) for name, rows in notes["recent"].items()}
        return step, notes

    def _like(self, step: int) -> Any:
        """What a checkpoint of this step looks like."""
        for stage in range(self._stages.at(step) + 1):
            self._begin(stage)
        return eqx.filter(self.state, eqx.is_array)

    def _begin(self, stage: int) -> None:
        self._stage = stage
        self._algorithm, self._devices, self.state = self._stages.begin(stage, self.best)

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
        """Compile before the clock starts."""
        self._advance = fitting(self.program())

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
        if self.silent:
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
            self._curve.append(finite | {"step": float(at), "rate_factor": float(self.state.guard.rate_factor)})
        self._recent = {name: row[-_SHOWN:] for name, row in rows.items()}

    def metrics(self) -> dict[str, float]:
        """Averages over the last steps, and what the guards have counted."""
        guard = self.state.guard
        means = {name: float(rows.mean()) for name, rows in self._recent.items()}
        finite = {name: value for name, value in means.items() if np.isfinite(value)}
        return finite | {
            **{name: float(self._recent[name][-1]) for name in self._algorithm.schedules},
            "skipped": int(guard.skipped),
            "restored": int(guard.restored),
            "rate_factor": float(guard.rate_factor),
        }

    def status_line(self) -> str:
        """The same for people."""
        m = self.metrics()
        parts = [f"{'γ' if name == 'gamma' else name} {m[name]:.3f}" for name in self._algorithm.schedules]
        parts += [f"loss {m.get('loss', float('nan')):.4g}", f"acceptance {m['acceptance']:.3f}"]
        if "tunnelling_rate" in m:
            sector = self._algorithm.target.sector
            parts += [f"⟨(Δ{sector})²⟩ {m.get(f'{sector}_jump_squared', math.nan):.3g}"]
            parts.append(f"tunnelling {m['tunnelling_rate']:.3g}")
        if m["skipped"]:
            parts.append(f"[gradient not finite: {m['skipped']:.0f} skipped]")
        if m["restored"]:
            parts.append(f"[acceptance collapsed: restored {m['restored']:.0f}×, rate × {m['rate_factor']:g}]")
        return "  ".join(parts)

    def verdict(self) -> UserError | None:
        """Why training has given up, where it has."""
        guard = self.state.guard
        ended = self.steps_done < self.total and self.steps_done == self._stages.end(self._stage)
        if ended and self._has_lost_its_signal():
            return UserError(
                f"Training stopped at step {self.steps_done}: nothing leaves its sector any more, so there is nothing "
                f"to learn from; begin with a lower {Setting('gamma_start')}, or take more {Setting('steps')}."
            )
        if not bool(guard.halted):
            return None
        self._save_model("good")
        why = "the gradient was not finite" if int(guard.skipped_in_a_row) else "the acceptance collapsed"
        kept = f"; the last good parameters are in {self._directory.model}" if self._directory.model.exists() else ""
        return UserError(
            f"Training stopped because {why} again and again{kept}: start anew with a lower "
            f"{Setting('learning_rate')} or a smaller {Setting('step_size')}."
        )

    def checkpoint(self) -> tuple[Any, dict[str, Any]]:
        """The whole state, and what the metrics need: averages do not begin afresh when a run goes on."""
        recent = {
            name: [row if math.isfinite(row) else None for row in rows.tolist()] for name, rows in self._recent.items()
        }
        notes = {"seconds": self.seconds, "recent": recent, "nonfinite": self._nonfinite, "curve": self._curve}
        return eqx.filter(self.state, eqx.is_array), notes

    def _warnings(self) -> dict[str, Any]:
        """Proposals and gradients that were not finite."""
        figures = nonfinite_figures(self._nonfinite, self.total * self._amounts.chains)
        if skipped := int(self.state.guard.skipped):
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
            before = float(_tunnelling(kernel, self.state.x, self._seed))
        if rates.mean() > 2 * before:
            return []
        return [
            f"Nothing was learned about leaving sectors: they change in {rates.mean():.2g} of the trajectories, before "
            f"training in {before:.2g}. More steps, a lower γ at the beginning or networks in windows may help."
        ]

    def _save_model(self, which: str) -> None:
        if not processes.is_first() or self._stage < len(self._stages.later):
            return  # layers of an earlier stage are not those that the description is about
        best = float(self.state.guard.best_objective)
        training = {
            "steps": self.total,
            "seconds": self.seconds,
            "parameters": which,
            "objective": best if np.isfinite(best) else None,
        }
        model.save(self._directory.model, getattr(self.state, which), self._description | {"training": training})

    @property
    def best(self) -> Trajectory:
        """The parameters with the best objective; the last ones if training was too short to tell."""
        return self.state.best if np.isfinite(float(self.state.guard.best_objective)) else self.state.trajectory

    def finish(self, console: Console) -> ExitCode:
        """Write the model with the best objective, and say how to use it."""
        m, warnings = self.metrics(), self._warnings()
        which = "best" if np.isfinite(float(self.state.guard.best_objective)) else "trajectory"
        last = jax.tree.leaves(eqx.filter(self.state.trajectory, eqx.is_array))
        if not all(np.isfinite(np.asarray(a)).all() for a in last):
            warnings["warnings"].append("The last parameters are not finite; the model holds earlier ones.")
            which = "best" if which == "best" else "good"
        warnings["warnings"] += self._stays_in_sectors()
        self._save_model(which)
        saved = {
            "seconds": self.seconds,
            "steps": self.total,
        }
        write_json(self._directory.summary, m | saved | warnings, self._directory.identity())
        path = self._directory.path
        console.out(f"{self.status_line()}  in {self.seconds:.0f} s", highlight=False)
        show_warnings(warnings, console)
        console.out(f"trained model in {path}; sample with", highlight=False)
        console.out(f"  dlhmc sample --model {path}", highlight=False)
        return ExitCode.OK
