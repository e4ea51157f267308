"""Studies along β: what they have in common, and that of U(2). Free of heavy imports."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from dlhmc.settings import Positive, Probability
from dlhmc.studies.study import Part, Study
from dlhmc.theories.gauge.groups import Beta, Side


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
    """Networks in windows of U(2) against HMC and the heat bath, two hours on two cores."""

    target: ClassVar[str] = "u2"

    betas: Annotated[tuple[Beta, ...], Meta(min_length=1)] = (10.0, 12.0, 14.0, 16.0)
    """inverse couplings, rising"""
    acceptances: Annotated[tuple[Probability, ...], Meta(min_length=1)] = (0.7, 0.9)
    """acceptances that the step size of HMC is tuned to"""
    chains: Annotated[int, Meta(ge=2, le=10**7)] = 64
    """chains of each sampler in a comparison"""
    budgets: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (200.0, 300.0, 400.0, 400.0)
    """seconds for each comparison; one number serves for all"""
    precision: Probability = 0.05
    """relative error of τ_int at which a sampler has been measured"""

    @property
    def label(self) -> str:
        """u2-16x16."""
        return f"{self.target}-{super().label}"

    def parts(self) -> Iterator[Part]:
        """Train for one coupling, compare there, go on to the next."""
        for beta in self.betas:
            name = f"train-b{beta:g}"
            yield self.training(name, f"networks at β = {beta:g}", self.at(beta) | {"network": "local"})
            yield self.compared(beta, [name], preparation=4)
