"""Commands that run: sampling, training, comparing, and going on with a run."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from dlhmc.cli.options import LongRun, NewRun
from dlhmc.cli.planned import PlannedRun, value_of
from dlhmc.errors import ExitCode, UserError
from dlhmc.plans.comparing import ComparePlan
from dlhmc.plans.plan import Plan
from dlhmc.plans.sampling import SamplePlan
from dlhmc.plans.tables import theory_of
from dlhmc.plans.training import TrainPlan
from dlhmc.settings import Listed, What, read_table
from dlhmc.studies.study import StudyPlan
from dlhmc.theories import registry


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample(PlannedRun, LongRun):
    """Sample a target and compare with exact results.

    Example: dlhmc sample --kernel hmc --out runs/hmc
    """

    planned: ClassVar[type[Plan]] = SamplePlan


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(PlannedRun, LongRun):
    """Train a sampler (Algorithm 1 of the paper).

    Example: dlhmc train --network dense --hidden 64 64 --steps 2000 --out runs/t
    """

    planned: ClassVar[type[Plan]] = TrainPlan
    model_options: ClassVar[tuple[str, ...]] = ("--model", "--from")

    preset: What[str | None] = None
    """settings of the theory to start from, such as paper or laptop; options given here override it"""

    @classmethod
    def from_file(cls, arguments: list[str]) -> dict[str, Any]:
        """A preset is of a theory."""
        table = super().from_file(arguments)
        if (name := value_of("--preset", arguments)) is None:
            return table
        theory = theory_of(table)
        if name not in theory.presets:
            known = f"there are {', '.join(theory.presets)}" if theory.presets else "it has none: leave out --preset"
            raise UserError(f"The target {theory.name} has no preset '{name}': {known}.")
        return dict(theory.presets[name]) | table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(PlannedRun):
    """Compare samplers: HMC on a grid, hand-made moves, exact draws, learned ones.

    All run in turn in one process until τ_int of each is known.

    Example: dlhmc compare --model runs/t --out runs/compared
    """

    planned: ClassVar[type[Plan]] = ComparePlan


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reproduce(NewRun):
    """A study from start to end: train, compare, figures, tables, report; it can be interrupted, and goes on.

    Example: dlhmc reproduce --preset cpu --out runs/paper
    """

    @classmethod
    def variants(cls) -> Iterator[list[str]]:
        """The words on which it depends which options there are."""
        return (["--preset", name] for name in registry.studies())

    @classmethod
    def specialised(cls, arguments: list[str]) -> tuple[type[Any], Any]:
        """With the settings of --preset and --config for defaults."""
        preset, file = value_of("--preset", arguments), value_of("--config", arguments)
        table = ({} if file is None else read_table(Path(file))) | ({} if preset is None else {"preset": preset})
        plan = StudyPlan.from_table(table, f"The configuration {file}")
        known = {name: study.meaning for name, study in registry.studies().items()}
        marks = (tyro.conf.arg(help="the study"), Listed("what", choices=tuple(known.items())))
        fields: list[Any] = [
            ("preset", Annotated[Literal[tuple(known)], *marks], plan.preset),
            ("study", Annotated[type(plan.study), tyro.conf.arg(name="")], plan.study),
        ]
        made = dataclasses.make_dataclass(cls.__name__, fields, bases=(cls,), frozen=True, kw_only=True)
        made.__doc__ = cls.__doc__
        return made, made()

    def plan(self) -> StudyPlan:
        """The study."""
        return StudyPlan(self.preset, self.study)  # type: ignore[attr-defined]

    def run(self, plan: StudyPlan, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        from dlhmc.studies.command import reproduce

        return reproduce(plan, out, self.console, quiet=self.hushed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resume(LongRun):
    """Go on with an interrupted run; the result is the same as without the interruption."""

    directory: tyro.conf.Positional[Path]
    """directory of the run"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        from dlhmc.run.directory import run_kind
        from dlhmc.studies import command as study

        kind = run_kind(self.directory)
        known = {SamplePlan.kind: SamplePlan.resume, TrainPlan.kind: TrainPlan.resume, study.KIND: study.resume}
        if kind not in known:
            raise UserError(f"{self.directory} holds a run of kind '{kind}', which cannot go on: start another one.")
        return self.conclude(known[kind](self.directory, self.console, self.begin()), self.directory)
