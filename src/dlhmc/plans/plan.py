"""What all plans have in common: settings of several classes, which one flat table holds."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dlhmc.plans.tables import require_in_place, theory_of
from dlhmc.settings import Settings, hints_of, merged, picked
from dlhmc.theories.contract import TargetSettings, Theory

if TYPE_CHECKING:
    from rich.console import Console

    from dlhmc.errors import ExitCode
    from dlhmc.models.model import Model
    from dlhmc.run.driver import ExecutionOptions, Work


@dataclasses.dataclass(frozen=True)
class Plan:
    """Base class: `target` and every field that follows hold the settings of one class."""

    #: the kind of the run, as its directory calls it
    kind: ClassVar[str]
    #: what is chosen by name: which settings there are depends on it
    names: ClassVar[tuple[str, ...]] = ("target",)

    theory: Theory
    target: TargetSettings

    @staticmethod
    def parts(theory: Theory, table: Mapping[str, Any]) -> dict[str, type[Settings]]:
        """The classes of settings, by the field that holds them."""
        raise NotImplementedError

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str = "The table") -> Self:
        """From one flat table."""
        theory = theory_of(table)
        parts = cls.parts(theory, table)
        require_in_place(table, [*cls.names, *(name for kind in parts.values() for name in hints_of(kind))], where)
        settings: Any = {name: picked(kind, table) for name, kind in parts.items()}
        return cls(theory, **settings)

    @classmethod
    def reopened(cls, path: Path) -> Self:
        """The plan of an earlier run."""
        from dlhmc.run.directory import open_run, require_rebuildable

        directory, table = open_run(cls.kind, path)
        require_rebuildable(cls.kind, table, path)
        return cls.from_table(table, str(directory.config))

    @classmethod
    def settings_of(cls, model: "Model") -> dict[str, Any]:
        """The settings that name the target a model was trained for."""
        theory, settings = model.target_settings
        return {"target": theory, **dataclasses.asdict(settings)}

    def table(self) -> dict[str, Any]:
        """As one flat table."""
        settings = [getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "theory"]
        return merged({"target": self.theory.name}, *settings)

    def estimate(self, console: "Console") -> None:
        """Print what it would take: memory, and time from a measured step."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """What is done, in the name of the directory."""
        return self.kind

    @property
    def default_directory(self) -> Path:
        """Where the run goes if nobody says so."""
        return Path("runs") / f"{self.label}-{self.target.label or self.theory.name}-seed{self.table()['seed']}"


class LongPlan(Plan):
    """Plans of runs that can be interrupted, and go on."""

    def run(
        self, path: Path, console: "Console", options: "ExecutionOptions | None" = None, *, resuming: bool = False
    ) -> "tuple[Work, ExitCode]":
        """Do it, in a directory."""
        raise NotImplementedError

    @classmethod
    def resume(cls, path: Path, console: "Console", options: "ExecutionOptions | None" = None) -> "ExitCode":
        """Go on with an interrupted run."""
        return cls.reopened(path).run(path, console, options, resuming=True)[1]
