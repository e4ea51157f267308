"""The options of a command, as its dataclass tells them: for help, for shells and for messages."""

import ast
import dataclasses
import functools
import inspect
import itertools
import textwrap
import types
import typing
from typing import Any, Literal, NamedTuple

import tyro

from dlhmc.settings import Listed, Settings, plain

_POSITIONAL = typing.get_args(tyro.conf.Positional[int])[1]


class Option(NamedTuple):
    """One option."""

    #: all spellings
    names: tuple[str, ...]
    #: what values must be: the type with its limits
    hint: Any
    meaning: str
    #: what it is if not given; None, False and () for nothing
    default: Any
    section: str
    #: left out of the short help
    advanced: bool
    positional: bool
    #: the values it may take, if they are few, each with a meaning, which may be empty
    choices: dict[str, str]

    @property
    def is_switch(self) -> bool:
        """Whether no value follows."""
        return self.hint is bool


def options_of(command: type[Any], default: Any = None) -> list[Option]:
    """The options of a command that is a dataclass; `default` is an instance that holds other defaults than the fields.

    >>> @dataclasses.dataclass
    ... class Greet:
    ...     warmly: bool = False
    ...     tongue: Literal["english", "latin"] = "english"
    >>> [(*option.names, *option.choices) for option in options_of(Greet)]
    [('--warmly', '--no-warmly'), ('--tongue', 'english', 'latin')]
    """
    found: list[tuple[int, Option]] = []
    hints = typing.get_type_hints(command, include_extras=True)
    for field in dataclasses.fields(command):
        marks, hint = unwrap(hints[field.name])
        value = getattr(default, field.name, field.default)
        if dataclasses.is_dataclass(hint):
            found += [(0, option) for option in options_of(typing.cast(type[Any], hint), value)]
            continue
        home = next(base for base in command.__mro__ if field.name in inspect.get_annotations(base))
        listed = [mark for mark in marks if isinstance(mark, Listed)]
        said = [text for mark in marks if (text := getattr(mark, "help", None))]
        name = f"--{field.name.replace('_', '-')}"
        aliases = [alias for mark in marks for alias in getattr(mark, "aliases", None) or ()]
        pair = [f"--no-{name[2:]}"] if hint is bool and tyro.conf.FlagCreatePairsOff not in marks else []
        sections = [mark.section for mark in listed if mark.section]
        meanings = {name: text for mark in listed for name, text in mark.choices}
        option = Option(
            (name, *aliases, *pair),
            bool if hint is bool else plain(hints[field.name]),
            said[0] if said else _docstrings(home).get(field.name, ""),
            None if value is dataclasses.MISSING else value,
            sections[0] if sections else getattr(home, "section", Settings.section),
            any(mark.advanced for mark in listed),
            _POSITIONAL in marks,
            meanings or dict.fromkeys(_choices(hint), ""),
        )
        found.append((command.__mro__.index(home), option))
    # What many commands have comes last.
    return [option for _, option in sorted(found, key=lambda item: item[0])]


@functools.cache
def _docstrings(kind: type[Any]) -> dict[str, str]:
    """What stands below each field of a dataclass."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError):  # made at run time
        return {}
    found = {}
    body = getattr(tree, "body", [])
    for field, below in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[ast.unparse(field.target)] = str(below.value.value)
    return found


def unwrap(hint: Any) -> tuple[tuple[Any, ...], Any]:
    """What is marked about a type, and the type, which may be absent."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, *marks = typing.get_args(hint)
        more, inner = unwrap(inner)
        return (*marks, *more), inner
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return unwrap(next(part for part in typing.get_args(hint) if part is not types.NoneType))
    return (), hint


def _choices(hint: Any) -> tuple[str, ...]:
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return _choices(typing.get_args(hint)[0])
    return ()
