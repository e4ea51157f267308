"""A comparison of the command line: theory, its hand-made samplers, learned samplers, and the race."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dlhmc.comparison.settings import CompareSettings
from dlhmc.plans.plan import Plan
from dlhmc.plans.tables import absolute
from dlhmc.settings import Settings
from dlhmc.theories.contract import Rivals, Theory

if TYPE_CHECKING:
    from rich.console import Console

    from dlhmc.comparison.contestants import Contestant
    from dlhmc.comparison.results import Results
    from dlhmc.errors import ExitCode
    from dlhmc.runs.loop import ExecutionOptions
    from dlhmc.targets import Target


@dataclasses.dataclass(frozen=True)
class LearnedSettings(Settings):
    """Learned samplers."""

    section: ClassVar[str] = "sampler"

    model: tuple[str, ...] = ()
    """training runs or model files of learned samplers"""

    def __post_init__(self) -> None:
        """Names mean the same in every directory."""
        super().__post_init__()
        object.__setattr__(self, "model", tuple(str(absolute(name)) for name in self.model))


@dataclasses.dataclass(frozen=True)
class ComparePlan(Plan):
    """All of it."""

    kind: ClassVar[str] = "compare"

    learned: LearnedSettings
    rivals: Rivals
    settings: CompareSettings

    @staticmethod
    def parts(theory: Theory, table: Mapping[str, Any]) -> dict[str, type[Settings]]:
        """The classes of settings, by the field that holds them."""
        return {
            "target": theory.settings,
            "learned": LearnedSettings,
            "rivals": theory.rivals,
            "settings": CompareSettings,
        }

    def models(self, target: "Target") -> "tuple[list[Contestant], dict[str, Path]]":
        """The samplers of the models, and their files; a model that does not fit is refused."""
        from dlhmc.comparison.contestants import contestant_of
        from dlhmc.models.model import Model

        names = self.learned.model
        short = [Path(name).stem if Path(name).is_file() else Path(name).name for name in names]
        found, inputs = [], {}
        for name, brief in zip(names, short, strict=True):
            model = Model.open(name)
            model.require_target(self.theory.name, self.target)
            label = f"model {brief if short.count(brief) == 1 else name}"
            network = None if model.architecture is None else model.architecture.name
            found.append(contestant_of(label, model.kernel(target), name, network))
            inputs[label] = model.path
        return found, inputs

    def estimate(self, console: "Console") -> None:
        """Print what the comparison would take."""
        import jax

        from dlhmc.comparison.command import estimate

        with jax.enable_x64(self.settings.float64):
            target = self.target.build()
            estimate(target, self.settings, self.models(target)[0], self.rivals, console)

    def run(
        self, path: Path, console: "Console", options: "ExecutionOptions | None" = None
    ) -> "tuple[Results, ExitCode]":
        """Do it, in a new directory, and show the tables."""
        import jax

        from dlhmc.comparison import table
        from dlhmc.comparison.command import compare
        from dlhmc.runs.directory import Place, RunDirectory
        from dlhmc.runs.loop import PLAIN

        options = options or PLAIN
        RunDirectory(path).refuse_if_taken()
        with jax.enable_x64(self.settings.float64):
            target = self.target.build()
            # Before the directory is made: a model that does not fit leaves nothing behind.
            models, inputs = self.models(target)
            place = Place(path, self.table(), inputs)
            results, code = compare(target, self.settings, models, self.rivals, place, console, options)
        if not options.quiet:
            table.show(results, console)
            console.out(f"written to {path}", highlight=False)
        return results, code
