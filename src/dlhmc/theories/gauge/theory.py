"""Gauge theories of U(N) and SU(N) as the rest of the package sees them. Free of heavy imports."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import Meta

from dlhmc.errors import Setting, UserError
from dlhmc.settings import Advanced, Amount, Positive, merged
from dlhmc.theories.contract import CouplingSchedules, FileFormat, Moves, Occasional, Rivals, TargetSettings, Theory
from dlhmc.theories.gauge.groups import RECTANGLES, SU2, Group

if TYPE_CHECKING:
    from dlhmc.actions.contract import Action
    from dlhmc.comparison.contestants import Contestant
    from dlhmc.comparison.settings import CompareSettings
    from dlhmc.geometry.contract import Field
    from dlhmc.kernels import Kernel
    from dlhmc.models.architecture import Architecture
    from dlhmc.report.figures import Figures
    from dlhmc.run.summary import Histories
    from dlhmc.statistics import Estimate
    from dlhmc.studies.study import Preset
    from dlhmc.targets import Target
    from dlhmc.targets.contract import Observables
    from dlhmc.training import Schedule

Side = Annotated[int, Meta(ge=2, le=10**4)]
Sides = Annotated[tuple[Side, ...], Meta(min_length=2, max_length=4)]
Beta = Annotated[float, Meta(gt=0, le=10_000)]
#: by name, or c₁ of rectangles, with which cold configurations are stable
GaugeAction = Literal["wilson", "symanzik", "iwasaki", "dbw2"] | Annotated[float, Meta(ge=-100, lt=0.2)]


@dataclasses.dataclass(frozen=True)
class GaugeSettings(TargetSettings):
    """Lattice and coupling."""

    told_by_shape: ClassVar[tuple[str, ...]] = ("lattice",)
    group: ClassVar[Group]

    lattice: Sides
    beta: Beta
    action: GaugeAction

    def build(self) -> "Target":
        """The target."""
        return build_field(self.group.name, self.lattice, self.beta, self.action)

    @property
    def label(self) -> str:
        """su3-8x8x8x8-b6."""
        return f"{self.group.name}-{label_of(self.lattice, self.beta, self.action)}"


def build_field(group: str, lattice: tuple[int, ...], beta: float, action: str | float) -> "Target":
    """A gauge field with the Wilson action, or with rectangles."""
    from dlhmc.theories.gauge.field import improved, wilson

    return wilson(group, lattice, beta) if action == "wilson" else improved(group, lattice, beta, action)


def label_of(lattice: tuple[int, ...], beta: float, action: str | float) -> str:
    """8x8x8x8-b2.6-iwasaki."""
    name = action if isinstance(action, str) else f"c{action:g}"
    return f"{'x'.join(map(str, lattice))}-b{beta:g}{'' if name == 'wilson' else f'-{name}'}"


@dataclasses.dataclass(frozen=True)
class HeatBathMoves(Moves):
    """The heat bath."""

    kernels: ClassVar[tuple[str, ...]] = ("heatbath",)

    overrelaxation: Amount = 4
    """overrelaxation sweeps after each heat-bath sweep"""

    def kernel(self, name: str, target: "Target") -> "Kernel":
        """The heat bath, where the lattice allows it."""
        from dlhmc.theories.gauge.heatbath import HeatBath
        from dlhmc.theories.gauge.known import wilson_coupling

        if wilson_coupling(target) is None:
            raise UserError(f"The {Setting('kernel')} {name} is for the {Setting('action')} wilson alone.")
        try:
            return HeatBath(target, self.overrelaxation)
        except ValueError as error:
            raise UserError(f"Here {error}: change ", Setting("lattice"), " or ", Setting("kernel"), ".") from None


@dataclasses.dataclass(frozen=True)
class Flow(Occasional):
    """The Wilson flow, and larger loops."""

    flow_time: Annotated[float, Meta(ge=0, le=10**4)] = 0.0
    """flow time up to which fields are smoothed to measure energy density and charge; 0 for no flow"""
    flow_points: Advanced[Annotated[int, Meta(ge=4, le=1000)]] = 32
    """flow times at which they are measured, evenly spaced"""
    flow_tolerance: Advanced[Positive] = 1e-3
    """largest error of a step of the flow"""
    loops: Amount = 0
    """largest side of the Wilson loops that are measured; 0 for none beside the plaquette"""

    def observables(self, target: "Target") -> "Observables | None":
        """Those asked for."""
        from dlhmc.lattice.links import as_geometry_of_matrices
        from dlhmc.theories.gauge.flow import OccasionalObservables
        from dlhmc.theories.gauge.known import is_gauge_field

        if not is_gauge_field(target) or not (self.flow_time or self.loops):
            return None
        geometry = as_geometry_of_matrices(target.geometry)
        return OccasionalObservables(geometry, tuple(self._times), self.flow_tolerance, self.loops)

    @property
    def _times(self) -> list[float]:
        step = self.flow_time / self.flow_points
        return [step * k for k in range(1, self.flow_points + 1)] if step else []

    def notes(self) -> dict[str, Any]:
        """The flow times."""
        return {"flow_times": self._times} if self.flow_time > 0 else {}


@dataclasses.dataclass(frozen=True)
class BetaSchedule(CouplingSchedules):
    """β rises while the target is annealed."""

    beta_start: Beta | None = None
    """inverse coupling at the beginning, if another: raised linearly while the target is annealed"""

    def schedules(self, target: TargetSettings, until: int) -> "dict[str, Schedule]":
        """That of β, if it changes."""
        from dlhmc.training import Knots

        if self.beta_start is None:
            return {}
        return {"gamma": Knots.linear(self.beta_start / merged(target)["beta"], 1.0, until)}


@dataclasses.dataclass(frozen=True)
class HeatBathRival(Rivals):
    """The heat bath with overrelaxation, which pure gauge theory is simulated with."""

    overrelaxations: tuple[Amount, ...] = (0, 4)
    """overrelaxation sweeps after each heat-bath sweep, a sampler for each number; none to leave the heat bath out"""

    @property
    def number(self) -> int:
        """One for each number of sweeps."""
        return len(self.overrelaxations)

    def contestants(
        self, target: "Target", settings: "CompareSettings", start: "Callable[[int], Field]", seeds: Sequence[int]
    ) -> "list[Contestant]":
        """Nothing is tuned."""
        from dlhmc.comparison.contestants import contestant_of
        from dlhmc.theories.gauge.heatbath import HeatBath, HeatBathDraws

        if HeatBathDraws.of(target) is None:
            return []
        return [
            dataclasses.replace(contestant_of(f"heat bath + {sweeps}", HeatBath(target, sweeps)), kind="move")
            for sweeps in self.overrelaxations
        ]


def links_of_shape(shape: tuple[int, ...], colors: int) -> tuple[int, ...] | None:
    """The sides of the lattice, if an array [configuration, N, N, μ, *site] can hold links, or one with chains before.

    >>> links_of_shape((10, 3, 3, 4, 8, 8, 8, 16), 3)
    (8, 8, 8, 16)
    """
    for extra in (1, 2):
        sides = shape[extra + 3 :]
        if shape[extra : extra + 3] == (colors, colors, len(sides)) and len(sides) in (2, 3, 4):
            return tuple(map(int, sides))
    return None


def described_field(target: "Target", group: Group) -> dict[str, Any] | None:
    """Lattice, coupling and action of a gauge field that is not annealed; None where settings cannot say them."""
    from dlhmc.lattice.links import colors_of, sides_of
    from dlhmc.theories.gauge.known import is_gauge_field

    if not is_gauge_field(target) or colors_of(target.geometry) != group or float(target.gamma) != 1:
        return None
    found = _described_actions(target.actions)
    return None if found is None else {"lattice": sides_of(target.geometry), **found}


def _described_actions(actions: "tuple[Action, ...]") -> dict[str, Any] | None:
    import jax

    from dlhmc.actions.loops import Plaquette, Rectangle
    from dlhmc.numerics.leaves import leaf
    from dlhmc.theories.gauge.field import with_rectangles

    kinds, coefficients = [type(action) for action in actions], [float(leaf) for leaf in jax.tree.leaves(actions)]
    if kinds == [Plaquette]:
        c1, beta, name = 0.0, coefficients[0], "wilson"
    elif kinds == [Plaquette, Rectangle]:
        beta = coefficients[0] + 8 * coefficients[1]
        if beta <= 0:
            return None
        c1, name = coefficients[1] / beta, None
    else:
        return None
    # Settings have few digits: a float32 such as 0.1 is 0.1 for people.
    for digits in (6, 7, 8):
        rounded, near = float(f"{beta:.{digits}g}"), float(f"{c1:.{digits}g}")
        names = {number: known for known, number in RECTANGLES.items() if abs(number - c1) < 1e-6}
        action = name or next(iter(names.values()), near)
        wanted = [rounded] if name else jax.tree.leaves(with_rectangles(rounded, RECTANGLES.get(action, action)))  # type: ignore[arg-type]
        if 0 < rounded <= 10_000 and [float(leaf(each)) for each in wanted] == coefficients:
            return {"beta": rounded, "action": action}
    return None


class FlowedTheory(Theory):
    """A gauge theory whose fields can be smoothed by the Wilson flow."""

    occasional: ClassVar[type[Occasional]] = Flow
    symbols: ClassVar[Mapping[str, str]] = {
        "beta": "β",
        "polyakov": "⟨Re tr L/N⟩",
        "polyakov_modulus": "⟨|tr L/N|⟩",
        "bare_energy": "⟨E⟩",
        "bare_energy_plaquette": "⟨E_{P}⟩",
        "bare_charge": "Q_{clover}",
        "flow_energy": "⟨t^{2}E⟩",
        "flow_energy_plaquette": "⟨t^{2}E_{P}⟩",
        "flow_charge": "Q(t)",
        "wilson_loops": "⟨W⟩",
        "t0": "t_{0}/a^{2}",
        "w0": "w_{0}/a",
    }

    def derived(self, histories: "Histories", notes: Mapping[str, Any]) -> "Mapping[str, Estimate]":
        """t₀ and w₀, where fields were flowed far enough."""
        import numpy as np

        from dlhmc.statistics.scales import reference_scales

        if "flow_energy" not in histories.elements or "flow_times" not in notes:
            return {}
        times = np.asarray(notes["flow_times"], np.float64)
        if times.shape != histories.elements["flow_energy"]:
            raise ValueError(f"{len(times)} flow times")
        equilibrium = histories.start == "exact"
        return reference_scales(
            times, lambda k: histories.series("flow_energy", 1, (k,)), equilibrium_start=equilibrium
        )


class GaugeTheory(FlowedTheory):
    """One group, on lattices of two to four dimensions."""

    network: ClassVar[str] = "local"
    moves: ClassVar[type[Moves]] = HeatBathMoves
    schedules: ClassVar[type[CouplingSchedules]] = BetaSchedule
    rivals: ClassVar[type[Rivals]] = HeatBathRival
    models: ClassVar[Path | None] = Path(__file__).parent / "trained"
    symbols: ClassVar[Mapping[str, str]] = {
        **FlowedTheory.symbols,
        "plaquette": "⟨Re tr P/N⟩",
        "charge": "Q",
        "sine_charge": "Q_{ℝ}",
        "charge_squared": "⟨Q^{2}⟩",
        "sine_charge_squared": "⟨Q_{ℝ}^{2}⟩",
    }

    def __init__(self, name: str, lattice: tuple[int, ...], beta: float) -> None:
        self.name, self.group = name, Group.named(name)  # type: ignore[misc]
        self.title = f"{self.group} gauge theory"  # type: ignore[misc]
        first_lattice, first_beta = lattice, beta

        @dataclasses.dataclass(frozen=True)
        class Settings(GaugeSettings):
            """Lattice and coupling."""

            group: ClassVar[Group] = Group.named(name)

            lattice: Sides = first_lattice
            """sides of the periodic lattice, two to four of them"""
            beta: Beta = first_beta
            """inverse coupling"""
            action: GaugeAction = "wilson"
            """wilson, symanzik, iwasaki, dbw2, or the number c₁ of rectangles beside 1 − 8c₁ plaquettes"""

        self.settings = Settings  # type: ignore[misc]

    def describe(self, target: "Target") -> TargetSettings | None:
        """Lattice, coupling and action, where it is not annealed."""
        found = described_field(target, self.group)
        return None if found is None else self._settings(**found)

    def figures(self, described: Mapping[str, Any]) -> "Figures":
        """What is measured along the flow."""
        from dlhmc.theories.gauge.figures import GaugeFigures

        return GaugeFigures()

    def from_shape(self, shape: tuple[int, ...], settings: Mapping[str, Any]) -> TargetSettings | None:
        """Links are [configuration, N, N, direction, *site], with or without an axis of chains before."""
        sides = links_of_shape(shape, self.group.colors)
        return None if sides is None else self._settings(lattice=sides, **settings)

    def architectures(self) -> "Mapping[str, type[Architecture]]":
        """Layers that work for every group."""
        from dlhmc.theories.gauge.architectures import CovariantArchitecture, LocalArchitecture

        return {kind.name: kind for kind in (LocalArchitecture, CovariantArchitecture)}

    def studies(self) -> "Mapping[str, Preset]":
        """Local layers of U(2)."""
        from dlhmc.studies.study import Preset
        from dlhmc.theories.gauge.study import U2Study

        what = "local layers of U(2) against HMC and the heat bath, two hours on two cores"
        return {self.name: Preset(what, U2Study)} if self.name == U2Study.target else {}

    def checked_kernels(self) -> "Mapping[str, Callable[[], Kernel]]":
        """HMC on matrices, where there are exact draws."""
        from dlhmc.kernels import HMC
        from dlhmc.theories.gauge.field import wilson

        if self.group != SU2:
            return {}
        return {f"HMC of {self.group}": lambda: HMC(wilson(self.name, (4, 4), 4.0), 0.25, 4)}

    def _settings(self, **settings: Any) -> TargetSettings:
        return self.settings(**settings)

    def formats(self) -> Mapping[str, FileFormat]:
        """Those of lattice QCD, which are for SU(N)."""
        from dlhmc.theories.gauge.files import formats

        return formats() if self.group.special else {}

    def examples(self) -> "Mapping[str, Callable[[], Target]]":
        """A plane, and a lattice of more dimensions."""
        from dlhmc.theories.gauge.field import wilson

        sides = {"su2": (2, 3, 4), "su3": (2, 2, 2, 3)}.get(self.name, (4, 3))
        return {self.name: lambda: wilson(self.name, sides, beta=2.0 * self.group.colors, gamma=0.8)}


def u2() -> GaugeTheory:
    """Two dimensions, where it has a charge."""
    return GaugeTheory("u2", (16, 16), 12.0)


def su2() -> GaugeTheory:
    """In the scaling region."""
    return GaugeTheory("su2", (8, 8, 8, 8), 2.3)


def su3() -> GaugeTheory:
    """Where a = 0.093 fm."""
    return GaugeTheory("su3", (8, 8, 8, 8), 6.0)
