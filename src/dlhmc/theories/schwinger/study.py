"""Learned proposals with fermions, at single points and along a line of constant physics. Free of heavy imports."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from dlhmc.comparison.settings import Lengths
from dlhmc.settings import Amount, Chains, Count, Positive, Probability
from dlhmc.studies.study import Part, Study
from dlhmc.theories.gauge.groups import Beta, Side

# Of these sides are the models that come along, and HMC takes so many minutes to be tuned.
_SIDE, _MODELS = 16, Path(__file__).parents[1] / "u1" / "trained"
_MINUTES = 6.0


@dataclasses.dataclass(frozen=True)
class SchwingerStudy(Study):
    """Learned proposals with fermions, two hours on two cores."""

    sides: Annotated[tuple[Side, ...], Meta(min_length=1)] = (16, 16, 16, 24, 32, 16)
    """sides of the square lattices, one for each point"""
    betas: tuple[Beta, ...] = (7.0, 7.0, 3.2, 7.2, 12.8, 2.0)
    """inverse couplings; 3.2, 7.2 and 12.8 with their masses are a line of constant physics, (m − m_c)√β = 0.2"""
    masses: tuple[Annotated[float, Meta(gt=-2, le=1e4)], ...] = (0.0, -0.04, -0.017, 0.0145, 0.022, 0.5 / 0.276 - 2)
    """bare masses of the fermions"""
    expected: tuple[Annotated[float, Meta(ge=0, le=1e300)], ...] = (0.4, 0.13, 1.4, 1.1, 1.2, 0.9)
    """about ⟨Q²⟩, to which learned proposals are fitted; 0 where nothing is known"""
    fermion_steps: tuple[Amount, ...] = (0, 150, 0, 0, 0, 0)
    """steps of training on with the determinant, for a second learned sampler; 0 for none"""
    steps: Count = 2000
    """training steps without fermions, where no trained model comes along"""
    train_chains: Chains = 128
    """chains in a training batch; a fourth of them with the determinant"""
    alternate: Count = 2
    """learned proposals after each trajectory of HMC"""
    lengths: Lengths = (0.5, 1.0)
    """trajectory lengths of HMC, alone and in turn with learned proposals and hits"""
    inner_steps: Annotated[tuple[Count, ...], Meta(min_length=1)] = (2, 4)
    """gauge steps for each step of the fermions, points of the grid of HMC"""
    hasenbusch_grid: tuple[Annotated[float, Meta(ge=0, le=1e4)], ...] = (0.0, 0.3)
    """heavier masses of Hasenbusch's splitting, points of the grid of HMC; 0 for none"""
    acceptances: Annotated[tuple[Probability, ...], Meta(min_length=1)] = (0.9,)
    """acceptances that the step size of HMC is tuned to"""
    chains: Annotated[int, Meta(ge=2, le=10**7)] = 16
    """chains of each sampler on 16×16, and fewer on larger lattices in proportion to their volume"""
    budgets: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (300.0, 300.0, 240.0, 480.0, 720.0, 180.0)
    """seconds for each comparison; one number serves for all"""

    def __post_init__(self) -> None:
        """A number of each for every point."""
        super().__post_init__()
        for name in ("betas", "masses", "expected", "fermion_steps"):
            self.require(len(getattr(self, name)) == self.number, name, f"{self.number} numbers, one for each point")
        self.require(not any(side % 2 for side in self.sides), "sides", "even numbers")

    @property
    def number(self) -> int:
        """One for each point."""
        return len(self.sides)

    @property
    def label(self) -> str:
        """The theory."""
        return "schwinger"

    def parts(self) -> Iterator[Part]:
        """Train for one point where that is needed, compare there, go on to the next."""
        trained: set[str] = set()
        for index, (side, beta, mass) in enumerate(zip(self.sides, self.betas, self.masses, strict=True)):
            lattice, gauge = (side, side), f"train-{side}x{side}-b{beta:g}"
            row = f"{side}×{side}, β = {beta:g}, m = {mass:.4g}".replace("-", "−")
            point: dict[str, Any] = {"lattice": lattice, "beta": beta, "mass": mass}
            point |= {"target": "schwinger", "expected_charge_squared": self.expected[index] or None}
            if side == _SIDE and (shipped := f"u1-b{beta:g}") in _shipped():
                gauge = shipped
            elif gauge not in trained:
                amounts = {"chains": self.train_chains, "steps": self.steps}
                table = {"target": "u1", "lattice": lattice, "beta": beta} | amounts
                yield self.training(gauge, f"without fermions on {side}×{side} at β = {beta:g}", table)
                trained.add(gauge)
            models = [gauge]
            if steps := self.fermion_steps[index]:
                models.append(f"train-fermions-{side}x{side}-b{beta:g}-m{mass:.4g}")
                amounts = {"chains": max(1, self.train_chains // 4), "steps": steps}
                yield self.training(models[-1], f"with fermions at {row}", point | amounts | {"model": gauge})
            settings = {
                "integrators": ("leapfrog",),
                "inner_steps": self.inner_steps,
                "hasenbusch_grid": self.hasenbusch_grid,
                "stirring_lengths": self.lengths,
                "alternate": self.alternate,
                "chains": max(2, min(self.chains, round(self.chains * (_SIDE / side) ** 2))),
            }
            name = f"compare-{side}x{side}-b{beta:g}-m{mass:.4g}"
            yield self.comparison(index, name, row, point | settings, models, _MINUTES * max(1, math.log2(side / 8)))


def _shipped() -> set[str]:
    """The models that come along."""
    return {file.stem for file in _MODELS.iterdir()}
