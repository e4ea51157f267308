"""What a reproduction is told. Free of heavy imports."""

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from msgspec import Meta

from dlhmc.models.architecture import Layers
from dlhmc.models.dense import Hidden
from dlhmc.plans.tables import absolute
from dlhmc.settings import Chains, Count, Positive, Probability, Seed, Settings, hints_of, require_known
from dlhmc.theories import registry
from dlhmc.theories.gauge.theory import Beta, Side
from dlhmc.theories.u1.theory import U1Theory

if TYPE_CHECKING:
    from dlhmc.plans.comparing import ComparePlan
    from dlhmc.plans.training import TrainPlan

_PAPER = U1Theory.presets["paper"]
# From here on dense networks start from layers that act in one place; below, to heat everything alike does better.
_FROZEN_FROM = 5.5


@dataclasses.dataclass(frozen=True)
class ReproduceSettings(Settings):
    """The couplings, the samplers to train, and how long to compare."""

    #: by name, each a starting point that other options change
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cpu": {},
        # The paper's sizes, for GPUs: half a million steps in all.
        "paper": {
            "network": "dense",
            "beside": (),
            "leapfrog_steps": (_PAPER["leapfrog_steps"],),
            "hidden": _PAPER["hidden"],
            "train_chains": _PAPER["chains"],
            "steps": 250_000,
            "transfer_steps": 50_000,
            "chains": 512,
            "budgets": (1800.0,),
        },
    }

    lattice: tuple[Side, Side] = (16, 16)
    """Lx Lt, sides of the periodic lattice"""
    betas: Annotated[tuple[Beta, ...], Meta(min_length=1)] = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    """inverse couplings, rising; parameters are handed on from each to the next"""
    network: Literal["defect", "patch", "dense"] = "defect"
    """defect (layers that act around one plaquette), patch (the same with a network), dense (the paper's)"""
    leapfrog_steps: Annotated[tuple[Layers, ...], Meta(min_length=1)] = (8, 2)
    """numbers of leapfrog layers; a sampler is trained for each"""
    hidden: Hidden = (32,)
    """sizes of the hidden layers of networks"""
    train_chains: Chains = 128
    """chains in a training batch"""
    steps: Count = 2000
    """training steps at the first coupling"""
    transfer_steps: Count = 1000
    """training steps at each of the others"""
    beside: tuple[Literal["local", "dense"], ...] = ("local", "dense")
    """samplers beside, trained anew at each coupling: local layers, and dense networks that take over simpler layers"""
    beside_steps: Count = 2000
    """training steps of local layers, and of the layers that dense networks take over"""
    dense_steps: Count = 100
    """training steps of dense networks after that"""
    lengths: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (1.0, 2.0, 4.0)
    """trajectory lengths of HMC"""
    acceptances: Annotated[tuple[Probability, ...], Meta(min_length=1)] = (0.6, 0.8, 0.9)
    """acceptances that the step size of HMC is tuned to"""
    chains: Annotated[int, Meta(ge=2, le=10**7)] = 128
    """chains of each sampler in a comparison"""
    budgets: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (45.0, 45.0, 60.0, 120.0, 300.0, 900.0)
    """seconds for the comparison at each coupling; one number serves for all"""
    precision: Probability = 0.1
    """relative error of τ_int at which a sampler has been measured"""
    curves: str | None = None
    """TOML file of curves that the report shows for reference, such as docs/results/paper-curves.toml"""
    seed: Seed = 1
    """root of all random numbers"""

    def __post_init__(self) -> None:
        """Couplings rise, and each has a budget."""
        super().__post_init__()
        self.require(all(a < b for a, b in itertools.pairwise(self.betas)), "betas", "numbers that rise")
        fits = len(self.budgets) in (1, len(self.betas))
        self.require(fits, "budgets", "one number, or one for each of the betas")
        distinct = len(set(self.leapfrog_steps)) == len(self.leapfrog_steps)
        self.require(distinct, "leapfrog_steps", "different numbers")
        self.require(len(set(self.beside)) == len(self.beside), "beside", "different samplers")
        object.__setattr__(self, "curves", absolute(self.curves))

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str = "The table") -> Self:
        """From a flat table."""
        require_known(table, hints_of(cls), where)
        return cls(**table)

    def table(self) -> dict[str, Any]:
        """As a flat table."""
        return dataclasses.asdict(self)

    @property
    def default_directory(self) -> Path:
        """Where it goes if nobody says so."""
        return Path("runs") / f"reproduce-{'x'.join(map(str, self.lattice))}-seed{self.seed}"

    def _target(self, index: int) -> dict[str, Any]:
        return {"target": U1Theory.name, "lattice": self.lattice, "beta": self.betas[index], "seed": self.seed}

    def training(self, index: int, leapfrog_steps: int, before: Path | None) -> "TrainPlan":
        """Training at one coupling, from the parameters at the one before."""
        from dlhmc.plans.training import TrainPlan

        architecture = registry.architecture(self.network)
        table = self._target(index) | architecture.handed_on(list(self.betas))
        table |= {
            "network": self.network,
            "leapfrog_steps": leapfrog_steps,
            "chains": self.train_chains,
            "steps": self.transfer_steps if index else self.steps,
            "model": None if before is None else str(before),
        }
        if "hidden" in hints_of(architecture):
            table["hidden"] = self.hidden
        # Dense networks: anneal towards the first coupling, then follow β up; defects need no annealing.
        if self.network == "dense" and index > 0:
            table["beta_start"] = self.betas[index - 1]
        return TrainPlan.from_table(table)

    def beside_networks(self, index: int) -> list[str]:
        """All to be trained at one coupling for the samplers beside, in this order."""
        before = {"dense": [self._taken_over(index)]}
        return [name for network in self.beside for name in (*before.get(network, ()), network)]

    def _taken_over(self, index: int) -> str:
        """The layers that dense networks take over."""
        return "weighted" if self.betas[index] >= _FROZEN_FROM else "uniform"

    def beside_training(self, index: int, network: str, directory: Path) -> "TrainPlan":
        """Training of one of them."""
        from dlhmc.plans.training import TrainPlan

        table = self._target(index) | {"network": network, "steps": self.beside_steps, "chains": self.train_chains}
        # Layers with a window do not know the lattice.
        small = {"lattice": tuple(min(side, 8) for side in self.lattice), "chains": 2 * self.train_chains}
        base = self._taken_over(index)
        own: dict[str, dict[str, Any]] = {
            "local": small,
            "weighted": small | {"symmetric": True},
            "uniform": {"step_size": 0.2, "anneal": 0.7},
            "dense": {
                "model": str(directory / beside_name(self.betas[index], base)),
                "symmetric": base == "weighted",
                "hidden": (64, 64),
                "gamma_start": 1.0,
                "learning_rate": 1e-5,
                "steps": self.dense_steps,
            },
        }
        return TrainPlan.from_table(table | own[network])

    def comparison(self, index: int, directory: Path) -> "ComparePlan":
        """The comparison at one coupling, with the samplers trained in `directory`."""
        from dlhmc.plans.comparing import ComparePlan

        beta = self.betas[index]
        names = [training_name(beta, number) for number in self.leapfrog_steps]
        names += [beside_name(beta, network) for network in self.beside]
        models = tuple(str(directory / name) for name in names)
        shared = ("lengths", "acceptances", "chains", "precision")
        table = self._target(index) | {name: getattr(self, name) for name in shared}
        return ComparePlan.from_table(table | {"model": models, "budget": self.budget(index)})

    def budget(self, index: int) -> float:
        """Seconds for the comparison at one coupling."""
        return self.budgets[index if len(self.budgets) > 1 else 0]


def training_name(beta: float, leapfrog_steps: int) -> str:
    """The folder of a training run."""
    return f"train-b{beta:g}-n{leapfrog_steps}"


def beside_name(beta: float, network: str) -> str:
    """The folder of a training run of a sampler beside."""
    return f"train-{network}-b{beta:g}"


def comparison_name(beta: float) -> str:
    """The folder of a comparison."""
    return f"compare-b{beta:g}"
