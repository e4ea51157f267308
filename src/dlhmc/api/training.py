"""Training from Python, and what it gives."""

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import optax
import xarray as xr

from dlhmc.api.building import build_trajectory, describe_model
from dlhmc.api.running import Progress, is_double, run_directory, shown, start_of
from dlhmc.errors import UserError, in_words_of_python
from dlhmc.kernels import DLHMC
from dlhmc.layers import LayerStack, Trajectory
from dlhmc.models import model as models
from dlhmc.names import LossName, NetworkName, Start
from dlhmc.networks import NetworkFactory
from dlhmc.runs.boards import require_boards
from dlhmc.runs.config import NETWORK_DEFAULTS, ObjectTrainConfig
from dlhmc.runs.describe import describe_target, fingerprint
from dlhmc.runs.training import train_objects
from dlhmc.targets import Target
from dlhmc.theories.u1.action import U1
from dlhmc.theories.u1.loss import charge_loss
from dlhmc.training import Algorithm, Knots, Loss, Schedule, jump_loss, learning_rate


class Trained:
    """What training gives: a trajectory with the best parameters it found, and the record of each step in `data`."""

    def __init__(
        self, target: Target, trajectory: Trajectory, data: xr.Dataset, description: Mapping[str, Any], symmetric: bool
    ) -> None:
        self.target = target
        self.trajectory = trajectory
        self.data = data
        self._description = description
        self._symmetric = symmetric

    @property
    def kernel(self) -> DLHMC:
        """The trained sampler."""
        return self.kernel_for(self.target)

    def kernel_for(self, target: Target) -> DLHMC:
        """The same at another coupling, or on another lattice where the layers allow it."""
        return DLHMC(target, self.trajectory, self._symmetric)

    def save(self, path: str | Path) -> None:
        """Write a model file (arrays and their description, no pickle), which `load_kernel` reads."""
        training = {"steps": self.data.sizes["step"], "seconds": self.data.attrs["seconds"]}
        models.save(Path(path), self.trajectory, dict(self._description) | {"training": training})

    def __repr__(self) -> str:
        """The last figures."""
        last = self.data.isel(step=slice(-min(200, self.data.sizes["step"]), None)).mean()
        figures = ", ".join(f"{name} {float(value):.4g}" for name, value in last.items())
        return f"{len(self.trajectory)} layers after {self.data.sizes['step']} steps: {figures}"


