"""The paper's results section: train along β, compare at each β. Free of heavy imports."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from dlhmc.models.architecture import Layers
from dlhmc.models.dense import Hidden
from dlhmc.settings import Chains, Count, Positive
from dlhmc.studies.study import Part
from dlhmc.theories.gauge.study import CouplingStudy

# With the paper's heads some seeds start late.
_STEPS = {"plaquettes": 1500, "links": 3000, "paper": 3000}


@dataclasses.dataclass(frozen=True)
class U1Study(CouplingStudy):
    """The paper's results with networks in windows, in half an hour on two cores."""

    target: ClassVar[str] = "u1"

    heads: Annotated[tuple[Literal["plaquettes", "links", "paper"], ...], Meta(min_length=1)] = ("plaquettes", "links")
    """what networks give, a sampler for each: see `dlhmc train u1 local --help`"""
    budgets: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (60.0, 60.0, 60.0, 60.0, 120.0, 300.0)
    """seconds for the comparison at each coupling; one number serves for all"""

    def __post_init__(self) -> None:
        """No sampler twice."""
        super().__post_init__()
        self.require(len(set(self.heads)) == len(self.heads), "heads", "different samplers")

    def parts(self) -> Iterator[Part]:
        """Train for one coupling, compare there, go on to the next."""
        for beta in self.betas:
            for heads in self.heads:
                table = self.at(beta) | {"network": "local", "heads": heads, "steps": _STEPS[heads]}
                yield self.training(_name(beta, heads), f"networks with heads of {heads} at β = {beta:g}", table)
            yield self.compared(beta, [_name(beta, heads) for heads in self.heads])


@dataclasses.dataclass(frozen=True)
class PaperStudy(CouplingStudy):
    """The paper's networks and sizes, for GPUs: parameters are handed on from each β to the next."""

    target: ClassVar[str] = "u1"

    chains: Annotated[int, Meta(ge=2, le=10**7)] = 512
    """chains of each sampler in a comparison"""
    leapfrog_steps: Layers = 10
    """leapfrog layers"""
    hidden: Hidden = (256, 256, 256)
    """sizes of the hidden layers of networks"""
    train_chains: Chains = 2048
    """chains in a training batch"""
    steps: Count = 250_000
    """training steps at the first coupling"""
    transfer_steps: Count = 50_000
    """training steps at each of the others"""
    budgets: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (1800.0,)
    """seconds for the comparison at each coupling; one number serves for all"""

    def parts(self) -> Iterator[Part]:
        """Anneal towards the first coupling, then follow β up, and compare at each."""
        before: float | None = None
        for beta in self.betas:
            table = self.at(beta) | {
                "network": "dense",
                "leapfrog_steps": self.leapfrog_steps,
                "hidden": self.hidden,
                "chains": self.train_chains,
                "steps": self.steps if before is None else self.transfer_steps,
                "model": None if before is None else _name(before, "dense"),
                "gamma_start": before and before / beta,
            }
            yield self.training(_name(beta, "dense"), f"dense networks at β = {beta:g}", table)
            yield self.compared(beta, [_name(beta, "dense")])
            before = beta


def _name(beta: float, sampler: str) -> str:
    """The folder of a training run."""
    return f"train-{sampler}-b{beta:g}"
