"""The Schwinger model as the rest of the package sees it. Free of heavy imports."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from dlhmc.errors import Setting, UserError
from dlhmc.settings import Advanced, Amount, Count, Positive
from dlhmc.theories.contract import CouplingSchedules, Moves, Occasional, Rivals, TargetSettings, Theory
from dlhmc.theories.gauge.theory import Beta, BetaSchedule
from dlhmc.theories.u1.theory import HmcWithHits, U1Theory

if TYPE_CHECKING:
    from dlhmc.kernels import Kernel
    from dlhmc.report.figures import Figures
    from dlhmc.run.summary import Histories
    from dlhmc.statistics import Estimate, Series
    from dlhmc.studies.study import Preset
    from dlhmc.targets import Target
    from dlhmc.targets.contract import Observables

_Side = Annotated[int, Meta(ge=2, le=10_000)]
Mass = Annotated[float, Meta(gt=-2, le=1e4)]
#: of Hasenbusch's splitting, 0 for none
HeavierMasses = tuple[Annotated[float, Meta(ge=0, le=1e4)], ...]


@dataclasses.dataclass(frozen=True)
class SchwingerSettings(TargetSettings):
    """Lattice, couplings, flavours, and how precisely the Dirac equation is solved."""

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
        """16x16-b2-m-0.188."""
        return f"{'x'.join(map(str, self.lattice))}-b{self.beta:g}-m{self.bare_mass:.4g}"


@dataclasses.dataclass(frozen=True)
class HitsWithDeterminant(Moves):
    """Instanton hits, with the fermion determinant in accept/reject."""

    hits: Amount = 0
    """instanton hits after each trajectory"""

    def applied(self, kernel: "Kernel") -> "Kernel":
        """The kernel with hits after each of its steps."""
        from dlhmc.theories.u1.hits import InstantonHits

        return InstantonHits(kernel, self.hits) if self.hits else kernel

    @property
    def label(self) -> str:
        """hits1."""
        return f"hits{self.hits}" if self.hits else ""


@dataclasses.dataclass(frozen=True)
class Mesons(Occasional):
    """Condensate and correlators."""

    correlators: bool = False
    """measure the condensate and the correlators of pion and eta"""
    sources: Advanced[Annotated[int, Meta(ge=0, le=1000)]] = 0
    """random sources on each time slice, at least 2, for lattices beyond 32×32; 0 for all propagators exactly"""

    def __post_init__(self) -> None:
        """Products of two sources."""
        super().__post_init__()
        self.require(self.sources != 1, "sources", "0, or from 2 to 1000")

    def observables(self, target: "Target") -> "Observables | None":
        """Those asked for."""
        from dlhmc.fermions.mesons import MesonObservables
        from dlhmc.theories.gauge.fermions import fermions_of, has_fermions

        if not self.correlators or not has_fermions(target):
            return None
        light = fermions_of(target)
        return MesonObservables(light.mass, light.flavours, self.sources)


# Actions where the determinant is not split: one of pseudofermions and one of plaquettes.
_UNSPLIT = 2


@dataclasses.dataclass(frozen=True)
class SplitHmcWithHits(HmcWithHits):
    """HMC with instanton hits; and HMC alone, with the determinant split by heavier masses."""

    hasenbusch_grid: Advanced[HeavierMasses] = ()
    """heavier masses of Hasenbusch's splitting, points of the grid of HMC; 0 for none"""

    def check(self, target: "Target") -> None:
        """One of two ways to split."""
        super().check(target)
        if self.hasenbusch_grid and len(target.actions) > _UNSPLIT:
            raise UserError("Give ", Setting("hasenbusch"), " or ", Setting("hasenbusch_grid"), ", not both.")

    def forms(self, target: "Target") -> "Mapping[str, Target]":
        """Split by each of the masses."""
        from dlhmc.theories.gauge.fermions import with_hasenbusch

        if not self.hasenbusch_grid:
            return super().forms(target)
        grid = self.hasenbusch_grid
        return {f", μ = {mu:g}" if mu else "": with_hasenbusch(target, (mu,) if mu else ()) for mu in grid}


class SchwingerTheory(Theory):
    """U(1) with Wilson fermions in two dimensions."""

    name: ClassVar[str] = "schwinger"
    title: ClassVar[str] = "Schwinger model: U(1) gauge theory with dynamical fermions"
    settings: ClassVar[type[TargetSettings]] = SchwingerSettings
    network: ClassVar[str] = "local"
    moves: ClassVar[type[Moves]] = HitsWithDeterminant
    schedules: ClassVar[type[CouplingSchedules]] = BetaSchedule
    rivals: ClassVar[type[Rivals]] = SplitHmcWithHits
    occasional: ClassVar[type[Occasional]] = Mesons
    # Learned proposals move the charge, and HMC all that they leave as it is.
    models_of: ClassVar[tuple[str, ...]] = ("u1",)
    symbols: ClassVar[Mapping[str, str]] = {
        **U1Theory.symbols,
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

    def describe(self, target: "Target") -> SchwingerSettings | None:
        """Where it has no pseudofermions and has not been annealed."""
        from dlhmc.actions.fermions import Pseudofermions
        from dlhmc.lattice.links import sides_of
        from dlhmc.theories.schwinger.schwinger import described

        if not isinstance(target.actions[0], Pseudofermions) or float(target.gamma) != 1:
            return None
        settings = described(target)
        return None if settings is None else SchwingerSettings(sides_of(target.geometry), **settings)  # type: ignore[arg-type]

    def derived(self, histories: "Histories", notes: Mapping[str, Any]) -> "Mapping[str, Estimate]":
        """Masses of pion and eta, where correlators were measured."""
        from dlhmc.statistics.masses import masses

        shape = histories.elements.get("pion", ())
        if len(shape) != 1:
            return {}

        def series(name: str) -> "Callable[[int], Series]":
            return lambda t: histories.series(name, 1, (t,))

        equilibrium = histories.start == "exact"
        return masses({name: series(name) for name in ("pion", "eta")}, shape[0], equilibrium_start=equilibrium)

    def warnings(self, histories: "Histories") -> list[str]:
        """Trajectories in which the solver gave up."""
        failed = histories.total("solver_failures") if "solver_failures" in histories.elements else 0
        advice = f"raise {Setting('most_iterations')} or {Setting('residual')}, or use {Setting('float64')}"
        text = f"The solver gave up {failed:.0f} times, and the proposals were rejected: {advice}."
        return [text] if failed else []

    def figures(self, described: Mapping[str, Any]) -> "Figures":
        """Correlators, and the pion mass."""
        from dlhmc.theories.schwinger.figures import SchwingerFigures

        return SchwingerFigures()

    def studies(self) -> "Mapping[str, Preset]":
        """Learned proposals with fermions."""
        from dlhmc.studies.study import Preset
        from dlhmc.theories.schwinger.study import SchwingerStudy

        return {self.name: Preset("learned proposals with fermions, two hours on two cores", SchwingerStudy)}

    def examples(self) -> "Mapping[str, Callable[[], Target]]":
        """A small lattice."""
        from dlhmc.theories.schwinger.schwinger import Schwinger

        return {"schwinger": lambda: Schwinger((4, 6), 2.0, 0.1)}
