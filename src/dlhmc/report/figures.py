"""What a page shows of comparisons and sampling runs of one theory. A theory may have figures of its own."""

from collections.abc import Sequence
from typing import ClassVar

from dlhmc.report.compared import (
    ComparedRun,
    Family,
    autocorrelation_picture,
    cost_picture,
    cost_table,
    deviations_picture,
    differ_only_in,
    most_varied,
)
from dlhmc.report.curves import Curve
from dlhmc.report.page import Block, Section
from dlhmc.report.sampling import SampledRun


class Figures:
    """For any target; each method can be replaced."""

    #: the setting of the target that costs are shown against; that in which comparisons differ if None
    axis: ClassVar[str | None] = None

    def alike(self, one: ComparedRun, other: ComparedRun, axis: str | None) -> bool:
        """Whether two comparisons belong to the same curves against the axis."""
        return differ_only_in(one, other, axis)

    def compared(self, run: ComparedRun) -> list[Block]:
        """What else is shown of a comparison."""
        return []

    def sampled(self, run: SampledRun) -> list[Block]:
        """What else is shown of a sampling run, between its results and the histories of slow observables."""
        return []

    def together(self, runs: Sequence[SampledRun]) -> list[Block]:
        """What is shown of all sampling runs of the theory in one figure."""
        return []


def family_section(figures: Figures, family: Family) -> Section:
    """Costs along the family, then a closer look at its last comparison."""
    run = family.last
    blocks: list[Block] = [cost_picture(family), *([cost_table(family)] if len(family.runs) > 1 else [])]
    blocks += [deviations_picture(family), autocorrelation_picture(run), *figures.compared(run)]
    return Section(f"Comparison on {run.where}", blocks)


def grouped(runs: Sequence[ComparedRun], curves: Sequence[Curve] = ()) -> list[tuple[Figures, Family]]:
    """All comparisons in families, each with the figures of its theory."""
    found: list[tuple[Figures, Family]] = []
    for run in runs:
        target, figures = run.results.target, Figures()
        if run.theory is not None:
            figures = run.theory.figures(target)
        alike = [other for other in runs if other.results.target["target"] == target["target"]]
        axis = figures.axis or most_varied(alike)
        families = (family for _, family in found if family.last in alike and figures.alike(family.last, run, axis))
        if (family := next(families, None)) is None:
            family = Family([], axis, [curve for curve in curves if curve.holds_for(target, axis)])
            found.append((figures, family))
        family.runs.append(run)
    for _, family in found:
        family.runs.sort(key=family.at)
    return found
