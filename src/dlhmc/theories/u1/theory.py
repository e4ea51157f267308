"""U(1) gauge theory: options that build a target, trained models, studies. Free of heavy imports.

In two dimensions links are angles; in three and four U(1) is one of the groups of `dlhmc.theories.gauge`.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dlhmc.theories.contract import Theory
from dlhmc.theories.gauge.groups import Beta, Sides
from dlhmc.theories.gauge.theory import FLOWED, GaugeSettings
from dlhmc.theories.u1.study import PaperStudy, U1Study

if TYPE_CHECKING:
    from dlhmc.report.figures import Figures


@dataclasses.dataclass(frozen=True)
class U1Settings(GaugeSettings):
    """Lattice and coupling."""

    theory: ClassVar[str] = "u1"

    lattice: Sides = (16, 16)
    beta: Beta = 7.0

    @property
    def label(self) -> str:
        """16x16-b7."""
        return super().label.removeprefix("u1-")

    @classmethod
    def of_shape(cls, shape: tuple[int, ...], settings: Mapping[str, Any]) -> Self | None:
        """Links are [configuration, 2, Lx, Lt], in more dimensions [configuration, 1, 1, d, *site]; chains first."""
        if len(shape) in (4, 5) and shape[-3] == 2 and min(shape[-2:]) >= 2:
            return cls(**{"lattice": tuple(map(int, shape[-2:])), **settings})
        found = super().of_shape(shape, settings)
        return None if found is None or len(found.lattice) == 2 else found


SYMBOLS: Mapping[str, str] = {
    **FLOWED,
    "charge": "Q_{ℤ}",
    "sine_charge": "Q_{ℝ}",
    "plaquette": "⟨cos x_{P}⟩",
    "charge_squared": "⟨Q_{ℤ}^{2}⟩",
    "sine_charge_squared": "⟨Q_{ℝ}^{2}⟩",
}


def _figures(described: Mapping[str, Any]) -> "Figures":
    """Costs against β, histories and distributions of the charge, what layers do; no charge in more dimensions."""
    from dlhmc.theories.gauge.figures import GaugeFigures
    from dlhmc.theories.u1.figures import U1Figures

    return GaugeFigures() if len(described.get("lattice", ())) > 2 else U1Figures()


U1 = Theory(
    U1Settings,
    "U(1) gauge theory",
    "local",
    frozenset(("hits", "heat bath", "flow")),
    Path(__file__).parent / "trained",
    SYMBOLS,
    {"u1": U1Study, "u1-paper": PaperStudy},
    _figures,
)
