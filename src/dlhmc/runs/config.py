"""What a run is told: frozen dataclasses that the command line and TOML files fill in."""

import dataclasses
import difflib
import itertools
import math
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tomli_w
import tyro

from dlhmc.errors import UserError
from dlhmc.names import KernelName, LossName, MaskName, NetworkName, RateSchedule, RuleName, Scheme, Start, TargetName
from dlhmc.storage.files import read_text

T = TypeVar("T")
# Trajectories and steps are counted in 32 bits.
_MOST = 10**9
# Far more than any machine could hold.
_MOST_CHAINS, _MOST_SIDE, _MOST_HIDDEN, _MOST_WINDOW = 10**7, 10**4, 10**6, 101
# 3√β of the largest β; functions of the distance are prepared on a lattice of this size.
_MOST_RADII, _MOST_RADIUS = 64, 300.0
# The default of a setting whose value depends on the target or the network; no configuration keeps it.
_OF_TARGET: Any = None
_OF_NETWORK: Any = None
_DEFECT = {"hidden": (16,), "leapfrog_steps": 2, "steps": 2000, "learning_rate": 1e-2, "gamma_start": 1.0}
#: what a network has where nothing else is said
NETWORK_DEFAULTS: dict[str, dict[str, Any]] = {
    "defect": _DEFECT,
    "patch": _DEFECT | {"learning_rate": 3e-3},  # at 1e-2 they collapse
    "dense": {
        "hidden": (256, 256, 256),
        "leapfrog_steps": 10,
        "steps": 5000,
        "learning_rate": 1e-3,
        "gamma_start": 0.5,
    },
}
#: settings that mean nothing to a network, with the value that they have then
MEANINGLESS: dict[str, dict[str, Any]] = {
    "defect": {"hidden": _DEFECT["hidden"], "rule": "circle", "mask": "random", "window": 5},
    "patch": {"rule": "circle", "mask": "random"},
    "dense": {"radii": (), "flux": 1.0, "window": 5},
}
# Settings that mean something for lattice gauge theory alone, with the value that stands for nothing.
_U1_ONLY = {"lattice": None, "beta": None, "beta_start": None, "hits": 0, "symmetric": False}


