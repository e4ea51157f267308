"""Commands that run: sampling, training, comparing, and going on with a run."""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import tyro

from dlhmc.cli.options import LongRun
from dlhmc.cli.planned import PlannedRun, value_of
from dlhmc.errors import ExitCode, UserError
from dlhmc.plans.comparing import ComparePlan
from dlhmc.plans.plan import Plan
from dlhmc.plans.sampling import SamplePlan
from dlhmc.plans.tables import theory_of
from dlhmc.plans.training import TrainPlan
from dlhmc.settings import What
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
class Resume(LongRun):
    """Go on with an interrupted run; the result is the same as without the interruption."""

    directory: tyro.conf.Positional[Path]
    """directory of the run"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        from dlhmc.runs.directory import run_kind

        kind = run_kind(self.directory)
        known = registry.resumable() | {plan.kind: plan.resume for plan in (SamplePlan, TrainPlan)}
        if kind not in known:
            raise UserError(f"{self.directory} holds a run of kind '{kind}', which cannot go on: start another one.")
        return self.conclude(known[kind](self.directory, self.console, self.begin()), self.directory)
