"""Commands that run: sampling, training, comparing, reproducing, and going on with any of them."""

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Literal

import tyro

from dlhmc.cli.options import Compiling, LongRun, NewRun, Switch
from dlhmc.cli.output import console
from dlhmc.comparison.config import CompareConfig
from dlhmc.errors import ExitCode
from dlhmc.runs.config import SampleConfig, TrainConfig
from dlhmc.theories.u1.reproduction.config import ReproduceConfig


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
class Sample(LongRun, NewRun):
    """Sample a target and compare with exact results.

    Example: dlhmc sample --kernel hmc --lattice 16 16 --beta 7 --out runs/hmc7
    """

    settings: Annotated[SampleConfig, tyro.conf.arg(name="")]

    def run(self, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        from dlhmc.runs.sampling import sample

        return sample(self.settings, out, self.console, self.begin())

    def explain(self) -> None:
        """The size of the history."""
        console().print(_history_text(self.settings), markup=False, highlight=False, soft_wrap=True)


def _history_text(config: SampleConfig) -> str:
    from dlhmc.runs.targets import build

    history = 4 * 6 * config.trajectories * config.chains / 1e6
    kept = config.keep_configurations * math.prod(build(config).shape) * config.chains * 4 / 1e6
    total = (history + kept) * (2 if config.float64 else 1)
    return f"at most {total:.0f} MB of history (before compression)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(LongRun, NewRun):
    """Train a sampler (Algorithm 1 of the paper).

    Example: dlhmc train --lattice 8 8 --beta 4 --network dense --hidden 64 64 --steps 2000 --out runs/t
    """

    settings: Annotated[TrainConfig, tyro.conf.arg(name="")]
    preset: Literal["paper", "laptop"] | None = None
    """settings to start from: paper (for GPUs) or laptop (minutes); options given here override it"""
    dry_run: Switch = False
    """print the number of parameters, memory and time, from a measured step"""

    def run(self, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        from dlhmc.runs.training import train

        return train(self.settings, out, self.console, self.begin())

    def explain(self) -> None:
        """Parameters, memory, time."""
        from dlhmc.runs.training import estimate

        estimate(self.settings, console())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(NewRun):
    """Compare samplers: HMC on a grid, with instanton hits, exact draws, learned ones.

    All run in turn in one process until τ_int of each is known. Example:
    dlhmc compare --lattice 16 16 --beta 7 --model runs/t --out runs/compare7
    """

    settings: Annotated[CompareConfig, tyro.conf.arg(name="")]

    def run(self, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        from dlhmc.comparison.command import compare

        return compare(self.settings, out, self.console, quiet=self.hushed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reproduce(NewRun):
    """The paper's results from start to end: train along β, compare at each, figures, tables, report.

    Example: dlhmc reproduce --preset cpu --out runs/paper
    """

    settings: Annotated[ReproduceConfig, tyro.conf.arg(name="")]
    preset: Literal["cpu", "paper"] | None = None
    """settings to start from: cpu (under two hours on two cores) or paper (its sizes, for GPUs)"""

    def run(self, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        from dlhmc.theories.u1.reproduction.command import reproduce

        return reproduce(self.settings, out, self.console, quiet=self.hushed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resume(LongRun):
    """Go on with an interrupted run; the result is the same as without the interruption."""

    directory: tyro.conf.Positional[Path]
    """directory of the run"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        from dlhmc.runs.directory import run_kind

        kind = run_kind(self.directory).removesuffix("-objects")
        if kind == "train":
            from dlhmc.runs.training import resume
        elif kind == "reproduce":
            from dlhmc.theories.u1.reproduction.command import resume
        else:
            from dlhmc.runs.sampling import resume
        return self.conclude(resume(self.directory, self.console, self.begin()), self.directory)