def require_meaning(network: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings that a network would ignore."""
    for name, value in MEANINGLESS[network].items():
        if settings[name] != value:
            raise UserError(f"--{name} means nothing to --network {network}: leave it out.")


@dataclasses.dataclass(frozen=True)
class SampleConfig:
    """All that determines the numbers of a sampling run."""

    kernel: KernelName = "hmc"
    """hmc, or exact for independent configurations"""
    target: TargetName = "u1"
    """what is sampled: u1 (2D U(1) gauge theory), or a problem in flat space"""
    lattice: tuple[int, int] | None = None
    """Lx Lt, sides of the periodic lattice (u1 only)"""
    beta: float | None = None
    """inverse coupling (u1 only)"""
    chains: int = 128
    """Markov chains side by side"""
    trajectories: int = 10_000
    """trajectories measured in each chain, after the warm-up"""
    warmup: int = 500
    """trajectories before the first measurement, during which the step size is tuned"""
    seed: int = 1
    """root of all random numbers"""
    leapfrog_steps: int = 20
    """integrator steps in a trajectory"""
    step_size: float | None = None
    """size of an integrator step; tuned if not given"""
    target_acceptance: float = 0.8
    """acceptance the step size is tuned to"""
    integrator: Scheme = "leapfrog"
    """leapfrog, or omelyan (second-order minimum norm)"""
    hits: int = 0
    """instanton hits after each trajectory"""
    start: Start = "exact"
    """first configurations: exact draws, hot (random links) or cold (all links 0)"""
    model: str | None = None
    """training run or model file to sample with; then the kernel is dlhmc"""
    keep_configurations: int = 0
    """configurations of each chain to keep, evenly spaced; otherwise observables only"""
    float64: bool = False
    """double precision"""
    chunk: int | None = None
    """trajectories between two checkpoints; adapted to about a second if not given"""

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        _settle_target(self, lattice=(16, 16), beta=7.0)
        _check_amounts(self)
        require(1 <= self.leapfrog_steps <= _MOST, "leapfrog-steps", self.leapfrog_steps, f"from 1 to {_MOST}")
        if self.step_size is not None:
            require(0 < self.step_size < math.inf, "step-size", self.step_size, "a positive number")
        require(0 <= self.hits <= _MOST, "hits", self.hits, f"from 0 to {_MOST}")
        if (self.kernel == "dlhmc") != (self.model is not None):
            if self.kernel == "exact" or self.model is None:
                raise UserError("A learned kernel needs a model and an exact one has none: give --model or --kernel.")
            object.__setattr__(self, "kernel", "dlhmc")
        if self.kernel == "hmc" and self.step_size is None:
            _require_warmup(self.warmup)

    @property
    def default_directory(self) -> Path:
        """Where the run goes if nobody says so."""
        hits = f"-hits{self.hits}" if self.hits else ""
        return Path("runs") / f"{self.kernel}{hits}-{_label(self)}-seed{self.seed}"


@dataclasses.dataclass(frozen=True)
class ObjectSampleConfig:
    """A sampling run of a kernel that was made in Python, which no file can describe: how much of it, and which one."""

    kernel: str
    chains: int
    trajectories: int
    warmup: int
    seed: int
    tune: bool
    target_acceptance: float
    start: Start
    keep_configurations: int
    float64: bool
    #: of the kernel's arrays: a run goes on with the same ones only
    fingerprint: str
    chunk: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        _check_amounts(self)


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """All that determines the numbers of a training run."""

    target: TargetName = "u1"
    """what is to be sampled: u1 (2D U(1) gauge theory), or a problem in flat space"""
    lattice: tuple[int, int] | None = None
    """Lx Lt, sides of the periodic lattice (u1 only)"""
    beta: float | None = None
    """inverse coupling at the end of training (u1 only)"""
    beta_start: float | None = None
    """inverse coupling at the beginning, if another: raised linearly while the target is annealed (u1 only)"""
    network: NetworkName = _OF_TARGET
    """defect (layers that act around one plaquette; u1 only), patch (the same with a network), dense (the paper's)"""
    hidden: tuple[int, ...] = _OF_NETWORK
    """sizes of the hidden layers of the networks"""
    leapfrog_steps: int = _OF_NETWORK
    """leapfrog layers in a trajectory, each with parameters of its own"""
    rule: RuleName = _OF_TARGET
    """position update: circle (for angles), affine (the paper's, for vectors) or shift"""
    mask: MaskName = "random"
    """which half of x is updated first: a random half for each layer, or a checkerboard"""
    step_size: float | None = None
    """size of all steps before training; 0.1 if not given, for a defect 0.4/√β"""
    radii: tuple[float, ...] = ()
    """distances at which the parameters of a defect have values; up to 3√β if not given"""
    flux: float = 1.0
    """units of flux that a defect drives from one place to its surroundings before training"""
    window: int = 5
    """side of the window that patch networks see, in plaquettes"""
    symmetric: bool = False
    """draw a lattice symmetry for each trajectory (u1 only)"""
    chains: int = 128
    """Markov chains in a batch"""
    steps: int = _OF_NETWORK
    """training steps"""
    seed: int = 1
    """root of all random numbers"""
    loss: LossName = _OF_TARGET
    """what training minimises: charge for −A·(ΔQ_R)² (u1 only), jump for −A·|Δx|²"""
    learning_rate: float = _OF_NETWORK
    """largest learning rate of Adam"""
    rate_schedule: RateSchedule = "cosine"
    """how the learning rate goes on after its warm-up"""
    rate_warmup: int = 100
    """steps during which the learning rate rises from 0"""
    clip: float = 1.0
    """largest norm of the gradient; a longer one is shortened"""
    gamma_start: float = _OF_NETWORK
    """annealing factor γ at the beginning; 1 for none"""
    anneal: float = 0.5
    """fraction of the steps during which γ (and β) rise to their final values"""
    gamma_knots: tuple[float, ...] = ()
    """an annealing schedule of one's own: pairs of a fraction of the steps and a γ, the last γ being 1"""
    burn_in: int = 100
    """trajectories before training, at the first γ"""
    start: Start = "exact"
    """first configurations: exact draws, hot (random links) or cold (all links 0)"""
    model: Annotated[str | None, tyro.conf.arg(aliases=("--from",))] = None
    """training run or model file whose parameters to start from"""
    float64: bool = False
    """double precision"""
    chunk: int | None = None
    """steps between two checkpoints; adapted to about a second if not given"""
    tensorboard: bool = False
    """write TensorBoard files, too, into the folder tensorboard of the run"""
    wandb: bool = False
    """write the metrics for Weights & Biases, too: offline, unless WANDB_MODE says otherwise"""

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        _settle_target(self, lattice=(16, 16), beta=7.0)
        by_target = (("rule", "circle", "affine"), ("loss", "charge", "jump"), ("network", "defect", "dense"))
        for name, of_u1, of_vectors in by_target:
            if getattr(self, name) is _OF_TARGET:
                object.__setattr__(self, name, of_u1 if self.target == "u1" else of_vectors)
        for name, value in NETWORK_DEFAULTS[self.network].items():
            if getattr(self, name) is _OF_NETWORK:
                object.__setattr__(self, name, value)
        if self.network != "dense" and self.target != "u1":
            raise UserError(f"Defect layers move topological charge, which {self.target} has not: use --network dense.")
        require_meaning(self.network, dataclasses.asdict(self))
        rising = all(a < b for a, b in itertools.pairwise((0.0, *self.radii[1:])))
        fine = not self.radii or (2 <= len(self.radii) <= _MOST_RADII and self.radii[0] == 0 and rising)
        fine = fine and (not self.radii or self.radii[-1] <= _MOST_RADIUS)
        require(
            fine, "radii", self.radii, f"distances that rise from 0, up to {_MOST_RADII} of them up to {_MOST_RADIUS:g}"
        )
        require(-100 < self.flux < 100, "flux", self.flux, "a number between -100 and 100")
        fine = 1 <= self.window <= _MOST_WINDOW and self.window % 2 == 1
        require(fine, "window", self.window, f"an odd number up to {_MOST_WINDOW}")
        if self.beta_start is not None:
            require(0 < self.beta_start <= 10_000, "beta-start", self.beta_start, "a number above 0 and up to 10000")
        if self.loss == "charge" and self.target != "u1":
            raise UserError(f"The target {self.target} has no topological charge: use --loss jump.")
        fine = 1 <= len(self.hidden) <= 100 and all(1 <= size <= _MOST_HIDDEN for size in self.hidden)
        require(fine, "hidden", self.hidden, f"at least one size, each up to {_MOST_HIDDEN}")
        for name, most in (("leapfrog_steps", 10_000), ("chains", _MOST_CHAINS), ("steps", _MOST)):
            value = getattr(self, name)
            require(1 <= value <= most, name.replace("_", "-"), value, f"from 1 to {most}")
        require(0 <= self.seed < 2**32, "seed", self.seed, "a whole number from 0 to 4294967295")
        for name in ("step_size", "learning_rate", "clip"):
            value = getattr(self, name)
            require(value is None or 0 < value < math.inf, name.replace("_", "-"), value, "a positive number")
        for name in ("rate_warmup", "burn_in"):
            value = getattr(self, name)
            require(0 <= value <= _MOST, name.replace("_", "-"), value, f"from 0 to {_MOST}")
        require(0 < self.gamma_start <= 1, "gamma-start", self.gamma_start, "above 0 and at most 1")
        require(0 <= self.anneal <= 1, "anneal", self.anneal, "from 0 to 1")
        knots = self.gamma_knots
        times, gammas = knots[0::2], knots[1::2]
        fine = len(times) == len(gammas) and all(0 <= t <= 1 for t in times) and all(0 < g <= 1 for g in gammas)
        fine = fine and list(times) == sorted(times) and (not gammas or gammas[-1] == 1)
        require(fine, "gamma-knots", knots, "pairs of a fraction (rising) and a γ in (0, 1], the last γ being 1")
        if self.chunk is not None:
            require(1 <= self.chunk <= _MOST, "chunk", self.chunk, f"from 1 to {_MOST}")

    @property
    def default_directory(self) -> Path:
        """Where the run goes if nobody says so."""
        return Path("runs") / f"train-{self.network}-{_label(self)}-seed{self.seed}"


@dataclasses.dataclass(frozen=True)
class ObjectTrainConfig:
    """A training run of objects that were made in Python: how much of it, and which ones."""

    trajectory: str
    steps: int
    chains: int
    seed: int
    burn_in: int
    start: Start
    symmetric: bool
    float64: bool
    #: of the arrays of target, schedules and trajectory: a run goes on with the same ones only
    fingerprint: str
    tensorboard: bool = False
    wandb: bool = False
    chunk: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        for name in ("chains", "steps"):
            require(1 <= getattr(self, name) <= _MOST, name, getattr(self, name), "at least 1")
        require(0 <= self.burn_in <= _MOST, "burn-in", self.burn_in, "0 or more")
        require(0 <= self.seed < 2**32, "seed", self.seed, "a whole number from 0 to 4294967295")
        if self.chunk is not None:
            require(self.chunk >= 1, "chunk", self.chunk, "at least 1")


#: settings by name, each a starting point that other options change
TRAIN_PRESETS: dict[str, dict[str, Any]] = {
    # Section 5 of the paper: eight A100 for a day.
    "paper": {
        "network": "dense",
        "lattice": (16, 16),
        "beta": 7.0,
        "beta_start": 2.0,
        "chains": 2048,
        "hidden": (256, 256, 256),
        "leapfrog_steps": 10,
        "steps": 500_000,
    },
    "laptop": {
        "network": "dense",
        "lattice": (8, 8),
        "beta": 4.0,
        "hidden": (64, 64),
        "chains": 64,
        "leapfrog_steps": 8,
        "steps": 1500,
    },
}


def _check_amounts(config: SampleConfig | ObjectSampleConfig) -> None:
    """How many chains and trajectories, and the like."""
    require(1 <= config.chains <= _MOST_CHAINS, "chains", config.chains, f"from 1 to {_MOST_CHAINS}")
    require(1 <= config.trajectories <= _MOST, "trajectories", config.trajectories, f"from 1 to {_MOST}")
    require(0 <= config.warmup <= _MOST, "warmup", config.warmup, f"from 0 to {_MOST}")
    require(0 <= config.seed < 2**32, "seed", config.seed, "a whole number from 0 to 4294967295")
    require(0 < config.target_acceptance < 1, "target-acceptance", config.target_acceptance, "between 0 and 1")
    kept = config.keep_configurations
    fine = 0 <= kept <= config.trajectories
    require(fine, "keep-configurations", kept, "from 0 to the number of trajectories")
    if config.chunk is not None:
        require(1 <= config.chunk <= _MOST, "chunk", config.chunk, f"from 1 to {_MOST}")
    if isinstance(config, ObjectSampleConfig) and config.tune:
        _require_warmup(config.warmup)


def _require_warmup(warmup: int) -> None:
    if warmup == 0:
        raise UserError("The step size is tuned during the warm-up: give --warmup above 0 or a --step-size.")


def _settle_target(config: SampleConfig | TrainConfig, lattice: tuple[int, int], beta: float) -> None:
    """Fill in lattice and coupling of U(1); refuse them for other targets."""
    if config.target != "u1":
        for name, nothing in _U1_ONLY.items():
            if getattr(config, name, nothing) != nothing:
                option = name.replace("_", "-")
                raise UserError(f"--{option} is for the target u1, not for {config.target}: leave it out.")
        return
    lattice = config.lattice or lattice
    beta = beta if config.beta is None else config.beta
    require(all(2 <= side <= _MOST_SIDE for side in lattice), "lattice", lattice, f"sides from 2 to {_MOST_SIDE}")
    require(0 < beta <= 10_000, "beta", beta, "a number above 0 and up to 10000")
    object.__setattr__(config, "lattice", lattice)
    object.__setattr__(config, "beta", beta)


def _label(config: SampleConfig | TrainConfig) -> str:
    """The target as part of a file name."""
    return config.target if config.lattice is None else f"{'x'.join(map(str, config.lattice))}-b{config.beta:g}"


def require(good: bool, name: str, value: object, wanted: str) -> None:
    """Refuse a value with one sentence."""
    if not good:
        shown = " ".join(map(str, value)) if isinstance(value, tuple) else value
        raise UserError(f"--{name} is {shown}, but must be {wanted}.")


def load(kind: type[T], path: Path, **overriding: Any) -> T:
    """Read a configuration from a TOML file; every key must be known and of the right type."""
    try:
        table = tomllib.loads(read_text(path).decode())
    except FileNotFoundError:
        raise UserError(f"There is no configuration file {path}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"The configuration {path} cannot be read: {error}.") from None
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in hints:
            close = difflib.get_close_matches(name, hints, n=1)
            advice = f"did you mean '{close[0]}'?" if close else f"known keys: {', '.join(hints)}."
            raise UserError(f"The configuration {path} has an unknown key '{key}': {advice}")
        values[name] = _convert(value, hints[name], key, path)
    return kind(**values | overriding)


def dumps(config: Any) -> str:
    """A configuration as TOML that `load` gives back."""
    return tomli_w.dumps({name: value for name, value in dataclasses.asdict(config).items() if value is not None})


def save(config: Any, path: Path) -> None:
    """Write a configuration that `load` gives back."""
    path.write_text(dumps(config), encoding="utf-8")


def _convert(value: object, hint: Any, key: str, path: Path) -> object:
    """The TOML value as the type of the field, or a sentence that says what it should be."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        hint = next(argument for argument in arguments if argument is not type(None))
        return _convert(value, hint, key, path)
    if origin is Literal:
        if value in arguments:
            return value
        wanted = f"one of {', '.join(map(str, arguments))}"
    elif origin is tuple:
        kind, open_ended = arguments[0], arguments[-1] is ...
        fits = isinstance(value, list) and (open_ended or len(value) == len(arguments))
        if isinstance(value, list) and fits and all(_fits(part, kind) for part in value):
            return tuple(kind(part) if kind is float else part for part in value)
        choices = typing.get_args(kind)
        what = {int: "whole numbers", float: "numbers", str: "texts"}.get(kind, f"out of {', '.join(choices)}")
        wanted = f"a list {what if choices else f'of {what}'}" if open_ended else f"a list of {len(arguments)} {what}"
    elif hint is float and _fits(value, float):
        return float(value)  # type: ignore[arg-type]
    elif type(value) is hint:
        return value
    else:
        wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[hint]
    shown = str(value) if isinstance(value, int) and abs(value) < 2**63 else repr(value)
    shown = shown if len(shown) < 100 else f"{shown[:100]}…"
    raise UserError(f"The configuration {path} has {key} = {shown}, but it must be {wanted}.")


def _fits(value: object, kind: Any) -> bool:
    """Whether a member of a list is of the kind wanted: a type, or a choice of names."""
    if typing.get_origin(kind) is Literal:
        return value in typing.get_args(kind)
    return type(value) is kind or (kind is float and type(value) is int and abs(value) < 2**63)
