"""Training from Python, and what it gives."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import optax
import xarray as xr

from dlhmc.api.building import architecture_of, build_trajectory
from dlhmc.api.running import Progress, conclude, is_double, place_for, shown
from dlhmc.errors import UserError
from dlhmc.kernels import DLHMC
from dlhmc.layers import Trajectory
from dlhmc.models import model
from dlhmc.models.architecture import Architecture
from dlhmc.models.architectures import ARCHITECTURES, built
from dlhmc.models.dense import DenseArchitecture
from dlhmc.names import Start
from dlhmc.networks import NetworkFactory
from dlhmc.run.describe import describe_target
from dlhmc.run.settings import OptimiserSettings, TrainAmounts
from dlhmc.run.training import train as train_run
from dlhmc.spec.training import TrainingSettings, adam, algorithms, annealings
from dlhmc.targets import Target
from dlhmc.training import Loss, Schedule
from dlhmc.training.losses import loss_for


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Trained:
    """What training gives: a trajectory with the best parameters it found, and the record of each step in `data`."""

    target: Target
    trajectory: Trajectory
    data: xr.Dataset
    _description: Mapping[str, Any]

    @property
    def kernel(self) -> DLHMC:
        """The trained sampler."""
        return self.kernel_for(self.target)

    def kernel_for(self, target: Target) -> DLHMC:
        """The same at another coupling, or on another lattice where the layers allow it."""
        return DLHMC.of(target, self.trajectory)

    def save(self, path: str | Path) -> None:
        """Write a model file (arrays and their description, no pickle), which `load_kernel` reads."""
        record = {"steps": self.data.sizes["step"], "seconds": self.data.attrs["seconds"]}
        model.save(Path(path), self.trajectory, dict(self._description) | {"training": record})

    def __repr__(self) -> str:
        """The last figures."""
        last = self.data.isel(step=slice(-min(200, self.data.sizes["step"]), None)).mean()
        figures = ", ".join(f"{name} {float(value):.4g}" for name, value in last.items())
        return f"{len(self.trajectory)} layers after {self.data.sizes['step']} steps: {figures}"


def train(
    target: Target,
    trajectory: Trajectory | str | NetworkFactory | None = None,
    *,
    loss: str | Loss | None = None,
    steps: int | None = None,
    chains: int = 64,
    seed: int = 1,
    learning_rate: float | None = None,
    optimiser: optax.GradientTransformation | None = None,
    gamma: Schedule | float | None = None,
    start: Start | None = None,
    burn_in: int = 100,
    out: str | Path | None = None,
    resume: bool = False,
    tensorboard: bool = False,
    wandb: bool = False,
    devices: int | None = None,
    time_limit: float | None = None,
    progress: Progress = True,
) -> Trained:
    """Train a trajectory for a target: Algorithm 1 of the paper.

    Args:
        target: what is to be sampled.
        trajectory: layers from `build_trajectory`, or of your own; a name or a network stands for `build_trajectory`
            with it and all else by default.
        loss: the name of a loss, or a function of the target and a `Transition` that gives a number for each chain:
            "jump" is −A·|Δx|², others are made for theories. By default what suits the target.
        steps: training steps.
        chains: Markov chains in a batch.
        seed: root of all random numbers.
        learning_rate: largest rate of Adam with clipping, a warm-up and a cosine decay.
        optimiser: an Optax optimiser in place of it.
        gamma: schedule of the annealing factor γ_t; a number is where it begins, to rise to 1.
        start: first configurations: exact draws, hot, cold or near equilibrium; the best that the target has if None.
        burn_in: trajectories before training.
        out: new directory for the run; without one, nothing is left on disk.
        resume: go on with the run in `out`, which must have had the same arguments; it may get more steps.
        tensorboard: write the metrics for TensorBoard, into `out`.
        wandb: write the metrics for Weights & Biases, into `out`.
        devices: devices that share the chains.
        time_limit: seconds after which the run stops by itself, and returns what it has reached.
        progress: a live line, nothing, or a function that is called instead.

    Ctrl-C (or the notebook's stop button) saves, then raises a KeyboardInterrupt with what has been reached as its
    `result`.
    """
    if (tensorboard or wandb) and out is None:
        raise UserError("tensorboard and wandb write into the directory of the run: give out.")
    architecture: Architecture | None = None
    kind: type[Architecture] = DenseArchitecture
    if isinstance(trajectory, Trajectory):
        kind = next((found for found in ARCHITECTURES.values() if found.builds(trajectory)), kind)
    elif callable(trajectory):
        trajectory = build_trajectory(target, trajectory, seed=seed)
    else:
        architecture = architecture_of(target, trajectory, None, {})
        kind = type(architecture)
        first = architecture.stages(target)[0]
        trajectory = built(first.architecture, first.target, seed)
    stages = Architecture.stages(kind(), target) if architecture is None else architecture.stages(target)
    defaults = kind.training
    steps = defaults.steps * len(stages) if steps is None else steps
    schedules: Sequence[Schedule] = [gamma] * len(stages) if isinstance(gamma, Schedule) else []
    if not isinstance(gamma, Schedule):
        begin = defaults.gamma_start if gamma is None else float(gamma)
        schedules = annealings(stages, steps, begin, TrainingSettings.anneal)
    function = loss if callable(loss) else loss_for(target, loss, defaults.loss).function
    rate = defaults.learning_rate if learning_rate is None else learning_rate
    settings = OptimiserSettings(learning_rate=rate)
    algorithm, later = algorithms(stages, schedules, steps, function, lambda steps: optimiser or adam(settings, steps))
    amounts = TrainAmounts(
        chains=chains,
        steps=steps,
        seed=seed,
        burn_in=burn_in,
        start=start or (None if target.exact_draws() is None else "exact"),
        float64=is_double(),
        tensorboard=tensorboard,
        wandb=wandb,
    )
    described = describe_target(target)
    description = model.describe(architecture, described | {"class": described["target"]})
    table = {"objects": type(target).__name__, "trajectory": type(trajectory).__name__}
    options, console = shown(progress, devices, time_limit)
    place = place_for(out, {**table, "run": dataclasses.asdict(amounts)}, resume=resume)
    run, code = train_run(algorithm, trajectory, amounts, description, place, console, options, later=later)
    records = {
        name: np.concatenate([rows[name] for rows in run.records] or [np.zeros(0)]) for name in algorithm.record_names
    }
    data = xr.Dataset(
        {name: ("step", rows) for name, rows in records.items()},
        {"step": np.arange(run.steps_done - len(records["loss"]) + 1, run.steps_done + 1)},
        described | {"layers": len(trajectory), "seed": seed, "chains": chains, "seconds": run.seconds},
    )
    trained = Trained(target, run.best, data, description)
    return cast(Trained, conclude(trained, code, f"{run.steps_done} of {steps} steps", out))
