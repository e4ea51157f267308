"""Studies along β: what they have in common, and that of U(2). Free of heavy imports."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from dlhmc.settings import Chains, Count, Positive, Probability
from dlhmc.studies.study import Part, Study
from dlhmc.theories.gauge.theory import Beta, Side

_SECONDS_OF_TRAINING = 540.0


def rises(numbers: tuple[float, ...]) -> bool:
    """Each is larger than the one before."""
    return all(a < b for a, b in itertools.pairwise(numbers))


@dataclasses.dataclass(frozen=True)
class CouplingStudy(Study):
    """Samplers trained for each β and compared there."""

    column: ClassVar[str] = "β"
    #: the theory
    target: ClassVar[str]

    lattice: tuple[Side, Side] = (16, 16)
    """Lx Lt, sides of the periodic lattice"""
    betas: Annotated[tuple[Beta, ...], Meta(min_length=1)] = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    """inverse couplings, rising"""

    def __post_init__(self) -> None:
        """Couplings rise."""
        super().__post_init__()
        self.require(rises(self.betas), "betas", "numbers that rise")

    @property
    def number(self) -> int:
        """One for each β."""
        return len(self.betas)

    @property
    def label(self) -> str:
        """16x16."""
        return "x".join(map(str, self.lattice))

    def at(self, beta: float) -> dict[str, Any]:
        """The settings of the target."""
        return {"target": self.target, "lattice": self.lattice, "beta": beta}

    def compared(self, beta: float, models: list[str], preparation: float = 1.0) -> Part:
        """The comparison there; `preparation` counts minutes."""
        index, row = self.betas.index(beta), f"{beta:g}"
        return self.comparison(index, f"compare-b{row}", row, self.at(beta), models, preparation)


@dataclasses.dataclass(frozen=True)
class U2Study(CouplingStudy):
    """Local layers, trained on a small lattice, against tuned HMC and the heat bath with overrelaxation."""

    target: ClassVar[str] = "u2"

    betas: Annotated[tuple[Beta, ...], Meta(min_length=1)] = (10.0, 12.0, 14.0, 16.0)
    """inverse couplings, rising"""
    trained: Annotated[tuple[Beta, ...], Meta(min_length=1)] = (14.0, 16.0)
    """couplings to train at, rising; at others the layers of the next one above serve as they are"""
    train_lattice: tuple[Side, Side] = (6, 6)
    """lattice to train on; layers with a window do not know the lattice"""
    train_chains: Chains = 256
    """chains in a training batch"""
    steps: Count = 2500
    """training steps"""
    acceptances: Annotated[tuple[Probability, ...], Meta(min_length=1)] = (0.7, 0.9)
    """acceptances that the step size of HMC is tuned to"""
    chains: Annotated[int, Meta(ge=2, le=10**7)] = 64
    """chains of each sampler in a comparison"""
    budgets: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (600.0, 900.0, 1000.0, 1000.0)
    """seconds for each comparison; one number serves for all"""
    precision: Probability = 0.05
    """relative error of τ_int at which a sampler has been measured"""

    def __post_init__(self) -> None:
        """Couplings rise."""
        super().__post_init__()
        self.require(rises(self.trained), "trained", "numbers that rise")

    @property
    def label(self) -> str:
        """u2-16x16."""
        return f"{self.target}-{super().label}"

    def parts(self) -> Iterator[Part]:
        """Train where layers are missing, compare, go on to the next coupling."""
        layers = {"network": "local", "lattice": self.train_lattice, "chains": self.train_chains, "steps": self.steps}
        done: set[float] = set()
        for beta in self.betas:
            at = next((b for b in self.trained if b >= beta), self.trained[-1])
            name, table = f"train-b{at:g}", self.at(at) | layers | {"anneal": 0.7, "gamma_start": 0.4}
            if at not in done:
                yield self.training(name, f"local layers at β = {at:g}", table, _SECONDS_OF_TRAINING)
            done.add(at)
            yield self.compared(beta, [name], preparation=4)
