"""What a run is told: frozen dataclasses that the command line and TOML files fill in."""

import dataclasses
import difflib
import math
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, Literal, TypeVar

import tomli_w

from dlhmc.errors import UserError
from dlhmc.names import KernelName, Scheme, Start

T = TypeVar("T")
# Trajectories and steps are counted in 32 bits.
_MOST = 10**9


@dataclasses.dataclass(frozen=True)
class SampleConfig:
    """All that determines the numbers of a sampling run."""

    kernel: KernelName = "hmc"
    """hmc, or exact for independent configurations"""
    lattice: tuple[int, int] = (16, 16)
    """Lx Lt, sides of the periodic lattice"""
    beta: float = 7.0
    """inverse coupling"""
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
    keep_configurations: int = 0
    """configurations of each chain to keep, evenly spaced; otherwise observables only"""
    float64: bool = False
    """double precision"""
    chunk: int | None = None
    """trajectories between two looks at the progress; adapted to about a second if not given"""

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        require(all(side >= 2 for side in self.lattice), "lattice", self.lattice, "sides of at least 2")
        require(0 < self.beta <= 10_000, "beta", self.beta, "a number above 0 and up to 10000")
        require(self.chains >= 1, "chains", self.chains, "at least 1")
        require(1 <= self.trajectories <= _MOST, "trajectories", self.trajectories, f"from 1 to {_MOST}")
        require(0 <= self.warmup <= _MOST, "warmup", self.warmup, f"from 0 to {_MOST}")
        require(0 <= self.seed < 2**32, "seed", self.seed, "a whole number from 0 to 4294967295")
        require(1 <= self.leapfrog_steps <= _MOST, "leapfrog-steps", self.leapfrog_steps, f"from 1 to {_MOST}")
        if self.step_size is not None:
            require(0 < self.step_size < math.inf, "step-size", self.step_size, "a positive number")
        require(0 < self.target_acceptance < 1, "target-acceptance", self.target_acceptance, "between 0 and 1")
        require(self.hits >= 0, "hits", self.hits, "0 or more")
        kept = self.keep_configurations
        require(
            0 <= kept <= self.trajectories,
            "keep-configurations",
            kept,
            "from 0 to the number of trajectories",
        )
        if self.chunk is not None:
            require(self.chunk >= 1, "chunk", self.chunk, "at least 1")
        tuned = self.kernel == "hmc" and self.step_size is None
        if tuned and self.warmup == 0:
            raise UserError("The step size is tuned during the warm-up: give --warmup above 0 or a --step-size.")

    @property
    def default_directory(self) -> Path:
        """Where the run goes if nobody says so."""
        hits = f"-hits{self.hits}" if self.hits else ""
        side = "x".join(map(str, self.lattice))
        return Path("runs") / f"{self.kernel}{hits}-{side}-b{self.beta:g}-seed{self.seed}"


def require(good: bool, name: str, value: object, wanted: str) -> None:
    """Refuse a value with one sentence."""
    if not good:
        shown = " ".join(map(str, value)) if isinstance(value, tuple) else value
        raise UserError(f"--{name} is {shown}, but must be {wanted}.")


def load(kind: type[T], path: Path) -> T:
    """Read a configuration from a TOML file; every key must be known and of the right type."""
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except FileNotFoundError:
        raise UserError(f"There is no configuration file {path}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
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
    return kind(**values)


def save(config: Any, path: Path) -> None:
    """Write a configuration that `load` gives back."""
    table = {name: value for name, value in dataclasses.asdict(config).items() if value is not None}
    path.write_text(tomli_w.dumps(table), encoding="utf-8")


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
        if isinstance(value, list) and len(value) == len(arguments) and all(type(v) is int for v in value):
            return tuple(value)
        wanted = f"a list of {len(arguments)} whole numbers"
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif type(value) is hint:
        return value
    else:
        wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[hint]
    raise UserError(f"The configuration {path} has {key} = {value!r}, but it must be {wanted}.")
