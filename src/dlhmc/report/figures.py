"""What a page shows of comparisons and sampling runs of one theory. A theory may have figures of its own."""

from collections.abc import Sequence
from typing import ClassVar

from dlhmc.errors import UserError
from dlhmc.report.compared import ComparedRun, Family, differ_only_in, families
from dlhmc.report.costs import autocorrelation_picture, cost_picture, cost_table, deviations_picture
from dlhmc.report.curves import Curve
from dlhmc.report.layers import follow, profile_picture
from dlhmc.report.page import Block, Section
from dlhmc.report.sampling import SampledRun


class Figures:
    """For any target; each method can be replaced."""

    #: the setting of the target that costs are shown against; that in which comparisons differ if None
    axis: ClassVar[str | None] = None
    #: what HMC with the theory's own moves is called
    moves: ClassVar[str] = "HMC with moves of the theory"
    #: what must be independent, in words
    judge: ClassVar[str] = "configuration"

    def alike(self, one: ComparedRun, other: ComparedRun, axis: str | None) -> bool:
        """Whether two comparisons belong to the same curves against the axis."""
        return differ_only_in(one, other, axis)

    def layers(self, run: ComparedRun) -> list[Block]:
        """What learned trajectories do, layer by layer."""
        profiles = follow(run, self.moves, lambda target, x: {})
        return [profile_picture(profiles, run.where)] if profiles else []

    def compared(self, run: ComparedRun) -> list[Block]:
        """What else is shown of a comparison."""
        return []

    def sampled(self, run: SampledRun) -> list[Block]:
        """What else is shown of a sampling run, between its results and the histories of slow observables."""
        return []

    def together(self, runs: Sequence[SampledRun]) -> list[Block]:
        """What is shown of all sampling runs of the theory in one figure."""
        return []


def family_sections(figures: Figures, family: Family) -> list[Section]:
    """Costs along the family, then a closer look at its last comparison."""
    run, moves = family.last, figures.moves
    if not run.results.entries:
        return []
    costs: list[Block] = [cost_picture(family, figures.judge, moves)]
    if len(family.runs) > 1:
        costs.append(cost_table(family, moves))
    closer: list[Block] = [deviations_picture(family, moves)]
    if run.contenders(moves):
        closer += [autocorrelation_picture(run, moves), *figures.compared(run)]
    try:
        closer += figures.layers(run)
    except UserError as error:
        closer.append(f"The layers cannot be shown: {error}")
    return [Section("What it costs", costs), Section(f"A closer look at {run.where}", closer)]


def grouped(runs: Sequence[ComparedRun], curves: Sequence[Curve] = ()) -> list[tuple[Figures, Family]]:
    """All comparisons in families, each with the figures of its theory."""
    alike: dict[tuple[str, type[Figures]], tuple[Figures, list[ComparedRun]]] = {}
    for run in runs:
        figures = Figures() if run.theory is None else run.theory.figures(run.results.target)
        alike.setdefault((run.results.target["target"], type(figures)), (figures, []))[1].append(run)
    return [
        (figures, family)
        for figures, group in alike.values()
        for family in families(group, figures.axis, figures.alike, curves)
    ]
