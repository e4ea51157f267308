"""What a comparison is told."""

import dataclasses
import math
from pathlib import Path

from dlhmc.errors import UserError
from dlhmc.names import Scheme
from dlhmc.runs.config import require


@dataclasses.dataclass(frozen=True)
class CompareConfig:
    """The theory, the samplers to compare, and how precisely."""

    lattice: tuple[int, int] = (16, 16)
    """Lx Lt, sides of the periodic lattice"""
    beta: float = 7.0
    """inverse coupling"""
    model: tuple[str, ...] = ()
    """training runs or model files of learned samplers"""
    integrators: tuple[Scheme, ...] = ("leapfrog", "omelyan")
    """integrators of HMC"""
    lengths: tuple[float, ...] = (1.0, 2.0, 4.0)
    """trajectory lengths of HMC: number of steps times their size"""
    acceptances: tuple[float, ...] = (0.6, 0.8, 0.9)
    """acceptances that the step size of HMC is tuned to, each a point of the grid for each length"""
    step_sizes: tuple[float, ...] = ()
    """step sizes of HMC, in place of acceptances"""
    hits: int = 1
    """instanton hits after each trajectory, for HMC with hits; 0 to leave it out"""
    hit_lengths: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    """trajectory lengths of HMC with hits, which only has to stir what the hits leave as it is"""
    exact: bool = True
    """compare with independent exact configurations"""
    chains: int = 128
    """Markov chains side by side, each from an exact start"""
    precision: float = 0.1
    """relative error of τ_int at which a sampler has been measured"""
    budget: float = 300.0
    """seconds after which the race ends, measured or not; compiling and tuning come before"""
    seed: int = 1
    """root of all random numbers"""
    float64: bool = False
    """double precision"""

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        require(all(2 <= side <= 10**4 for side in self.lattice), "lattice", self.lattice, "sides from 2 to 10000")
        require(0 < self.beta <= 10_000, "beta", self.beta, "a number above 0 and up to 10000")
        _check(self)

    @property
    def default_directory(self) -> Path:
        """Where the results go if nobody says so."""
        side = "x".join(map(str, self.lattice))
        return Path("runs") / f"compare-{side}-b{self.beta:g}-seed{self.seed}"


@dataclasses.dataclass(frozen=True)
class ObjectCompareConfig:
    """The same for a target and kernels that were made in Python; `kernels` are their names."""

    target: str
    kernels: tuple[str, ...]
    integrators: tuple[Scheme, ...]
    lengths: tuple[float, ...]
    acceptances: tuple[float, ...]
    step_sizes: tuple[float, ...]
    hits: int
    hit_lengths: tuple[float, ...]
    exact: bool
    chains: int
    precision: float
    budget: float
    seed: int
    float64: bool

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        _check(self)


def _check(config: CompareConfig | ObjectCompareConfig) -> None:
    require(len(config.integrators) > 0, "integrators", config.integrators, "at least one of leapfrog and omelyan")
    for name, lengths in (("lengths", config.lengths), ("hit-lengths", config.hit_lengths)):
        fine = len(lengths) > 0 and all(0 < length < math.inf for length in lengths)
        require(fine, name, lengths, "at least one positive number")
    fine = all(0 < acceptance < 1 for acceptance in config.acceptances)
    require(fine, "acceptances", config.acceptances, "between 0 and 1")
    if not config.acceptances and not config.step_sizes:
        raise UserError("HMC needs steps of some size: give --acceptances or --step-sizes.")
    sizes = config.step_sizes
    require(all(0 < size < math.inf for size in sizes), "step-sizes", sizes, "positive numbers")
    require(0 <= config.hits <= 10**9, "hits", config.hits, "from 0 to 1000000000")
    require(2 <= config.chains <= 10**7, "chains", config.chains, "from 2 to 10000000")
    require(0 < config.precision < 1, "precision", config.precision, "between 0 and 1")
    require(0 < config.budget < math.inf, "budget", config.budget, "a positive number of seconds")
    require(0 <= config.seed < 2**32, "seed", config.seed, "a whole number from 0 to 4294967295")
