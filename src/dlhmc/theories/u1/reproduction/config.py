"""What a reproduction is told."""

import dataclasses
from pathlib import Path
from typing import Any

from dlhmc.comparison.config import CompareConfig
from dlhmc.names import NetworkName
from dlhmc.runs.config import MEANINGLESS, TRAIN_PRESETS, TrainConfig, require


@dataclasses.dataclass(frozen=True)
class ReproduceConfig:
    """The couplings, the samplers to train, and how long to compare."""

    lattice: tuple[int, int] = (16, 16)
    """Lx Lt, sides of the periodic lattice"""
    betas: tuple[float, ...] = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    """inverse couplings, rising; parameters are handed on from each to the next"""
    network: NetworkName = "defect"
    """defect (layers that act around one plaquette), patch (the same with a network), dense (the paper's)"""
    leapfrog_steps: tuple[int, ...] = (8, 2)
    """numbers of leapfrog layers; a sampler is trained for each"""
    hidden: tuple[int, ...] = (32,)
    """sizes of the hidden layers of networks"""
    train_chains: int = 128
    """chains in a training batch"""
    steps: int = 2000
    """training steps at the first coupling"""
    transfer_steps: int = 1000
    """training steps at each of the others"""
    lengths: tuple[float, ...] = (1.0, 2.0, 4.0)
    """trajectory lengths of HMC"""
    acceptances: tuple[float, ...] = (0.6, 0.8, 0.9)
    """acceptances that the step size of HMC is tuned to"""
    chains: int = 128
    """chains of each sampler in a comparison"""
    budgets: tuple[float, ...] = (45.0, 45.0, 60.0, 120.0, 300.0, 900.0)
    """seconds for the comparison at each coupling; one number serves for all"""
    precision: float = 0.1
    """relative error of τ_int at which a sampler has been measured"""
    seed: int = 1
    """root of all random numbers"""

    def __post_init__(self) -> None:
        """Refuse what cannot run; all of it before the first hour is spent."""
        rising = all(a < b for a, b in zip(self.betas, self.betas[1:], strict=False))
        require(len(self.betas) > 0 and rising, "betas", self.betas, "numbers that rise")
        fits = len(self.budgets) in (1, len(self.betas))
        require(fits, "budgets", self.budgets, "one number, or one for each of the betas")
        distinct = len(set(self.leapfrog_steps)) == len(self.leapfrog_steps) > 0
        require(distinct, "leapfrog-steps", self.leapfrog_steps, "different numbers, at least one")
        for index in range(len(self.betas)):
            self.comparison(index, Path())
            for number in self.leapfrog_steps:
                self.training(index, number, None)

    @property
    def default_directory(self) -> Path:
        """Where it goes if nobody says so."""
        return Path("runs") / f"reproduce-{'x'.join(map(str, self.lattice))}-seed{self.seed}"

    def training(self, index: int, leapfrog_steps: int, before: Path | None) -> TrainConfig:
        """Training at one coupling, from the parameters at the one before."""
        # Dense networks: anneal towards the first coupling, then follow β up; defects need no annealing.
        follow = self.network == "dense" and index > 0
        return TrainConfig(
            lattice=self.lattice,
            beta=self.betas[index],
            network=self.network,
            leapfrog_steps=leapfrog_steps,
            hidden=MEANINGLESS[self.network].get("hidden", self.hidden),
            chains=self.train_chains,
            steps=self.transfer_steps if index else self.steps,
            seed=self.seed,
            model=None if before is None else str(before),
            beta_start=self.betas[index - 1] if follow else None,
        )

    def comparison(self, index: int, directory: Path) -> CompareConfig:
        """The comparison at one coupling, with the samplers trained in `directory`."""
        return CompareConfig(
            lattice=self.lattice,
            beta=self.betas[index],
            model=tuple(str(directory / training_name(self.betas[index], number)) for number in self.leapfrog_steps),
            lengths=self.lengths,
            acceptances=self.acceptances,
            chains=self.chains,
            precision=self.precision,
            budget=self.budgets[index if len(self.budgets) > 1 else 0],
            seed=self.seed,
        )


def training_name(beta: float, leapfrog_steps: int) -> str:
    """The folder of a training run."""
    return f"train-b{beta:g}-n{leapfrog_steps}"


def comparison_name(beta: float) -> str:
    """The folder of a comparison."""
    return f"compare-b{beta:g}"


_PAPER = TRAIN_PRESETS["paper"]
REPRODUCE_PRESETS: dict[str, dict[str, Any]] = {
    "cpu": {},
    # The paper's sizes, for GPUs: half a million steps in all.
    "paper": {
        "network": "dense",
        "leapfrog_steps": (_PAPER["leapfrog_steps"],),
        "hidden": _PAPER["hidden"],
        "train_chains": _PAPER["chains"],
        "steps": 250_000,
        "transfer_steps": 50_000,
        "chains": 512,
        "budgets": (1800.0,),
    },
}
