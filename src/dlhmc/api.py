"""Training, sampling and comparing from Python, with objects in place of names.

What runs is what the command line runs: the same compiled chunks in the same loop, with the same random numbers.
Without `out` a run has a temporary directory that goes away when it is done.
"""

import dataclasses
import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from rich.console import Console

from dlhmc import models, rng
from dlhmc.comparison import table
from dlhmc.comparison.command import hold_race, open_results, write_results
from dlhmc.comparison.config import ObjectCompareConfig
from dlhmc.comparison.contestants import contestant_of
from dlhmc.comparison.results import Entry, Results
from dlhmc.describe import describe_kernel, describe_target, fingerprint
from dlhmc.errors import UserError, in_words_of_python
from dlhmc.export import read
from dlhmc.kernels import DLHMC, Kernel
from dlhmc.kernels.watching import Watching
from dlhmc.layers import LayerStack, PositionRule, Trajectory
from dlhmc.names import LossName, MaskName, NetworkName, RuleName, Scheme, Start
from dlhmc.networks import NetworkFactory
from dlhmc.runs.boards import require_boards
from dlhmc.runs.config import NETWORK_DEFAULTS, ObjectSampleConfig, ObjectTrainConfig, require_meaning
from dlhmc.runs.directory import new_run, run_kind
from dlhmc.runs.interruption import watch_signals
from dlhmc.runs.loop import Conditions
from dlhmc.runs.progress import Callback
from dlhmc.runs.sampling import learned_kernel, sample_objects
from dlhmc.runs.training import default_model, train_objects
from dlhmc.samples import Measurements, Samples, dataset, load_samples, run_attributes
from dlhmc.targets import U1, Target
from dlhmc.targets.watched import Observable
from dlhmc.testing import check_observable
from dlhmc.training import LOSSES, Algorithm, Knots, Loss, Schedule, learning_rate

#: True for a live line, a bar in a notebook; False for nothing; a function gets (done, total, figures in words)
Progress: TypeAlias = bool | Callback


# Sampling.


@in_words_of_python()
def sample(
    kernel: Kernel,
    *,
    chains: int = 128,
    trajectories: int = 1000,
    warmup: int = 200,
    seed: int = 1,
    start: Start | None = None,
    tune: float | None = None,
    observables: Mapping[str, Observable] | None = None,
    keep_configurations: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    devices: int | None = None,
    time_limit: float | None = None,
    progress: Progress = True,
) -> Samples:
    """Sample with a kernel: HMC, a trained one, or your own.

    Args:
        kernel: what makes the trajectories; it knows its target.
        chains: Markov chains side by side.
        trajectories: measured in each chain, after the warm-up.
        warmup: trajectories before the first measurement.
        seed: root of all random numbers.
        start: first configurations: exact draws, hot or cold; exact ones where the target has them, else hot.
        tune: the acceptance that the step size is tuned to during the warm-up; None leaves it as it is.
        observables: functions of x[…, chain] that give a number for each chain, by name, measured beside the target's.
        keep_configurations: configurations of each chain to keep, evenly spaced.
        out: new directory for the run; without one, nothing is left on disk.
        resume: go on with the run in `out`, which must have had the same arguments.
        devices: devices that share the chains.
        time_limit: seconds after which the run stops by itself.
        progress: a live line, nothing, or a function that is called instead.

    A run that is stopped (Ctrl-C, the notebook's stop button, the time limit) returns what it has measured.

    >>> from dlhmc.kernels import HMC
    >>> samples = sample(HMC(U1((4, 4), beta=2.0), 0.3, 4), chains=64, trajectories=50, progress=False)
    >>> dict(samples.data.sizes)
    {'chain': 64, 'trajectory': 50}
    """
    target = kernel.target
    if observables:
        for name, function in observables.items():
            check_observable(function, target, name)
        kernel = Watching.more(kernel, observables)
    if start is None:
        start = "hot" if target.exact_draws() is None else "exact"
    if tune is not None and kernel.tunable_step_size() is None:
        raise UserError("This kernel has no step size to tune: leave out tune.")
    config = ObjectSampleConfig(
        kernel=describe_kernel(kernel)["kernel"],
        chains=chains,
        trajectories=trajectories,
        warmup=warmup,
        seed=seed,
        tune=tune is not None,
        target_acceptance=0.8 if tune is None else tune,
        start=start,
        keep_configurations=keep_configurations,
        float64=_is_double(),
        fingerprint=fingerprint(kernel),
    )
    conditions, console = _shown(progress, devices, time_limit)
    with _directory(out, resume=resume) as path:
        work, _ = sample_objects(kernel, config, path, console, conditions, resuming=resume)
        if work.measured == 0:
            raise UserError("The run was stopped before its first measurement.")
        step_size = None if math.isnan(work.step_size) else work.step_size
        data = dataset(work.history, work.measured, run_attributes(work.seconds, step_size))
    if work.measured < trajectories:
        again = "" if out is None else f"; go on with resume=True and out={str(out)!r}"
        warnings.warn(f"stopped after {work.measured} of {trajectories} trajectories{again}", stacklevel=2)
    return Samples(data)


