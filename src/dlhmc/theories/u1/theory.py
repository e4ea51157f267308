"""U(1) gauge theory as the rest of the package sees it. Free of heavy imports.

In two dimensions links are angles, and everything that is made for them is here; in three and four dimensions U(1) is
one of the groups of `dlhmc.theories.gauge`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from dlhmc.errors import Setting, UserError
from dlhmc.settings import Amount, Positive
from dlhmc.theories.contract import CouplingSchedules, Moves, NamedLoss, Rivals, TargetSettings
from dlhmc.theories.gauge.groups import Group
from dlhmc.theories.gauge.theory import (
    Beta,
    BetaSchedule,
    FlowedTheory,
    GaugeAction,
    HeatBathMoves,
    HeatBathRival,
    Sides,
    build_field,
    described_field,
    label_of,
    links_of_shape,
)

if TYPE_CHECKING:
    from dlhmc.comparison.contestants import Contestant
    from dlhmc.comparison.settings import CompareSettings
    from dlhmc.geometry.contract import Field
    from dlhmc.kernels import Kernel
    from dlhmc.report.figures import Figures
    from dlhmc.studies.study import Preset
    from dlhmc.targets import Target


@dataclasses.dataclass(frozen=True)
class U1Settings(TargetSettings):
    """Lattice and coupling."""

    told_by_shape: ClassVar[tuple[str, ...]] = ("lattice",)

    lattice: Sides = (16, 16)
    """Lx Lt, sides of the periodic lattice; or three or four of them"""
    beta: Beta = 7.0
    """inverse coupling"""
    action: GaugeAction = "wilson"
    """wilson, symanzik, iwasaki, dbw2, or the number c₁ of rectangles beside 1 − 8c₁ plaquettes"""

    def build(self) -> "Target":
        """The target: angles for the Wilson action in two dimensions, or else matrices of one number."""
        return build_field("u1", self.lattice, self.beta, self.action)

    @property
    def label(self) -> str:
        """16x16-b7."""
        return label_of(self.lattice, self.beta, self.action)


_WHERE = f"{Setting('action')} wilson on a {Setting('lattice')} with two sides"
HITS_IN_TWO_DIMENSIONS = f"{Setting('hits')} are for {_WHERE}: leave them out."


@dataclasses.dataclass(frozen=True)
class Hits(HeatBathMoves):
    """Instanton hits in two dimensions, the heat bath in more."""

    hits: Amount = 0
    """instanton hits after each trajectory, in two dimensions"""

    def kernel(self, name: str, target: "Target") -> "Kernel":
        """The heat bath, in more than two dimensions."""
        if _is_planar(target):
            what = f"The {Setting('kernel')} {name} is for {Setting('lattice')} with three or four sides"
            raise UserError(f"{what}: in two dimensions exact draws do more.")
        return super().kernel(name, target)

    def applied(self, kernel: "Kernel") -> "Kernel":
        """The kernel with hits after each of its steps."""
        from dlhmc.theories.u1.hits import InstantonHits

        if not self.hits:
            return kernel
        if not _is_planar(kernel.target):
            raise UserError(HITS_IN_TWO_DIMENSIONS)
        return InstantonHits(kernel, self.hits)

    @property
    def label(self) -> str:
        """hits1."""
        return f"hits{self.hits}" if self.hits else ""


@dataclasses.dataclass(frozen=True)
class HmcWithHits(Rivals):
    """HMC with instanton hits, of several lengths; in more than two dimensions, the heat bath."""

    hits: Amount | None = None
    """instanton hits after each trajectory, for HMC with hits in two dimensions; 1 if not given, 0 to leave it out"""
    hit_lengths: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (0.25, 0.5, 1.0, 2.0)
    """trajectory lengths of HMC with hits, which only has to stir what the hits leave as it is"""

    @property
    def number(self) -> int:
        """One for each length."""
        return len(self.hit_lengths) if self._hits else 0

    @property
    def _hits(self) -> int:
        return 1 if self.hits is None else self.hits

    def check(self, target: "Target") -> None:
        """There is no charge that hits could change in more than two dimensions."""
        if self.hits and not _is_planar(target):
            raise UserError(HITS_IN_TWO_DIMENSIONS)

    def contestants(
        self, target: "Target", settings: "CompareSettings", start: "Callable[[int], Field]", seeds: Sequence[int]
    ) -> "list[Contestant]":
        """HMC of the first integrator, tuned without hits, then with them."""
        from dlhmc.comparison.contestants import stirring, with_moves
        from dlhmc.theories.u1.hits import InstantonHits

        if not _is_planar(target):
            return HeatBathRival().contestants(target, settings, start, seeds)
        if not self._hits:
            return []
        label = f"{self._hits} hit{'s' if self._hits > 1 else ''}"
        plain = stirring(self.hit_lengths, target, settings, start, seeds)
        return [with_moves(one, label, InstantonHits(one.kernel, self._hits)) for one in plain]


def _is_planar(target: "Target") -> bool:
    """Whether links are angles in two dimensions."""
    from dlhmc.theories.u1.hits import has_instantons

    return has_instantons(target)


class U1Theory(FlowedTheory):
    """U(1) with the Wilson action."""

    name: ClassVar[str] = "u1"
    title: ClassVar[str] = "U(1) gauge theory"
    settings: ClassVar[type[TargetSettings]] = U1Settings
    network: ClassVar[str] = "local"
    moves: ClassVar[type[Moves]] = Hits
    schedules: ClassVar[type[CouplingSchedules]] = BetaSchedule
    rivals: ClassVar[type[Rivals]] = HmcWithHits
    models: ClassVar[Path | None] = Path(__file__).parent / "trained"
    symbols: ClassVar[Mapping[str, str]] = {
        **FlowedTheory.symbols,
        "charge": "Q_{ℤ}",
        "sine_charge": "Q_{ℝ}",
        "plaquette": "⟨cos x_{P}⟩",
        "charge_squared": "⟨Q_{ℤ}^{2}⟩",
        "sine_charge_squared": "⟨Q_{ℝ}^{2}⟩",
    }
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
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
            "loss": "leaving",
            "steps": 4000,
        },
    }

    def describe(self, target: "Target") -> U1Settings | None:
        """Lattice, coupling and action, where it is not annealed."""
        found = described_field(target, Group.named(self.name))
        # Matrices in place of angles are made in Python alone.
        planar = found is not None and len(found["lattice"]) == 2 and found["action"] == "wilson"
        return None if found is None or (planar and not _is_planar(target)) else U1Settings(**found)

    def losses(self) -> Mapping[str, NamedLoss]:
        """The paper's."""
        from dlhmc.theories.u1.loss import charge_loss

        return {"charge": NamedLoss("−A·(ΔQ_R)²", charge_loss, _is_planar)}

    def figures(self, described: Mapping[str, Any]) -> "Figures":
        """Costs against β, histories and distributions of the charge, what layers do; no charge in more dimensions."""
        from dlhmc.theories.gauge.figures import GaugeFigures
        from dlhmc.theories.u1.figures import U1Figures

        return GaugeFigures() if len(described.get("lattice", ())) > 2 else U1Figures()

    def from_shape(self, shape: tuple[int, ...], settings: Mapping[str, Any]) -> U1Settings | None:
        """Links are [configuration, 2, Lx, Lt], in more dimensions [configuration, 1, 1, d, *site]; chains first."""
        if len(shape) in (4, 5) and shape[-3] == 2 and min(shape[-2:]) >= 2:
            return U1Settings((int(shape[-2]), int(shape[-1])), **settings)
        sides = links_of_shape(shape, 1)
        return None if sides is None or len(sides) == 2 else U1Settings(sides, **settings)

    def examples(self) -> "Mapping[str, Callable[[], Target]]":
        """A square lattice and another."""
        from dlhmc.theories.gauge.field import U1

        return {
            "u1": lambda: U1((4, 6), beta=2.5, gamma=0.8),
            "u1-square": lambda: U1((4, 4), beta=1.5),
        }

    def checked_kernels(self) -> "Mapping[str, Callable[[], Kernel]]":
        """HMC, and a trained sampler."""
        from dlhmc.kernels import HMC
        from dlhmc.models.model import Model
        from dlhmc.theories.gauge.field import U1

        return {
            "HMC": lambda: HMC(U1((4, 4), 2.0), 0.25, 4),
            "a trained sampler": lambda: Model.open("u1-b2").kernel(U1((4, 4), 2.0)),
        }

    def studies(self) -> "Mapping[str, Preset]":
        """The paper's results."""
        from dlhmc.theories.u1.study import PRESETS

        return PRESETS

    def commands(self) -> Mapping[str, Any]:
        """The demonstration."""
        from dlhmc.cli.commands import Command
        from dlhmc.theories.u1.commands import Demo

        return {"demo": Command("start", "watch frozen topology thaw, in about a minute", Demo)}
