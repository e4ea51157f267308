"""The command of the theory: the demonstration."""

import dataclasses
from pathlib import Path

from dlhmc.cli.options import Compiling
from dlhmc.cli.output import console
from dlhmc.errors import ExitCode


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
