"""What a page shows of comparisons and sampling runs of one theory. A theory may have figures of its own."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from jaxtyping import Array

from dlhmc.comparison.results import in_steps, in_time, ratio
from dlhmc.comparison.table import shown, shown_tau
from dlhmc.errors import UserError
from dlhmc.geometry.contract import Field
from dlhmc.report.charts import Block, Section, Text
from dlhmc.report.comparisons import ComparedRun, autocorrelation_chart, contenders, in_words
from dlhmc.report.costs import cost_chart, cost_table, dot_chart
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

    def families(self, runs: Sequence[ComparedRun], curves: Sequence[Curve]) -> list[Family]:
        """Which comparisons belong together."""
        return families(runs, self.axis, curves)

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
        """The answer: what the best trained sampler costs, and what its rivals do; None where nothing is known."""
        model = run.best("model", in_time)
        fewest, quickest = run.best("hmc", in_steps), run.best("hmc", in_time)
        own = quickest if model is None else model
        if own is None or own.seconds_per_independent.figure is None:
            return None
        sampler = "the best HMC" if model is None else model.name if model.model is None else "the trained sampler"
        said = [
            f"On {self.where(run)} an independent {self.judged(run)} costs {sampler} {own.leapfrog_steps} × "
            f"{_words(shown_tau(own.tau_int[run.slow[0]]))} = {_words(shown(own.steps_tau))} leapfrog steps and "
            f"{_words(shown(own.seconds_per_independent, 1e3))} ms."
        ]
        if model is None:
            said.append(f"It is {in_words(own)}.")
        elif fewest is not None and quickest is not None and (times := shown(model.gain_in_time)):
            steps = shown(model.gain_in_steps)
            other = "" if fewest is quickest else f" ({in_words(fewest)})"
            more = f" and {_words(steps)} times as many steps{other}" if steps else ""
            said.append(f"The best HMC ({in_words(quickest)}) takes {_words(times)} times as long{more}.")
        if quickest is not None and quickest.seconds_per_independent.value is None:
            ahead = model is None or (model.gain_in_time.figure or 1) >= 1
            race = f"race of {run.results.seconds:.0f} s"
            said.append(
                f"For HMC these are lower limits at 95 %: in a {race} it was not seen to forget its {self.judged(run)}."
                if ahead
                else f"These are lower limits at 95 %: a {race} was too short to tell which of the two is cheaper."
            )
        for kind, name in (("move", self.moves), ("exact", "Drawing exact configurations")):
            rival = run.best(kind, in_time)
            more = "" if rival is None else shown(ratio(rival.seconds_per_independent, own.seconds_per_independent))
            if rival is not None and more:
                words = f" ({in_words(rival)})" if kind == "move" else ""
                said.append(f"{name}{words} takes {_words(more)} times as long.")
        return " ".join(said)

    def sections(self, family: Family) -> list[Section]:
        """Costs, then a section for each comparison."""
        found = [self.costs(family)]
        for run in family.runs:
            blocks: list[Block] = []
            if contenders(run):
                title = f"Autocorrelation, {self.where(run)}"
                blocks.append(autocorrelation_chart(run, run.slow[:_MOST_PANELS], f"autocorrelation-{run.name}", title))
            if blocks := blocks + self.layers(run):
                found.append(Section(f"Comparison on {self.where(run)}", blocks))
        return found

    def costs(self, family: Family) -> Section:
        """Chart and table along the family; of a single comparison a row for each sampler."""
        if len(family.runs) == 1:
            return Section("What it costs", [dot_chart(family, self.judged(family.last), self.moves)])
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


def _words(number: str) -> str:
    return number.replace("> ", "more than ").replace("< ", "less than ")


def grouped(runs: Sequence[ComparedRun], curves: Sequence[Curve]) -> list[tuple[Figures, Family]]:
    """All comparisons in families, each with the figures of its theory."""
    alike: dict[tuple[str, type[Figures]], tuple[Figures, list[ComparedRun]]] = {}
    for run in runs:
        figures = Figures() if run.theory is None else run.theory.figures(run.results.target)
        figures.require(run)
        alike.setdefault((run.results.target["target"], type(figures)), (figures, []))[1].append(run)
    found = []
    for figures, group in alike.values():
        found += [(figures, family) for family in figures.families(group, curves)]
    return found
