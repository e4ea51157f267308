"""Samplers made by hand that take part in a comparison where they suit the target: the table [competitors]."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from dlhmc.comparison.settings import CompareSettings, Lengths
from dlhmc.errors import Setting, UserError
from dlhmc.settings import Amount, Listed, Settings

if TYPE_CHECKING:
    from dlhmc.comparison.contestants import Contestant
    from dlhmc.geometry.contract import Field
    from dlhmc.targets import Target


# Actions where the determinant is not split: one of pseudofermions and one of plaquettes.
_UNSPLIT = 2


@dataclasses.dataclass(frozen=True)
class Competitors(Settings):
    """HMC with instanton hits, HMC with a determinant split in several ways, the heat bath."""

    hits: Annotated[Amount | None, Listed(ability="hits")] = None
    """instanton hits after each trajectory of HMC, in two dimensions; 1 if not given, 0 to leave it out"""
    hit_lengths: Annotated[Lengths, Listed(advanced=True, ability="hits")] = (0.25, 0.5, 1.0, 2.0)
    """trajectory lengths of HMC with hits, which only has to stir what the hits leave as it is"""
    overrelaxations: Annotated[tuple[Amount, ...], Listed(ability="heat bath")] = (0, 4)
    """overrelaxation sweeps after each heat-bath sweep, a sampler for each; none to leave it out"""
    hasenbusch_grid: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=1e4)], ...], Listed(advanced=True, ability="splitting")
    ] = ()
    """heavier masses of Hasenbusch's splitting, points of the grid of HMC; 0 for none"""

    def forms(self, target: "Target") -> "Mapping[str, Target]":
        """The target in all forms that HMC of the grid samples, by what the names of its samplers end with."""
        if not self.hasenbusch_grid:
            return {"": target}
        from dlhmc.theories.gauge.fermions import has_fermions, with_hasenbusch

        if not has_fermions(target) or len(target.actions) > _UNSPLIT:
            raise UserError(f"{Setting('hasenbusch_grid')} is for fermions without {Setting('hasenbusch')}: give one.")
        grid = self.hasenbusch_grid
        return {f", μ = {mu:g}" if mu else "": with_hasenbusch(target, (mu,) if mu else ()) for mu in grid}

    def groups(self, target: "Target") -> "list[HitLengths | HeatBaths]":
        """What there is for this target; what makes no sense for it is refused."""
        from dlhmc.theories.gauge.heatbath import HeatBathDraws
        from dlhmc.theories.u1.hits import has_instantons

        found: list[HitLengths | HeatBaths] = []
        if has_instantons(target):
            if self.hits != 0:
                found.append(HitLengths(1 if self.hits is None else self.hits, self.hit_lengths))
        elif self.hits:
            raise UserError(
                f"{Setting('hits')} are for angles in two dimensions with a function of the plaquette for action: "
                "leave them out."
            )
        elif HeatBathDraws.of(target) is not None:
            found.append(HeatBaths(self.overrelaxations))
        return found


@dataclasses.dataclass(frozen=True)
class HitLengths:
    """HMC of the first integrator, of several lengths, tuned without hits, then with them."""

    hits: int
    lengths: Sequence[float]

    @property
    def number(self) -> int:
        """One for each length."""
        return len(self.lengths)

    def contestants(
        self, target: "Target", settings: CompareSettings, start: "Callable[[int], Field]", seeds: Sequence[int]
    ) -> "list[Contestant]":
        """The samplers."""
        from dlhmc.comparison.contestants import stirring, with_moves
        from dlhmc.theories.u1.hits import InstantonHits

        label = f"{self.hits} hit{'s' if self.hits > 1 else ''}"
        plain = stirring(self.lengths, target, settings, start, seeds)
        return [with_moves(one, label, InstantonHits(one.kernel, self.hits)) for one in plain]


@dataclasses.dataclass(frozen=True)
class HeatBaths:
    """The heat bath with several numbers of overrelaxation sweeps; nothing is tuned."""

    overrelaxations: Sequence[int]

    @property
    def number(self) -> int:
        """One for each number of sweeps."""
        return len(self.overrelaxations)

    def contestants(
        self, target: "Target", settings: CompareSettings, start: "Callable[[int], Field]", seeds: Sequence[int]
    ) -> "list[Contestant]":
        """The samplers."""
        from dlhmc.comparison.contestants import contestant_of
        from dlhmc.theories.gauge.heatbath import HeatBath

        kernels = {f"heat bath + {sweeps}": HeatBath(target, sweeps) for sweeps in self.overrelaxations}
        return [dataclasses.replace(contestant_of(name, kernel), kind="move") for name, kernel in kernels.items()]


#: nobody but HMC
NONE = Competitors(hits=0, overrelaxations=())
