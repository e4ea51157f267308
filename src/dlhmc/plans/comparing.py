"""A comparison of the command line: theory, its hand-made samplers, learned samplers, and the race."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dlhmc.comparison.settings import CompareSettings
from dlhmc.plans.tables import absolute, divided, theory_of
from dlhmc.settings import Settings, merged
from dlhmc.theories.contract import Rivals, TargetSettings, Theory

if TYPE_CHECKING:
    from rich.console import Console

    from dlhmc.comparison.contestants import Contestant
    from dlhmc.errors import ExitCode
    from dlhmc.targets import Target


@dataclasses.dataclass(frozen=True)
class LearnedSettings(Settings):
    """Learned samplers."""

    model: tuple[str, ...] = ()
    """training runs or model files of learned samplers"""

    def __post_init__(self) -> None:
        """Names mean the same in every directory."""
        super().__post_init__()
        object.__setattr__(self, "model", tuple(str(absolute(name)) for name in self.model))


@dataclasses.dataclass(frozen=True)
class ComparePlan:
    """All of it."""

    theory: Theory
    target: TargetSettings
    rivals: Rivals
    settings: CompareSettings
    model: tuple[str, ...] = ()

    @staticmethod
    def parts(theory: Theory) -> dict[str, type[Settings]]:
        """The classes of settings, by the field that holds them; `model` holds the one setting of its class."""
        return {
            "target": theory.settings,
            "model": LearnedSettings,
            "rivals": theory.rivals,
            "settings": CompareSettings,
        }

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str = "The table") -> Self:
        """From one flat table."""
        theory = theory_of(table)
        parts = cls.parts(theory)
        values: Any = dict(zip(parts, divided(table, list(parts.values()), ["target"], where), strict=True))
        return cls(theory, **(values | {"model": values["model"].model}))

    def table(self) -> dict[str, Any]:
        """As one flat table."""
        return merged(
            {"target": self.theory.name}, self.target, LearnedSettings(self.model), self.rivals, self.settings
        )

    @property
    def default_directory(self) -> Path:
        """Where the results go if nobody says so."""
        return Path("runs") / f"compare-{self.target.label or self.theory.name}-seed{self.settings.seed}"

    def learned(self, target: "Target") -> "tuple[list[Contestant], dict[str, Path]]":
        """The samplers of the models, and their files; a model that does not fit is refused."""
        from dlhmc.comparison.contestants import contestant_of
        from dlhmc.models.model import Model

        short = [Path(name).stem if Path(name).is_file() else Path(name).name for name in self.model]
        found, inputs = [], {}
        for name, brief in zip(self.model, short, strict=True):
            model = Model.open(name)
            model.require_target(self.theory.name, self.target)
            label = f"model {brief if short.count(brief) == 1 else name}"
            found.append(contestant_of(label, model.kernel(target), name))
            inputs[label] = model.path
        return found, inputs

    def run(self, path: Path, console: "Console", *, quiet: bool = False) -> "ExitCode":
        """Do it, in a new directory, and show the tables."""
        import jax

        from dlhmc.comparison import table
        from dlhmc.comparison.command import compare
        from dlhmc.runs.directory import RunDirectory

        RunDirectory(path).refuse_if_taken()
        with jax.enable_x64(self.settings.float64):
            target = self.target.build()
            # Before the directory is made: a model that does not fit leaves nothing behind.
            learned, inputs = self.learned(target)
            results, _, code = compare(
                target, self.settings, learned, self.rivals, self.table(), path, console, inputs=inputs, quiet=quiet
            )
        if not quiet:
            table.show(results, console)
            console.print(f"written to {path}", markup=False, highlight=False, soft_wrap=True)
        return code