# Training.


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
def build_trajectory(
    target: Target,
    network: NetworkName | NetworkFactory | None = None,
    *,
    layers: int | None = None,
    hidden: Sequence[int] | None = None,
    rule: RuleName | PositionRule | None = None,
    mask: MaskName = "random",
    step_size: float | None = None,
    radii: Sequence[float] = (),
    flux: float = 1.0,
    window: int = 5,
    seed: int = 1,
) -> Trajectory:
    """Layers to be trained: N_LF of them, each with parameters of its own.

    Args:
        target: what they are for.
        network: "dense" (the paper's), "defect" or "patch" (U(1) only), or a function that makes a network of your own
            from (key, shape of the field, features of each component). By default what suits the target.
        layers: N_LF.
        hidden: sizes of the hidden layers.
        rule: position update Λ: "circle", "affine", "shift" or one of your own; by default what suits the target.
        mask: which half of x is updated first.
        step_size: ε before training.
        radii: distances at which the parameters of a defect have values.
        flux: units of flux that a defect drives before training.
        window: side of the window that patch networks see.
        seed: root of the random weights.

    >>> len(build_trajectory(U1((4, 4), beta=2.0), "dense", layers=3, hidden=(8,)))
    3
    """
    config, own_network, own_rule = _model(
        target, network, layers, hidden, rule, mask, step_size, tuple(radii), flux, window
    )
    key = rng.step_key(jax.device_put(np.uint32(seed)), rng.Purpose.MODEL, jnp.zeros((), jnp.uint32))
    build = eqx.filter_jit(lambda key: models.build(config, target, key, make_network=own_network, rule=own_rule))
    return build(key)


def _model(
    target: Target,
    network: NetworkName | NetworkFactory | None,
    layers: int | None,
    hidden: Sequence[int] | None,
    rule: RuleName | PositionRule | None,
    mask: MaskName,
    step_size: float | None,
    radii: tuple[float, ...],
    flux: float,
    window: int,
) -> tuple[models.ModelConfig, NetworkFactory | None, PositionRule | None]:
    """The description of a model, with those parts of it that are objects."""
    if network is None:
        network = "defect" if isinstance(target, U1) else "dense"
    name: NetworkName = network if isinstance(network, str) else "dense"
    if name not in NETWORK_DEFAULTS:
        raise UserError(f"There is no network '{name}': there are {', '.join(NETWORK_DEFAULTS)}, or give your own.")
    defaults = NETWORK_DEFAULTS[name]
    sizes = tuple(hidden or defaults["hidden"])
    given = {"hidden": sizes, "rule": rule or "circle", "mask": mask, "radii": radii, "flux": flux, "window": window}
    require_meaning(name, given)
    own_rule = rule if isinstance(rule, PositionRule) else None
    rule_name: RuleName = rule if isinstance(rule, str) else "circle" if target.compact else "affine"
    config = default_model(
        float(target.beta) if isinstance(target, U1) else None,
        network=name,
        leapfrog_steps=layers or defaults["leapfrog_steps"],
        hidden=sizes,
        rule=rule_name,
        mask=mask,
        step_size=step_size,
        radii=radii,
        flux=flux,
        window=window,
    )
    return config, None if isinstance(network, str) else network, own_rule


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
        config, own_network, _ = _model(target, trajectory, None, None, None, "random", None, (), 1.0, 5)
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
    if start is None:
        start = "hot" if target.exact_draws() is None else "exact"
    object_config = ObjectTrainConfig(
        trajectory=type(trajectory).__name__,
        steps=steps,
        chains=chains,
        seed=seed,
        burn_in=burn_in,
        start=start,
        symmetric=symmetric,
        float64=_is_double(),
        fingerprint=fingerprint((target, gamma_schedule, beta, trajectory)),
        tensorboard=tensorboard,
        wandb=wandb,
    )
    conditions, console = _shown(progress, devices, time_limit)
    with _directory(out, resume=resume) as path:
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
    if loss not in LOSSES:
        raise UserError(f"There is no loss '{loss}': there are {', '.join(LOSSES)}, or give a function.")
    if loss == "charge" and not isinstance(target, U1):
        raise UserError("The charge loss is for the target U1: use the jump loss, or a function of your own.")
    return LOSSES[loss]


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


@in_words_of_python()
def load_kernel(model: str | Path, target: Target, like: Trajectory | None = None) -> DLHMC:
    """The trained sampler of a model: a file, a training run, or a name from `dlhmc models`.

    Layers of your own are not described in the file: give a trajectory of the same making as `like`.

    >>> len(load_kernel("u1-b7", U1((16, 16), beta=7.0)).trajectory)
    2
    """
    if like is None:
        return learned_kernel(str(model), target)
    file = models.find(str(model))
    symmetric = bool(models.read_description(file).get("symmetric", False))
    return DLHMC(target, models.load(file, like), symmetric)


# Comparing.


