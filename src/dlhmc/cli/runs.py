"""Commands that run: sampling, training, comparing, and going on with a run."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import tyro

from dlhmc.cli.options import LongRun, Switch
from dlhmc.cli.output import console
from dlhmc.cli.planned import PlannedRun, value_of
from dlhmc.errors import ExitCode, UserError
from dlhmc.plans.comparing import ComparePlan
from dlhmc.plans.sampling import SamplePlan
from dlhmc.plans.sampling import defaults_of_model as target_of_model
from dlhmc.plans.tables import theory_of
from dlhmc.plans.training import TrainPlan
from dlhmc.plans.training import defaults_of_model as layers_of_model
from dlhmc.settings import Settings
from dlhmc.theories import registry
from dlhmc.theories.contract import Theory


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample(LongRun, PlannedRun):
    """Sample a target and compare with exact results.

    Example: dlhmc sample --kernel hmc --out runs/hmc
    """

    @classmethod
    def parts(cls, theory: Theory, table: Mapping[str, Any]) -> dict[str, type[Settings]]:
        """Those of the plan."""
        return SamplePlan.parts(theory)

    @classmethod
    def given(cls, arguments: list[str]) -> dict[str, Any]:
        """A model knows its target."""
        return _with_model(super().given(arguments), value_of("--model", arguments), target_of_model)

    def plan(self) -> SamplePlan:
        """What the options stand for."""
        return SamplePlan.from_table(self.table(), f"The configuration {self.config}")

    def run(self, plan: SamplePlan, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        return plan.run(out, self.console, self.begin())[1]

    def explain(self, plan: SamplePlan) -> None:
        """The size of the history."""
        amounts = plan.amounts
        history = 4 * 6 * amounts.trajectories * amounts.chains / 1e6
        kept = amounts.keep_configurations * math.prod(plan.target.build().shape) * amounts.chains * 4 / 1e6
        total = (history + kept) * (2 if amounts.float64 else 1)
        console().print(f"at most {total:.0f} MB of history (before compression)", markup=False, highlight=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(LongRun, PlannedRun):
    """Train a sampler (Algorithm 1 of the paper).

    Example: dlhmc train --network dense --hidden 64 64 --steps 2000 --out runs/t
    """

    names: ClassVar[tuple[str, ...]] = ("target", "network")

    preset: str | None = None
    """settings of the theory to start from, such as paper or laptop; options given here override it"""
    dry_run: Switch = False
    """print the number of parameters, memory and time, from a measured step"""

    @classmethod
    def parts(cls, theory: Theory, table: Mapping[str, Any]) -> dict[str, type[Settings]]:
        """Those of the plan."""
        return TrainPlan.parts(theory, table.get("network") or theory.network)

    @classmethod
    def choices(cls, theory: Theory) -> dict[str, tuple[tuple[str, ...], str, str]]:
        """Target and network."""
        kinds = registry.architectures()
        what = f"the layers: {', '.join(f'{name} ({kind.meaning})' for name, kind in kinds.items())}"
        return super().choices(theory) | {"network": (tuple(kinds), theory.network, what)}

    @classmethod
    def given(cls, arguments: list[str]) -> dict[str, Any]:
        """A preset is of a theory; a model to start from knows its target and its layers."""
        table = super().given(arguments)
        if (name := value_of("--preset", arguments)) is not None:
            presets = theory_of(table).presets
            if name not in presets:
                known = f"there are {', '.join(presets)}" if presets else "it has none: leave out --preset"
                raise UserError(f"The target {theory_of(table).name} has no preset '{name}': {known}.")
            table = dict(presets[name]) | table
        model = value_of("--model", arguments) or value_of("--from", arguments)
        return _with_model(table, model, layers_of_model)

    def plan(self) -> TrainPlan:
        """What the options stand for."""
        return TrainPlan.from_table(self.table(), f"The configuration {self.config}")

    def run(self, plan: TrainPlan, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        return plan.run(out, self.console, self.begin())[1]

    def explain(self, plan: TrainPlan) -> None:
        """Parameters, memory, time."""
        plan.estimate(console())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(PlannedRun):
    """Compare samplers: HMC on a grid, hand-made moves, exact draws, learned ones.

    All run in turn in one process until τ_int of each is known. Example:
    dlhmc compare --model runs/t --out runs/compared
    """

    @classmethod
    def parts(cls, theory: Theory, table: Mapping[str, Any]) -> dict[str, type[Settings]]:
        """Those of the plan."""
        return ComparePlan.parts(theory)

    @classmethod
    def given(cls, arguments: list[str]) -> dict[str, Any]:
        """The first model knows its target."""
        return _with_model(super().given(arguments), value_of("--model", arguments), target_of_model)

    def plan(self) -> ComparePlan:
        """What the options stand for."""
        return ComparePlan.from_table(self.table(), f"The configuration {self.config}")

    def run(self, plan: ComparePlan, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        return plan.run(out, self.console, quiet=self.hushed)


def _with_model(table: dict[str, Any], model: str | None, describe: Any) -> dict[str, Any]:
    """The settings that a model was trained for, below those that are given; none if another target is asked for."""
    if model is None:
        return table
    trained_for = describe(model)
    return trained_for | table if table.get("target", trained_for["target"]) == trained_for["target"] else table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resume(LongRun):
    """Go on with an interrupted run; the result is the same as without the interruption."""

    directory: tyro.conf.Positional[Path]
    """directory of the run"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        from dlhmc.runs.directory import run_kind

        kind = run_kind(self.directory)
        if kind == "train":
            from dlhmc.plans.training import resume
        elif kind == "sample":
            from dlhmc.plans.sampling import resume
        elif (found := registry.resumable().get(kind)) is not None:
            resume = found
        else:
            raise UserError(f"{self.directory} holds a run of kind '{kind}', which cannot go on: start another one.")
        return self.conclude(resume(self.directory, self.console, self.begin()), self.directory)
