"""The Schwinger model, U(1) with Wilson fermions in two dimensions: options that build a target. No heavy imports."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from dlhmc.errors import Setting, UserError
from dlhmc.settings import Advanced, Count, Positive
from dlhmc.theories.contract import TargetSettings, Theory
from dlhmc.theories.gauge.groups import Beta
from dlhmc.theories.schwinger.study import SchwingerStudy
from dlhmc.theories.u1.theory import SYMBOLS as GAUGE_SYMBOLS

if TYPE_CHECKING:
    from dlhmc.report.figures import Figures
    from dlhmc.targets import Target

_Side = Annotated[int, Meta(ge=2, le=10_000)]
Mass = Annotated[float, Meta(gt=-2, le=1e4)]


@dataclasses.dataclass(frozen=True)
class SchwingerSettings(TargetSettings):
    """Lattice, couplings, flavours, and how precisely the Dirac equation is solved."""

    theory: ClassVar[str] = "schwinger"
    told_by_shape: ClassVar[tuple[str, ...]] = ("lattice",)

    lattice: tuple[_Side, _Side] = (16, 16)
    """Lx Lt, even sides of the lattice; fermions are antiperiodic along the second"""
    beta: Beta = 2.0
    """inverse coupling"""
    mass: Mass | None = None
    """bare mass m of the fermions"""
    kappa: Positive | None = None
    """hopping parameter 1/(2m + 4), in place of the mass; 0.276 if neither is given"""
    flavours: Annotated[int, Meta(ge=2, le=16)] = 2
    """flavours of one mass, an even number"""
    residual: Advanced[Annotated[float, Meta(gt=0, lt=1)]] = 1e-6
    """relative residual of the solver in accept/reject"""
    force_residual: Advanced[Annotated[float, Meta(gt=0, lt=1)]] = 1e-5
    """relative residual of the solver in forces"""
    most_iterations: Advanced[Count] = 2000
    """iterations after which the solver gives up, and the proposal is rejected"""
    hasenbusch: Advanced[tuple[Positive, ...]] = ()
    """splits the determinant by heavier masses, larger by these, each with a time scale of its own"""
    expected_charge_squared: Advanced[Positive | None] = None
    """about ⟨Q²⟩, to which learned proposals are fitted; they are exact for any number"""

    def __post_init__(self) -> None:
        """Even sides, an even number of flavours, one mass."""
        super().__post_init__()
        self.require(not any(side % 2 for side in self.lattice), "lattice", "two even numbers")
        self.require(self.flavours % 2 == 0, "flavours", "an even number up to 16")
        ascending = self.hasenbusch == tuple(sorted(set(self.hasenbusch)))
        self.require(ascending, "hasenbusch", "in ascending order")
        if self.mass is not None and self.kappa is not None:
            raise UserError("Give ", Setting("mass"), " or ", Setting("kappa"), ", not both.")

    @property
    def bare_mass(self) -> float:
        """By whichever was given."""
        return 0.5 / (self.kappa or 0.276) - 2 if self.mass is None else self.mass

    def describe(self) -> dict[str, Any]:
        """With the bare mass, by whichever it was given."""
        table = super().describe() | {"mass": self.bare_mass}
        del table["kappa"]
        return table

    def build(self) -> "Target":
        """The target."""
        from dlhmc.actions.fermions import Precision
        from dlhmc.theories.schwinger.schwinger import Schwinger

        return Schwinger(
            self.lattice,
            self.beta,
            self.bare_mass,
            flavours=self.flavours,
            hasenbusch=self.hasenbusch,
            precision=Precision(self.residual, self.force_residual, self.most_iterations),
            expected_charge_squared=self.expected_charge_squared,
        )

    @property
    def label(self) -> str:
        """schwinger-16x16-b2-m-0.188."""
        return f"schwinger-{'x'.join(map(str, self.lattice))}-b{self.beta:g}-m{self.bare_mass:.4g}"


SYMBOLS: Mapping[str, str] = {
    **GAUGE_SYMBOLS,
    "mass": "m",
    "susceptibility": "χ_{top}",
    "dirac_applications": "Dirac",
    "lu_decompositions": "LU",
    "condensate": "Re tr D^{−1}/V",
    "pion": "C_{π}(t)",
    "eta": "C_{η}(t)",
    "pion_mass": "M_{π}",
    "eta_mass": "M_{η}",
}


def _figures(_: Mapping[str, Any]) -> "Figures":
    """Correlators, and the pion mass."""
    from dlhmc.theories.schwinger.figures import SchwingerFigures

    return SchwingerFigures()


SCHWINGER = Theory(
    SchwingerSettings,
    "Schwinger model: U(1) gauge theory with dynamical fermions",
    "local",
    frozenset(("hits", "mesons", "splitting")),
    None,
    SYMBOLS,
    {"schwinger": SchwingerStudy},
    _figures,
)
