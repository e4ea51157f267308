"""Gauge theories of U(N) and SU(N) in two to four dimensions: options that build a target. Free of heavy imports."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dlhmc.theories.contract import TargetSettings, Theory
from dlhmc.theories.gauge.groups import Beta, GaugeAction, Group, Sides
from dlhmc.theories.gauge.study import U2Study

if TYPE_CHECKING:
    from dlhmc.report.figures import Figures
    from dlhmc.targets import Target


@dataclasses.dataclass(frozen=True)
class GaugeSettings(TargetSettings):
    """Lattice and coupling of a group of which the theory has the name."""

    told_by_shape: ClassVar[tuple[str, ...]] = ("lattice",)

    lattice: Sides = (8, 8, 8, 8)
    """sides of the periodic lattice, two to four"""
    beta: Beta = 6.0
    """inverse coupling"""
    action: GaugeAction = "wilson"
    """wilson, symanzik, iwasaki, dbw2, or c₁ of rectangles"""

    def build(self) -> "Target":
        """A gauge field with the Wilson action, or with rectangles."""
        from dlhmc.theories.gauge.field import improved, wilson

        if self.action == "wilson":
            return wilson(self.theory, self.lattice, self.beta)
        return improved(self.theory, self.lattice, self.beta, self.action)

    @property
    def label(self) -> str:
        """su3-8x8x8x8-b6-iwasaki."""
        action = self.action if isinstance(self.action, str) else f"c{self.action:g}"
        parts = [self.theory, "x".join(map(str, self.lattice)), f"b{self.beta:g}"]
        return "-".join(parts if action == "wilson" else [*parts, action])

    @classmethod
    def of_shape(cls, shape: tuple[int, ...], settings: Mapping[str, Any]) -> Self | None:
        """Links are [configuration, N, N, direction, *site], with or without an axis of chains before."""
        colors = Group.named(cls.theory).colors
        for extra in (1, 2):
            sides = shape[extra + 3 :]
            if shape[extra : extra + 3] == (colors, colors, len(sides)) and len(sides) in (2, 3, 4):
                return cls(**{"lattice": tuple(map(int, sides)), **settings})
        return None


@dataclasses.dataclass(frozen=True)
class U2Settings(GaugeSettings):
    """Two dimensions, where it has a charge."""

    theory: ClassVar[str] = "u2"

    lattice: Sides = (16, 16)
    beta: Beta = 12.0


@dataclasses.dataclass(frozen=True)
class SU2Settings(GaugeSettings):
    """In the scaling region."""

    theory: ClassVar[str] = "su2"

    beta: Beta = 2.3


@dataclasses.dataclass(frozen=True)
class SU3Settings(GaugeSettings):
    """Where a = 0.093 fm."""

    theory: ClassVar[str] = "su3"


FLOWED: Mapping[str, str] = {
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
_SYMBOLS: Mapping[str, str] = {
    **FLOWED,
    "plaquette": "⟨Re tr P/N⟩",
    "charge": "Q",
    "sine_charge": "Q_{ℝ}",
    "charge_squared": "⟨Q^{2}⟩",
    "sine_charge_squared": "⟨Q_{ℝ}^{2}⟩",
}
_ABILITIES = frozenset(("heat bath", "flow"))


def _figures(_: Mapping[str, Any]) -> "Figures":
    from dlhmc.theories.gauge.figures import GaugeFigures

    return GaugeFigures()


U2 = Theory(U2Settings, "U(2) gauge theory", "local", _ABILITIES, None, _SYMBOLS, {"u2": U2Study}, _figures)
SU2 = Theory(SU2Settings, "SU(2) gauge theory", "local", _ABILITIES | {"files"}, None, _SYMBOLS, figures=_figures)
SU3 = Theory(SU3Settings, "SU(3) gauge theory", "local", _ABILITIES | {"files"}, None, _SYMBOLS, figures=_figures)
