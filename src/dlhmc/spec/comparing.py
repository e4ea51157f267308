"""A comparison as a file and the command line specify it."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dlhmc.comparison.settings import CompareSettings
from dlhmc.settings import Settings
from dlhmc.spec.spec import Spec
from dlhmc.theories.contract import Theory

if TYPE_CHECKING:
    from rich.console import Console

    from dlhmc.comparison.lineup import Learned
    from dlhmc.comparison.results import Results
    from dlhmc.errors import ExitCode
    from dlhmc.run.driver import ExecutionOptions
    from dlhmc.targets import Target


@dataclasses.dataclass(frozen=True)
class CompareSpec(Spec):
    """All of it."""

    kind: ClassVar[str] = "compare"

    compare: CompareSettings

    @classmethod
    def tables(cls, theory: Theory, network: str | None) -> dict[str, type[Settings]]:
        """The classes of settings by field."""
        return {"target": theory.settings, "compare": CompareSettings}

    @property
    def seed(self) -> int:
        """Root of all random numbers."""
        return self.compare.seed

    def learned(self, target: "Target") -> "list[Learned]":
        """The samplers of the models, alone or in turn with HMC; one that does not fit is refused."""
        from dlhmc.comparison.lineup import Learned
        from dlhmc.models.model import Model

        models = {name: Model.open(name) for name in self.compare.model}
        words = {name: model.words for name, model in models.items()}
        found = []
        for name, model in models.items():
            kernel = model.kernel(target)
            brief = Path(name).stem if Path(name).is_file() else Path(name).name
            label = words[name] if list(words.values()).count(words[name]) == 1 else f"{words[name]} ({brief})"
            turns = [0, 1] if kernel.trajectory.acts_in_windows else [0]
            if self.compare.alternate is not None:
                turns = [self.compare.alternate]
            found += [Learned(label, kernel, each, name) for each in turns]
        return found

    def estimate(self, console: "Console") -> None:
        """Print what the comparison would take."""
        import jax

        from dlhmc.comparison.comparing import estimate

        with jax.enable_x64(self.compare.float64):
            target = self.target.build()
            estimate(target, self.compare, self.learned(target), console)

    def run(
        self, path: Path, console: "Console", options: "ExecutionOptions | None" = None, *, resuming: bool = False
    ) -> "tuple[Results, ExitCode]":
        """Do it, in a new directory, and show the tables."""
        import jax

        from dlhmc.comparison.comparing import compare, show_results
        from dlhmc.run.directory import Place, RunDirectory
        from dlhmc.run.driver import PLAIN

        options = options or PLAIN
        RunDirectory(path).refuse_if_taken()
        with jax.enable_x64(self.compare.float64):
            # Before the directory is made: what does not fit leaves nothing behind.
            target = self.target.build()
            learned, place = self.learned(target), Place(path, self.to_tables())
            results, code = compare(target, self.compare, learned, place, console, options, self.target.describe())
        if not options.quiet:
            show_results(results, console)
            console.out(f"written to {path}", highlight=False)
        return results, code
