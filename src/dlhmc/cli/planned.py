"""Commands whose options are the settings of a plan: which they are depends on the theory and on the network."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from dlhmc.cli.options import NewRun, Switch
from dlhmc.cli.output import console
from dlhmc.errors import ExitCode, UserError
from dlhmc.plans.plan import Plan
from dlhmc.plans.tables import theory_of
from dlhmc.settings import Listed, OfMachine, merged, picked, read_table
from dlhmc.theories import registry
from dlhmc.theories.contract import Theory

_SUFFIX = "_settings"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedRun(NewRun):
    """Base class; `specialised` makes the class that the command line is parsed into."""

    planned: ClassVar[type[Plan]]
    #: options that name a model
    model_options: ClassVar[tuple[str, ...]] = ("--model",)

    dry_run: OfMachine[Switch] = False
    """print all settings and, from a measured step, the memory and the time that it would take; do nothing"""

    @classmethod
    def choices(cls, theory: Theory) -> dict[str, tuple[str, dict[str, str], str]]:
        """What the names of the plan mean, what they may be, and what they are if nothing is said."""
        theories = {candidate.name: candidate.title for candidate in registry.all_theories()}
        kinds = {name: kind.meaning for name, kind in registry.architectures().items()}
        known = {
            "target": ("what is sampled", theories, theory.name),
            "network": ("the layers", kinds, theory.network),
        }
        return {name: known[name] for name in cls.planned.names}

    @classmethod
    def variants(cls) -> Iterator[list[str]]:
        """The words on which it depends which options there are."""
        for theory in registry.all_theories():
            for network in registry.architectures() if "network" in cls.planned.names else [""]:
                yield ["--target", theory.name, *(["--network", network] if network else [])]

    @classmethod
    def from_file(cls, arguments: list[str]) -> dict[str, Any]:
        """The settings of --config, with the names that options give: these are looked at first."""
        file = value_of("--config", arguments)
        table = {} if file is None else read_table(Path(file))
        named = {name: value_of(f"--{name}", arguments) for name in cls.planned.names}
        return table | {name: value for name, value in named.items() if value is not None}

    @classmethod
    def given(cls, arguments: list[str]) -> dict[str, Any]:
        """The defaults that options override: settings of a file, above those that a model was trained for."""
        table = cls.from_file(arguments)
        named = [name for option in cls.model_options if (name := value_of(option, arguments)) is not None]
        if not named:
            return table
        from dlhmc.models.model import Model

        trained_for = cls.planned.settings_of(Model.open(named[0]))
        # Those of a model for another target than the one that is asked for are of no use.
        return trained_for | table if table.get("target", trained_for["target"]) == trained_for["target"] else table

    @classmethod
    def specialised(cls, arguments: list[str]) -> tuple[type[Any], Any]:
        """The class with all options, and a command that holds the defaults of the theory and network asked for."""
        table = cls.given(arguments)
        theory = theory_of(table)
        fields: list[Any] = []
        values: dict[str, Any] = {}
        for name, (meaning, known, default) in cls.choices(theory).items():
            if isinstance(given := table.get(name), str) and given not in known:
                raise UserError(f"There is no {name} '{given}': there are {', '.join(known)}.")
            values[name] = table.get(name) or default
            marks = (tyro.conf.arg(help=meaning), Listed("what", choices=tuple(known.items())))
            hint = Annotated[Literal[tuple(known)], *marks]  # type: ignore[valid-type]
            fields.append((name, hint, dataclasses.field(default=values[name])))
        for name, kind in cls.planned.parts(theory, table).items():
            values[name + _SUFFIX] = picked(kind, table)
            fields.append((name + _SUFFIX, Annotated[kind, tyro.conf.arg(name="")], dataclasses.field()))
        made = dataclasses.make_dataclass(cls.__name__, fields, bases=(cls,), frozen=True, kw_only=True)
        made.__doc__ = cls.__doc__
        return made, made(**values)

    def table(self) -> dict[str, Any]:
        """All settings of the plan in one flat table, and those of the file that no option stands for."""
        parts = [getattr(self, field.name) for field in dataclasses.fields(self) if field.name.endswith(_SUFFIX)]
        names = {name: getattr(self, name) for name in self.planned.names}
        rest = {} if self.config is None else read_table(self.config)
        return rest | merged(names, *parts)

    def plan(self) -> Plan:
        """What the options stand for."""
        return self.planned.from_table(self.table(), f"The configuration {self.config}")

    def explain(self, plan: Any) -> None:
        """Memory and time, from a measured step."""
        plan.estimate(console())

    def run(self, plan: Any, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        code: ExitCode = plan.run(out, self.console, self.begin())[1]
        return code


def value_of(option: str, arguments: list[str]) -> str | None:
    """What follows an option, before the command line is parsed as a whole."""
    for index, argument in enumerate(arguments):
        if argument == option and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith(option + "="):
            return argument.removeprefix(option + "=")
    return None
