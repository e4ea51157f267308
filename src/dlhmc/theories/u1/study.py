"""The paper's results section: train along β, compare at each β. Free of heavy imports."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from dlhmc.models.architecture import Layers
from dlhmc.models.dense import Hidden
from dlhmc.settings import Chains, Count, Positive, hints_of
from dlhmc.studies.study import Part, Preset
from dlhmc.theories import registry
from dlhmc.theories.gauge.study import CouplingStudy
from dlhmc.theories.u1.theory import U1Theory

_PAPER = U1Theory.presets["paper"]
# From here on dense networks start from layers that act in one place; below, to heat everything alike does better.
_FROZEN_FROM = 4.5
# Trained below this β, such layers may end up heating their window instead of opening a hole in it; trained here, they
# serve from _FROZEN_FROM on.
_HOLE_FROM = 7.0


@dataclasses.dataclass(frozen=True)
class U1Study(CouplingStudy):
    """The samplers to train, whose parameters are handed on from each β to the next, and how long to compare."""

    target: ClassVar[str] = U1Theory.name

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
    budgets: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (60.0, 60.0, 120.0, 180.0, 300.0, 900.0)
    """seconds for the comparison at each coupling; one number serves for all"""

    def __post_init__(self) -> None:
        """No sampler twice."""
        super().__post_init__()
        distinct = len(set(self.leapfrog_steps)) == len(self.leapfrog_steps)
        self.require(distinct, "leapfrog_steps", "different numbers")
        self.require(len(set(self.beside)) == len(self.beside), "beside", "different samplers")

    def parts(self) -> Iterator[Part]:
        """Train for one coupling, compare there, go on to the next."""
        before: float | None = None
        for beta in self.betas:
            for number in self.leapfrog_steps:
                title = f"{number} layers at β = {beta:g}"
                yield self.training(_name(beta, number), title, self._handed_on(beta, number, before))
            for network in self._beside(beta):
                title = f"{network} layers at β = {beta:g}"
                yield self.training(_beside_name(beta, network), title, self._trained_beside(beta, network))
            models = [_name(beta, number) for number in self.leapfrog_steps]
            yield self.compared(beta, models + [_beside_name(beta, network) for network in self.beside])
            before = beta

    def _handed_on(self, beta: float, leapfrog_steps: int, before: float | None) -> dict[str, Any]:
        """Training at one coupling, from the parameters at the one before."""
        architecture = registry.architecture(self.network)
        table = self.at(beta) | architecture.handed_on(list(self.betas))
        table |= {
            "network": self.network,
            "leapfrog_steps": leapfrog_steps,
            "chains": self.train_chains,
            "steps": self.steps if before is None else self.transfer_steps,
            "model": None if before is None else _name(before, leapfrog_steps),
        }
        if "hidden" in hints_of(architecture):
            table["hidden"] = self.hidden
        # Dense networks: anneal towards the first coupling, then follow β up; defects need no annealing.
        if self.network == "dense" and before is not None:
            table["beta_start"] = before
        return table

    def _beside(self, beta: float) -> list[str]:
        """All to be trained at one coupling for the samplers beside, in this order."""
        before = {"dense": [_taken_over(beta)]}
        return [name for network in self.beside for name in (*before.get(network, ()), network)]

    def _trained_beside(self, beta: float, network: str) -> dict[str, Any]:
        """Training of one of them."""
        table = self.at(beta) | {"network": network, "steps": self.beside_steps, "chains": self.train_chains}
        # Layers with a window do not know the lattice.
        small = {"lattice": tuple(min(side, 8) for side in self.lattice), "chains": 2 * self.train_chains}
        base = _taken_over(beta)
        own: dict[str, dict[str, Any]] = {
            "local": small,
            "weighted": small | {"symmetric": True, "beta": max(beta, _HOLE_FROM)},
            "uniform": {"step_size": 0.2, "anneal": 0.7},
            "dense": {
                "model": _beside_name(beta, base),
                "symmetric": base == "weighted",
                "hidden": (64, 64),
                "gamma_start": 1.0,
                "learning_rate": 1e-5,
                "steps": self.dense_steps,
            },
        }
        return table | own[network]


#: the paper's sizes are for GPUs: half a million steps in all
PRESETS: Mapping[str, Preset] = {
    "cpu": Preset("the paper's results in under two hours on two cores", U1Study),
    "paper": Preset(
        "the paper's sizes, for GPUs",
        U1Study,
        {
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
    ),
}


def _taken_over(beta: float) -> str:
    """The layers that dense networks take over."""
    return "weighted" if beta >= _FROZEN_FROM else "uniform"


def _name(beta: float, leapfrog_steps: int) -> str:
    """The folder of a training run."""
    return f"train-b{beta:g}-n{leapfrog_steps}"


def _beside_name(beta: float, network: str) -> str:
    """The folder of a training run of a sampler beside."""
    return f"train-{network}-b{beta:g}"
