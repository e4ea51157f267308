"""What a page shows of comparisons and sampling runs of one theory. A theory may have figures of its own."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from jaxtyping import Array

from dlhmc.comparison.results import in_time
from dlhmc.comparison.table import shown, shown_tau
from dlhmc.errors import UserError
from dlhmc.geometry.contract import Field
from dlhmc.report.charts import Block, Section, Text
from dlhmc.report.comparisons import ComparedRun, autocorrelation_chart, contenders
from dlhmc.report.costs import cost_chart, cost_table
from dlhmc.report.curves import Curve
from dlhmc.report.families import Family, families
from dlhmc.report.layers import Batch, profile_chart, profile_film
from dlhmc.report.sampling import SampledRun

_MOST_PANELS = 4


class Figures:
    """For any target; each method can be replaced."""

    #: the setting of the target that costs are shown against; that in which comparisons differ if None
    axis: ClassVar[str | None] = None
    #: what HMC with the theory's own moves is called
    moves: ClassVar[str] = "HMC with moves of the theory"
    #: moments and slow observables that its charts take for granted
    moments: ClassVar[Collection[str]] = ()
    slow: ClassVar[Collection[str]] = ()

    def require(self, run: ComparedRun) -> None:
        """Refuse results that its charts cannot be made of."""
        for entry in run.results.entries:
            run.require(self.moments, entry.observables.keys())
            run.require(self.slow, entry.tau_int.keys())

    def where(self, run: ComparedRun) -> str:
        """The target in a title or a sentence."""
        return f"{run.where} ({run.name})"

    def judged(self, run: ComparedRun) -> str:
        """What must be independent, in words."""
        return run.symbol(run.slow[0]) if run.slow else "configuration"

    def title(self, run: ComparedRun) -> str:
        """Of a page about comparisons of this theory alone."""
        what = run.results.target["target"] if run.theory is None else run.theory.title or run.theory.name
        return f"{what}: what an independent configuration costs"

    def question(self, run: ComparedRun) -> str:
        """What such a page answers."""
        return (
            "How much does an independent configuration cost, with Hamiltonian Monte Carlo tuned as well as possible, "
            "and with the other samplers?"
        )

    def headline(self, run: ComparedRun) -> str | None:
        """The answer in one line: what the best trained sampler gains over the best HMC; None without one."""
        model = run.best("model", in_time)
        if model is None or (steps := shown(model.gain_in_steps)) == "" or (time := shown(model.gain_in_time)) == "":
            return None
        steps, time = (text.replace("> ", "more than ").replace("< ", "less than ") for text in (steps, time))
        sampler = model.name if model.model is None else "the trained sampler"
        return (
            f"On {self.where(run)} an independent {self.judged(run)} costs {sampler} "
            f"{model.leapfrog_steps} × {shown_tau(model.tau_int[run.slow[0]])} = {shown(model.steps_tau)} leapfrog "
            f"steps: {steps} times fewer than the best HMC, and {time} times less time."
        )

    def sections(self, family: Family) -> list[Section]:
        """Costs where there is something to show them against, then a section for each comparison."""
        found = [self.costs(family)] if family.axis is not None else []
        for run in family.runs:
            blocks: list[Block] = []
            if contenders(run):
                title = f"Autocorrelation, {run.name}"
                blocks.append(autocorrelation_chart(run, run.slow[:_MOST_PANELS], f"autocorrelation-{run.name}", title))
            if blocks := blocks + self.layers(run):
                found.append(Section(f"Comparison {run.name}", blocks))
        return found

    def costs(self, family: Family) -> Section:
        """Chart and table along the family."""
        chart = cost_chart(family, self.judged(family.last), self.moves)
        return Section("What it costs", [chart, cost_table(family, self.moves)])

    def layers(self, run: ComparedRun) -> list[Block]:
        """What the layers of the longest trained trajectories do, with the best HMC beside them."""
        try:
            batch = Batch.of(run)
            return [] if batch is None else self.layer_blocks(run, batch)
        except UserError as error:
            return [Text(f"The layers cannot be shown: {error}")]

    def layer_blocks(self, run: ComparedRun, batch: Batch) -> list[Block]:
        """The energy along the trajectory, and the observable that judges."""

        def watched(x: Field) -> dict[str, Array]:
            observables = batch.target.observables(x)
            return {run.symbol(name): observables[name] for name in run.slow[:1]}

        profiles = {name: batch.follow(way, watched) for name, way in batch.ways.items()}
        return [
            profile_chart(profiles, f"Along the layers, {self.where(run)}"),
            profile_film(next(iter(profiles.values())), f"Layer by layer, {self.where(run)}"),
        ]

    def sampled(self, run: SampledRun) -> list[Block]:
        """What else is shown of a sampling run, between its results and the histories of slow observables."""
        return []

    def together(self, runs: Sequence[SampledRun]) -> list[Block]:
        """What is shown of all sampling runs of the theory in one chart."""
        return []


def grouped(runs: Sequence[ComparedRun], curves: Sequence[Curve]) -> list[tuple[Figures, Family]]:
    """All comparisons in families, each with the figures of its theory."""
    alike: dict[tuple[str, type[Figures]], tuple[Figures, list[ComparedRun]]] = {}
    for run in runs:
        figures = Figures() if run.theory is None else run.theory.figures(run.results.target)
        figures.require(run)
        alike.setdefault((run.results.target["target"], type(figures)), (figures, []))[1].append(run)
    found = []
    for figures, group in alike.values():
        found += [(figures, family) for family in families(group, figures.axis, curves)]
    return found
