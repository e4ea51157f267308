"""Commands whose options are the settings of a plan: which they are depends on the theory and on the network."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from dlhmc.cli.options import NewRun
from dlhmc.errors import UserError
from dlhmc.plans.tables import theory_of
from dlhmc.settings import Settings, merged, picked, read_table
from dlhmc.theories import registry
from dlhmc.theories.contract import Theory

_SUFFIX = "_settings"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedRun(NewRun):
    """Base class; `specialised` makes the class that the command line is parsed into."""

    #: what is chosen by name, beside the target
    names: ClassVar[tuple[str, ...]] = ("target",)

    @classmethod
    def parts(cls, theory: Theory, table: Mapping[str, Any]) -> dict[str, type[Settings]]:
        """The classes of settings that the options are made of."""
        raise NotImplementedError

    @classmethod
    def choices(cls, theory: Theory) -> dict[str, tuple[tuple[str, ...], str, str]]:
        """What `names` may be, what it is if nothing is said, and what it means."""
        what = f"what is sampled: {', '.join(f'{t.name} ({t.title})' for t in registry.all_theories())}"
        return {"target": (registry.names(), theory.name, what)}

    @classmethod
    def given(cls, arguments: list[str]) -> dict[str, Any]:
        """The settings of --config: the defaults that other options override; names are looked at first."""
        file = value_of("--config", arguments)
        table = {} if file is None else read_table(Path(file))
        named = {name: value_of(f"--{name}", arguments) for name in cls.names}
        return table | {name: value for name, value in named.items() if value is not None}

    @classmethod
    def specialised(cls, arguments: list[str]) -> tuple[type[Any], Any]:
        """The class with all options, and a command that holds the defaults of the theory and network asked for."""
        table = cls.given(arguments)
        theory = theory_of(table)
        fields: list[Any] = []
        values: dict[str, Any] = {}
        for name, (known, default, meaning) in cls.choices(theory).items():
            if isinstance(given := table.get(name), str) and given not in known:
                raise UserError(f"There is no {name} '{given}': there are {', '.join(known)}.")
            values[name] = table.get(name) or default
            hint = Annotated[Literal[known], tyro.conf.arg(help=meaning)]  # type: ignore[valid-type]
            fields.append((name, hint, dataclasses.field(default=values[name])))
        for name, kind in cls.parts(theory, table).items():
            values[name + _SUFFIX] = picked(kind, table)
            fields.append((name + _SUFFIX, Annotated[kind, tyro.conf.arg(name="")], dataclasses.field()))
        made = dataclasses.make_dataclass(cls.__name__, fields, bases=(cls,), frozen=True, kw_only=True)
        made.__doc__ = cls.__doc__
        return made, made(**values)

    def table(self) -> dict[str, Any]:
        """All settings of the plan in one flat table, and those of the file that no option stands for."""
        parts = [getattr(self, field.name) for field in dataclasses.fields(self) if field.name.endswith(_SUFFIX)]
        names = {name: getattr(self, name) for name in self.names}
        rest = {} if self.config is None else read_table(self.config)
        return rest | merged(names, *parts)


def value_of(option: str, arguments: list[str]) -> str | None:
    """What follows an option, before the command line is parsed as a whole."""
    for index, argument in enumerate(arguments):
        if argument == option and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith(option + "="):
            return argument.removeprefix(option + "=")
    return None
