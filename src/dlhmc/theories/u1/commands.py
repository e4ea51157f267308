"""Commands of the theory: the demonstration, and the paper's results."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from dlhmc.cli.options import Compiling, NewRun
from dlhmc.cli.output import console
from dlhmc.cli.planned import value_of
from dlhmc.errors import ExitCode
from dlhmc.settings import read_table
from dlhmc.theories.u1.reproduction.settings import ReproduceSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demo(Compiling):
    """Watch frozen topology thaw: HMC, and a sampler trained while you look on, at β = 7."""

    out: Path = Path("demo")
    """directory for the runs and the picture"""
    trajectories: int = 2000
    """trajectories of each run"""
    steps: int = 2000
    """training steps"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        from dlhmc.theories.u1.demo import demo

        return demo(self.out, self.trajectories, self.steps, console())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reproduce(NewRun):
    """The paper's results from start to end: train along β, compare at each, figures, tables, report.

    Example: dlhmc reproduce --preset cpu --out runs/paper
    """

    settings: Annotated[ReproduceSettings, tyro.conf.arg(name="")]
    preset: Literal["cpu", "paper"] | None = None
    """settings to start from: cpu (under two hours on two cores) or paper (its sizes, for GPUs)"""

    @classmethod
    def specialised(cls, arguments: list[str]) -> tuple[type[Any], Any]:
        """With the settings of --preset and --config for defaults."""
        preset, file = value_of("--preset", arguments), value_of("--config", arguments)
        table = dict(ReproduceSettings.presets.get(preset or "", {}))
        if file is not None:
            table |= read_table(Path(file))
        return cls, cls(settings=ReproduceSettings.from_table(table, f"The configuration {file}"))

    def plan(self) -> ReproduceSettings:
        """The settings."""
        return self.settings

    def run(self, plan: ReproduceSettings, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        from dlhmc.theories.u1.reproduction.command import reproduce

        return reproduce(plan, out, self.console, quiet=self.hushed)