@in_words_of_python()
def train(
    target: Target,
    trajectory: Trajectory | NetworkName | NetworkFactory | None = None,
    *,
    loss: LossName | Loss | None = None,
    steps: int | None = None,
    chains: int = 128,
    seed: int = 1,
    learning_rate: float | None = None,
    optimiser: optax.GradientTransformation | None = None,
    gamma: Schedule | float | None = None,
    beta: Schedule | None = None,
    symmetric: bool = False,
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
        loss: "charge" for −A·(ΔQ_R)² (U(1) only), "jump" for −A·|Δx|², or a function of the target and a `Transition`
            that gives a number for each chain. By default what suits the target.
        steps: training steps.
        chains: Markov chains in a batch.
        seed: root of all random numbers.
        learning_rate: largest rate of Adam with clipping, a warm-up and a cosine decay.
        optimiser: an Optax optimiser in place of it.
        gamma: schedule of the annealing factor γ_t; a number is where it begins, to rise to 1 in the first half.
        beta: schedule of the coupling, for targets that have one.
        symmetric: draw a symmetry of the target for each trajectory.
        start: first configurations: exact draws, hot or cold; exact ones where the target has them, else hot.
        burn_in: trajectories before training.
        out: new directory for the run; without one, nothing is left on disk.
        resume: go on with the run in `out`, which must have had the same arguments.
        tensorboard: write the metrics for TensorBoard, into `out`.
        wandb: write the metrics for Weights & Biases, into `out`.
        devices: devices that share the chains.
        time_limit: seconds after which the run stops by itself.
        progress: a live line, nothing, or a function that is called instead.

    A run that is stopped returns what it has reached.
    """
    if (tensorboard or wandb) and out is None:
        raise UserError("tensorboard and wandb write into the directory of the run: give out.")
    require_boards(tensorboard=tensorboard, wandb=wandb)
    description: dict[str, Any] = {"model": None, "target": _model_target(target), "symmetric": symmetric}
    network: NetworkName = "dense"
    if not isinstance(trajectory, Trajectory):
        config, own_network, _ = describe_model(target, trajectory, None, None, None, "random", None, (), 1.0, 5)
        network = config.network
        if own_network is None:
            description["model"] = dataclasses.asdict(config)
        trajectory = build_trajectory(target, trajectory, seed=seed)
    elif not isinstance(trajectory, LayerStack):
        network = "defect"
    defaults = NETWORK_DEFAULTS[network]
    steps = defaults["steps"] if steps is None else steps
    gamma_schedule = _gamma(target, gamma, defaults["gamma_start"], steps)
    algorithm = Algorithm(
        target,
        gamma_schedule,
        beta,
        _loss(target, loss),
        optimiser or _adam(defaults["learning_rate"] if learning_rate is None else learning_rate, steps),
        symmetric,
    )
    object_config = ObjectTrainConfig(
        trajectory=type(trajectory).__name__,
        steps=steps,
        chains=chains,
        seed=seed,
        burn_in=burn_in,
        start=start_of(target, start),
        symmetric=symmetric,
        float64=is_double(),
        fingerprint=fingerprint((target, gamma_schedule, beta, trajectory)),
        tensorboard=tensorboard,
        wandb=wandb,
    )
    conditions, console = shown(progress, devices, time_limit)
    with run_directory(out, resume=resume) as path:
        work, _ = train_objects(
            algorithm, trajectory, description, object_config, path, console, conditions, resuming=resume
        )
    records = {
        name: np.concatenate([rows[name] for rows in work.records] or [np.zeros(0)]) for name in algorithm.record_names
    }
    done = len(records["loss"])
    if work.steps_done < steps:
        again = "" if out is None else f"; go on with resume=True and out={str(out)!r}"
        warnings.warn(f"stopped after {work.steps_done} of {steps} steps{again}", stacklevel=2)
    data = xr.Dataset(
        {name: ("step", rows, {"units": "1"}) for name, rows in records.items()},
        {"step": np.arange(work.steps_done - done + 1, work.steps_done + 1)},
        describe_target(target) | {"layers": len(trajectory), "seed": seed, "chains": chains, "seconds": work.seconds},
    )
    return Trained(target, work.best, data, description, symmetric)


def _loss(target: Target, loss: LossName | Loss | None) -> Loss:
    if loss is None:
        loss = "charge" if isinstance(target, U1) else "jump"
    if not isinstance(loss, str):
        return loss
    if loss not in ("charge", "jump"):
        raise UserError(f"There is no loss '{loss}': there are charge and jump, or give a function.")
    if loss == "charge" and not isinstance(target, U1):
        raise UserError("The charge loss is for the target U1: use the jump loss, or a function of your own.")
    return {"charge": charge_loss, "jump": jump_loss}[loss]


def _gamma(target: Target, gamma: Schedule | float | None, default: float, steps: int) -> Schedule:
    annealed = hasattr(target, "gamma")
    if gamma is None:
        gamma = default if annealed else 1.0
    elif gamma != 1.0 and not annealed:
        raise UserError("This target has no factor gamma to anneal: give it one, or leave out gamma.")
    return gamma if isinstance(gamma, Schedule) else Knots.linear(float(gamma), 1.0, steps // 2)


def _adam(peak: float, steps: int) -> optax.GradientTransformation:
    rate = learning_rate("cosine", peak, steps, min(100, steps // 2))
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))


def _model_target(target: Target) -> dict[str, Any]:
    """The target as model files describe it."""
    return {"name": "u1" if isinstance(target, U1) else type(target).__name__} | describe_target(target)
