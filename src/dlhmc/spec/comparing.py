"""A comparison: target, learned samplers, samplers made by hand, and how long to compare."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dlhmc.comparison.competitors import Competitors
from dlhmc.comparison.settings import CompareSettings, Lengths
from dlhmc.models.files import absolute, find
from dlhmc.settings import Advanced, Amount, Settings
from dlhmc.spec.spec import Spec
from dlhmc.theories.contract import Theory

if TYPE_CHECKING:
    from rich.console import Console

    from dlhmc.comparison.contestants import Contestant, Tuned
    from dlhmc.comparison.results import Results
    from dlhmc.errors import ExitCode
    from dlhmc.run.driver import ExecutionOptions
    from dlhmc.targets import Target


@dataclasses.dataclass(frozen=True)
class LearnedSettings(Settings):
    """Learned samplers: the table [learned]."""

    model: tuple[str, ...] = ()
    """training runs, model files or shipped models"""
    alternate: Amount | None = None
    """learned trajectories after each of HMC, 0 for them alone; if not given, alone, and in windows also 1"""
    alternate_lengths: Advanced[Lengths] = (0.5, 1.0)
    """trajectory lengths of HMC in turn with learned ones, which only has to stir what these leave as it is"""

    def __post_init__(self) -> None:
        """Names mean the same in every directory."""
        super().__post_init__()
        for name in self.model:
            find(name)
        object.__setattr__(self, "model", tuple(map(absolute, self.model)))


@dataclasses.dataclass(frozen=True)
class CompareSpec(Spec):
    """All of it."""

    kind: ClassVar[str] = "compare"

    learned: LearnedSettings
    competitors: Competitors
    compare: CompareSettings

    @classmethod
    def tables(cls, theory: Theory, network: str | None) -> dict[str, type[Settings]]:
        """The classes of settings by field."""
        return {
            "target": theory.settings,
            "learned": LearnedSettings,
            "competitors": Competitors,
            "compare": CompareSettings,
        }

    @property
    def seed(self) -> int:
        """Root of all random numbers."""
        return self.compare.seed

    def models(self, target: "Target") -> "tuple[list[Contestant], list[Tuned], dict[str, Path]]":
        """The samplers of the models, alone or in turn with HMC, and their files; one that does not fit is refused."""
        from dlhmc.comparison.contestants import InTurn, contestant_of
        from dlhmc.models.model import Model

        names = self.learned.model
        short = [Path(name).stem if Path(name).is_file() else Path(name).name for name in names]
        alone: list[Contestant] = []
        in_turn: list[Tuned] = []
        inputs: dict[str, Path] = {}
        for name, brief in zip(names, short, strict=True):
            model = Model.open(name)
            label = f"model {brief if short.count(brief) == 1 else name}"
            network = None if model.architecture is None else model.architecture.name
            kernel = model.kernel(target)
            turns = [0, 1] if kernel.trajectory.acts_in_windows else [0]
            if self.learned.alternate is not None:
                turns = [self.learned.alternate]
            for each in turns:
                if each:
                    in_turn.append(InTurn(label, kernel, each, self.learned.alternate_lengths, name, network))
                else:
                    alone.append(contestant_of(label, kernel, name, network))
            inputs[label] = model.path
        return alone, in_turn, inputs

    def estimate(self, console: "Console") -> None:
        """Print what the comparison would take."""
        import jax

        from dlhmc.comparison.command import estimate

        with jax.enable_x64(self.compare.float64):
            target = self.target.build()
            models, in_turn, _ = self.models(target)
            estimate(target, self.compare, models, self.competitors, in_turn, console)

    def run(
        self, path: Path, console: "Console", options: "ExecutionOptions | None" = None, *, resuming: bool = False
    ) -> "tuple[Results, ExitCode]":
        """Do it, in a new directory, and show the tables."""
        import jax

        from dlhmc.comparison import table
        from dlhmc.comparison.command import compare
        from dlhmc.run.directory import Place, RunDirectory
        from dlhmc.run.driver import PLAIN

        options = options or PLAIN
        RunDirectory(path).refuse_if_taken()
        with jax.enable_x64(self.compare.float64):
            # Before the directory is made: what does not fit leaves nothing behind.
            target = self.target.build()
            models, in_turn, _ = self.models(target)
            place, samplers = Place(path, self.to_tables()), (models, self.competitors, in_turn)
            results, code = compare(target, self.compare, *samplers, place, console, options, self.target.describe())
        if not options.quiet:
            table.show(results, console)
            console.out(f"written to {path}", highlight=False)
        return results, code