class Comparison:
    """What a comparison gives: for each sampler its autocorrelation times and what an independent sample costs."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def __getitem__(self, name: str) -> Entry:
        """All that was found about a sampler."""
        for entry in self.results.entries:
            if entry.name == name:
                return entry
        raise KeyError(f"no sampler is called {name!r}: there are {', '.join(entry.name for entry in self)}")

    def __iter__(self) -> Iterator[Entry]:
        """All samplers."""
        return iter(self.results.entries)

    @property
    def best_hmc(self) -> Entry | None:
        """The HMC that takes least time for an independent configuration."""
        return None if self.results.best_in_time is None else self[self.results.best_in_time]

    def show(self, console: Console | None = None) -> None:
        """Print the tables."""
        table.show(self.results, console or Console())

    def __repr__(self) -> str:
        """The tables as Markdown."""
        return table.markdown(self.results)


@in_words_of_python()
def compare(
    target: Target,
    kernels: Mapping[str, Kernel] | None = None,
    *,
    integrators: Sequence[Scheme] = ("leapfrog",),
    lengths: Sequence[float] = (1.0, 2.0, 4.0),
    acceptances: Sequence[float] = (0.6, 0.8, 0.9),
    step_sizes: Sequence[float] = (),
    hits: int = 0,
    hit_lengths: Sequence[float] = (0.25, 0.5, 1.0, 2.0),
    exact: bool = False,
    chains: int = 128,
    precision: float = 0.1,
    budget: float = 60.0,
    seed: int = 1,
    out: str | Path | None = None,
    progress: Progress = True,
) -> Comparison:
    """Race samplers side by side until τ_int of each is known: those given, and HMC on a grid that is tuned first.

    The first observable in `target.slow` judges. Chains start from exact draws; for targets that have none from hot
    configurations and 500 trajectories of HMC.

    Args:
        target: what all of them sample.
        kernels: samplers by name.
        integrators: of HMC.
        lengths: trajectory lengths of HMC.
        acceptances: that the step size of HMC is tuned to; each is a point of the grid for each length.
        step_sizes: of HMC, in place of acceptances.
        hits: instanton hits after each trajectory, for HMC with hits (U(1) only).
        hit_lengths: trajectory lengths of HMC with hits.
        exact: let exact draws take part.
        chains: Markov chains side by side.
        precision: relative error of τ_int at which a sampler has been measured.
        budget: seconds after which the race ends, measured or not.
        seed: root of all random numbers.
        out: new directory for tables and histories; without one, nothing is left on disk.
        progress: a live line, nothing, or a function that is called instead.
    """
    if not target.slow:
        raise UserError("This target does not say which observable is slow: set `slow`, by which samplers are judged.")
    if hits and not isinstance(target, U1):
        raise UserError("Instanton hits are for the target U1: leave out hits.")
    given = {} if kernels is None else dict(kernels)
    config = ObjectCompareConfig(
        target=type(target).__name__,
        kernels=tuple(given),
        integrators=tuple(integrators),
        lengths=tuple(map(float, lengths)),
        acceptances=tuple(map(float, acceptances)),
        step_sizes=tuple(map(float, step_sizes)),
        hits=hits,
        hit_lengths=tuple(map(float, hit_lengths)),
        exact=exact,
        chains=chains,
        precision=precision,
        budget=budget,
        seed=seed,
        float64=_is_double(),
    )
    contestants = [contestant_of(name, kernel) for name, kernel in given.items()]
    conditions, console = _shown(progress, None, None)

    def run() -> tuple[Results, list[Any]]:
        with watch_signals() as interruption:
            return hold_race(
                config,
                target,
                contestants,
                console,
                interruption,
                quiet=conditions.quiet,
                callback=conditions.progress,
            )

    if out is None:
        return Comparison(run()[0])
    with new_run("compare-objects", config, Path(out)):
        results, runners = run()
        write_results(results, runners, Path(out))
    return Comparison(results)


# What is on disk.


@in_words_of_python()
def load(path: str | Path) -> Measurements | Comparison:
    """A result from disk: a sampling run or a comparison by its directory, or a file that `save` has written."""
    path = Path(path)
    if path.is_file():
        data = read(path)
        return Samples(data) if "accepted" in data else Measurements(data)
    kind = run_kind(path)
    if kind.startswith("compare"):
        return Comparison(open_results(path))
    if kind.startswith("train"):
        raise UserError(f"{path} holds a training run: dlhmc.load_kernel gives its sampler.")
    return load_samples(path)


# How a run is done.


def _is_double() -> bool:
    return bool(jnp.result_type(float) == jnp.float64)


def _shown(progress: Progress, devices: int | None, time_limit: float | None) -> tuple[Conditions, Console]:
    callback = None if isinstance(progress, bool) else progress
    return Conditions(devices, time_limit=time_limit, quiet=progress is False, progress=callback), Console()


@contextmanager
def _directory(out: str | Path | None, *, resume: bool) -> Iterator[Path]:
    """Where a run writes; a temporary place if nobody says where."""
    if out is not None:
        yield Path(out)
        return
    if resume:
        raise UserError("resume goes on with the run in a directory: give out.")
    with tempfile.TemporaryDirectory(prefix="dlhmc-") as temporary:
        yield Path(temporary) / "run"
