"""What all specifications have in common: tables of settings, made once and checked once. Free of heavy imports."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dlhmc.errors import UserError
from dlhmc.models.files import ModelFile
from dlhmc.settings import Settings, build, fields_of, require_known, shown
from dlhmc.theories import registry
from dlhmc.theories.contract import TargetSettings, Theory

if TYPE_CHECKING:
    from rich.console import Console

    from dlhmc.errors import ExitCode
    from dlhmc.run.driver import ExecutionOptions


#: tables of the file that fields of a specification are called differently from
_TABLES = {"amounts": "run"}


@dataclasses.dataclass(frozen=True)
class Spec:
    """Base class: every field is a table."""

    #: of the run, as its directory calls it
    kind: ClassVar[str]
    #: whether the layers are chosen by name
    has_network: ClassVar[bool] = False

    target: TargetSettings

    @classmethod
    def tables(cls, theory: Theory, network: str | None) -> dict[str, type[Settings]]:
        """The classes of settings by field."""
        raise NotImplementedError

    @classmethod
    def of(cls, options: Mapping[str, Any], file: Mapping[str, Any] | None = None, where: str = "A run") -> Self:
        """From options by name, `target` and `network` among them, over those of a file, over those of a model."""
        require_known(file or {}, [_TABLES.get(field.name, field.name) for field in dataclasses.fields(cls)], where)
        for name, table in (file or {}).items():
            if not isinstance(table, Mapping):
                raise UserError(f"{where} has {name} = {shown(table)}, but must be a table: [{name}].")
        named = {name: dict(table) for name, table in (file or {}).items()}
        given = dict(options)
        theory = registry.theory(_chosen("target", given, named, where) or "u1")
        network = _chosen("network", given, named, where) if cls.has_network else None
        kinds = {_TABLES.get(name, name): kind for name, kind in cls.tables(theory, network).items()}
        home = {field.name: table for table, kind in kinds.items() for field in fields_of(kind)}
        require_known(given, home, where)
        for name, value in given.items():
            named.setdefault(home[name], {})[name] = value
        if models := named.get(home.get("model", ""), {}).get("model"):
            cls.take_over(ModelFile.open(models if isinstance(models, str) else models[0]), kinds, named)
        made = {table: build(kind, named.get(table, {}), f"{where} in [{table}]") for table, kind in kinds.items()}
        return cls(**{name: made[_TABLES.get(name, name)] for name in cls.tables(theory, network)})  # type: ignore[arg-type]

    @classmethod
    def take_over(
        cls, model: ModelFile, kinds: Mapping[str, type[Settings]], tables: dict[str, dict[str, Any]]
    ) -> None:
        """What a model says where nothing else is said: its lattice and its couplings."""
        ours, its = kinds["target"], model.description.get("target", {}).get("name")
        shared = model.target_like(ours)
        if its is not None and its != (name := ours.theory) and not shared:  # type: ignore[attr-defined]
            raise UserError(f"The model {model.path} was trained for {its}, not for {name}: give another model.")
        tables["target"] = shared | tables.get("target", {})

    @classmethod
    def reopened(cls, path: Path) -> Self:
        """The specification of an earlier run."""
        from dlhmc.run.directory import open_run, require_rebuildable

        directory, tables = open_run(cls.kind, path)
        require_rebuildable(cls.kind, tables, path)
        return cls.of({}, tables, str(directory.config))

    def run(
        self, path: Path, console: "Console", options: "ExecutionOptions | None" = None, *, resuming: bool = False
    ) -> "tuple[Any, ExitCode]":
        """Do it, in a directory."""
        raise NotImplementedError

    @classmethod
    def resume(cls, path: Path, console: "Console", options: "ExecutionOptions | None" = None) -> "ExitCode":
        """Go on with an interrupted run."""
        return cls.reopened(path).run(path, console, options, resuming=True)[1]

    @property
    def theory(self) -> Theory:
        """Of the target."""
        return registry.theory(self.target.theory)

    def to_tables(self) -> dict[str, dict[str, Any]]:
        """As a file has it: what does not apply to the theory is left out."""
        found = {}
        for field in dataclasses.fields(self):
            settings = getattr(self, field.name)
            table = settings.to_table() if hasattr(settings, "to_table") else dataclasses.asdict(settings)
            foreign = {one.name for one in fields_of(type(settings)) if not applies(one.listed.ability, self.theory)}
            found[_TABLES.get(field.name, field.name)] = {k: v for k, v in table.items() if k not in foreign}
        return found

    def estimate(self, console: "Console") -> None:
        """Print what it would take: memory, and time from a measured step."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """What is done, in the name of the directory."""
        return self.kind

    @property
    def seed(self) -> int:
        """Root of all random numbers."""
        raise NotImplementedError

    @property
    def default_directory(self) -> Path:
        """Where the run goes if nobody says so: the first such name that is free."""
        first = Path("runs") / f"{self.label}-{self.target.label}-seed{self.seed}"
        return free(first)


def applies(ability: str, theory: Theory) -> bool:
    """Whether a setting that needs an ability is for a theory."""
    return not ability or ability in theory.abilities


def free(path: Path) -> Path:
    """The path, or the first of path-2, path-3, … that nothing has."""
    number, found = 1, path
    while found.exists():
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def _chosen(what: str, given: dict[str, Any], tables: Mapping[str, dict[str, Any]], where: str) -> Any:
    """The name of a theory or of layers, which a file and a word of the command line must not call differently."""
    ours, its = given.pop(what, None), tables.get(what, {}).pop("name", None)
    if ours is not None and its not in (None, ours):
        raise UserError(f"{where} is for the {what} {shown(its)}, not for {ours}.")
    return its if ours is None else ours
