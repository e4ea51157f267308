"""From the words of a command line to settings: the first words choose a leaf of a tree, the rest are its options.

Options are the fields of settings. Values come as text, and are checked as those of files and of Python are.
"""

import dataclasses
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, TypedDict

import tyro
from tyro import _errors as failures

from dlhmc import __version__
from dlhmc.errors import Setting, UserError
from dlhmc.settings import Field, Settings, advice, checked, fields_of, in_words

Given = dict[str, Any]


class Leaf(NamedTuple):
    """What words have chosen: options in tables, and what to do with those that are given, by name."""

    words: str
    purpose: str
    tables: Mapping[str, Sequence[Field]]
    #: takes options of the specification, then those of the command itself
    act: Callable[[Given, Any], int]
    #: options of the command itself
    own: type[Settings]

    def fields(self) -> dict[str, Field]:
        """All options by name."""
        found = {field.name: field for fields in self.tables.values() for field in fields}
        return found | {field.name: field for field in fields_of(self.own)}


class Word(NamedTuple):
    """What a word of a command line can be."""

    what: str
    names: Callable[[], Sequence[str]]
    meaning: Callable[[str], str]


class Command(NamedTuple):
    """A command: what it does in a few words, and leaves or names of what can be said next."""

    group: str
    purpose: str
    #: what the next words are
    words: Sequence["Word"]
    #: from these words to a leaf
    leaf: Callable[..., Leaf]


def overview(commands: Mapping[str, Command], arguments: Sequence[str]) -> str:
    """What `dlhmc --help` and `dlhmc --version` print."""
    if arguments and arguments[0] in ("-V", "--version"):
        return f"dlhmc {__version__}\n"
    lines = ["usage: dlhmc COMMAND …", "Deep Learning Hamiltonian Monte Carlo for lattice gauge theory.", ""]
    for group in dict.fromkeys(command.group for command in commands.values()):
        members = [(name, command) for name, command in commands.items() if command.group == group]
        lines += [f"{group}:", *(f"  {name:<11}{command.purpose}" for name, command in members), ""]
    return "\n".join([*lines, "'dlhmc COMMAND --help' tells what comes next.", ""])


def find_leaf(commands: Mapping[str, Command], arguments: Sequence[str]) -> tuple[Leaf | None, list[str]]:
    """The leaf that the first words name, and the other words; None where help was asked for on the way."""
    name, rest = arguments[0], list(arguments[1:])
    if name not in commands:
        raise UserError(f"There is no command '{name}': {advice(name, commands)}")
    command, said = commands[name], [name]
    for what, names, meaning in command.words:
        if not rest or rest[0].startswith("-"):
            if {"-h", "--help", "--help-all"} & {*rest}:
                choices = {name: meaning(name) for name in names()}
                sys.stdout.write(_choices(said, command.purpose, what, choices))
                return None, []
            raise UserError(f"Say which {what}: 'dlhmc {' '.join(said)} {what.upper()}', {', '.join(names())}.")
        if rest[0] not in names():
            advised = advice(rest[0], names())
            raise UserError(f"There is no {what} '{rest[0]}' for 'dlhmc {' '.join(said)}': {advised}")
        said.append(rest.pop(0))
    return command.leaf(*said[1:]), rest


def _choices(said: Sequence[str], purpose: str, what: str, choices: Mapping[str, str]) -> str:
    width = max(map(len, choices)) + 2
    lines = [f"usage: dlhmc {' '.join(said)} {what.upper()} …", f"{purpose[0].upper()}{purpose[1:]}.", "", f"{what}:"]
    lines += [f"  {name:<{width}}{meaning}" for name, meaning in choices.items()]
    return "\n".join([*lines, "", f"'dlhmc {' '.join(said)} {what.upper()} --help' tells what comes next.", ""])


def parse(leaf: Leaf, arguments: Sequence[str]) -> tuple[Given, Any]:
    """The options of the specification that are given, and those of the command; --help ends here."""
    words = ["--help" if word == "--help-all" else word for word in arguments]
    common = bool({"-h", "--help"} & {*arguments})
    known = leaf.fields()

    def refuse(event: failures.ParseErrorEvent) -> NoReturn:
        raise _sentence(event, leaf, known)

    with failures.on_parse_error(refuse):
        kind, off = schema(leaf, common=common)
        tables = tyro.cli(kind, prog=f"dlhmc {leaf.words}", args=words, default=off, config=CONFIG)
    given = {name: value for table in tables.values() for name, value in table.items() if value is not False}
    given |= {name: False for name in known if f"--no-{name.replace('_', '-')}" in words}
    given = {name: checked(name, value, known[name].hint, text=True) for name, value in given.items()}
    for field in fields_of(leaf.own):
        if field.default is dataclasses.MISSING and field.name not in given:
            needed = field.name.upper() if field.listed.positional else Setting(field.name)
            raise UserError(f"'dlhmc {leaf.words}' needs {needed}: {field.meaning}.")
    own = {field.name: given.pop(field.name) for field in fields_of(leaf.own) if field.name in given}
    return given, leaf.own(**own)


#: of the help that list the options of a table, where they are called otherwise
_SECTIONS = {"amounts": "run", "machine": "run", "own": "run"}
CONFIG = (tyro.conf.OmitArgPrefixes, tyro.conf.PositionalMetavarFromFieldName, tyro.conf.OmitSubcommandPrefixes)


def schema(leaf: Leaf, *, common: bool) -> tuple[Any, dict[str, Given]]:
    """The options as a type for the parser, dictionaries of those that are given, and switches that are off.

    The common ones, or all.
    """
    sections: dict[str, dict[str, Any]] = {}
    off: dict[str, Given] = {}
    hidden = 0
    for table, fields in {**leaf.tables, "own": fields_of(leaf.own)}.items():
        for field in fields:
            if common and field.listed.advanced:
                hidden += 1
            else:
                section = _SECTIONS.get(table, table)
                sections.setdefault(section, {})[field.name] = _option(field)
                off.setdefault(section, {}).update({field.name: False} if _is_switch(field) else {})
    made = _dictionary("Options", {name: _dictionary(name, options) for name, options in sections.items()})
    made.__doc__ = leaf.purpose + (f"\n--help-all lists {hidden} more options." if hidden else "")
    return made, off


def _dictionary(name: str, types: Mapping[str, Any]) -> Any:
    """A type of dictionaries in which keys may be missing."""
    make: Any = TypedDict
    return make(name, dict(types), total=False)


def _is_switch(field: Field) -> bool:
    return field.hint is bool and field.default is False


def _option(field: Field) -> Any:
    """The type that the parser sees: texts, but for switches and a few words."""
    hint, many = _bare(field.hint)
    default = None if field.default in (None, False, (), dataclasses.MISSING) else field.default
    word = None if hint is bool or field.listed.positional else _metavar(field.hint)
    about: dict[str, Any] = {"help": field.meaning, "metavar": word}
    about["help_behavior_hint"] = "" if default is None else f"({_shown(default)})"
    if hint is bool:
        if _is_switch(field):
            return Annotated[(bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(**about))]
        return Annotated[(bool, tyro.conf.arg(**about))]
    parsed: Any = hint if typing.get_origin(hint) is Literal else str
    if many:
        parsed = tuple.__class_getitem__((parsed, ...) if many is ... else (parsed,) * many)
    marks = [tyro.conf.Positional] if field.listed.positional else []
    return Annotated[(parsed, *marks, tyro.conf.arg(**about))]


def _bare(hint: Any) -> tuple[Any, Any]:
    """A type without limits and None; how many values there are, … for any number."""
    while typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    if typing.get_origin(hint) is tuple:
        return _bare(parts[0])[0], ... if parts[-1] is ... else len(parts)
    if parts and typing.get_origin(hint) is not Literal:
        return _bare(parts[0]) if len(parts) == 1 else (str, 0)
    return hint, 0


def _metavar(hint: Any) -> str:
    bare, many = _bare(hint)
    if typing.get_origin(bare) is Literal:
        return "NAME"
    word = {int: "N", float: "X"}.get(bare, "TEXT")
    return f"{word} …" if many is ... else " ".join([word] * (many or 1))


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _sentence(event: failures.ParseErrorEvent, leaf: Leaf, known: Mapping[str, Field]) -> UserError:
    """What is wrong, in one sentence."""
    if isinstance(event, failures.UnrecognizedArgs):
        word = event.tokens[0].partition("=")[0]
        if not word.startswith("-"):
            return UserError(f"'dlhmc {leaf.words}' does not take '{word}'; see 'dlhmc {leaf.words} --help'.")
        spelled = [f"--{name.replace('_', '-')}" for name, field in known.items() if not field.listed.positional]
        close = advice(word.replace("_", "-"), spelled)
        hint = close if close.startswith("did") else f"see 'dlhmc {leaf.words} --help'."
        return UserError(f"There is no option '{word}' of 'dlhmc {leaf.words}': {hint}")
    if isinstance(event, failures.BadValue | failures.InvalidChoice):
        name = event.argument.field.intern_name
        value = getattr(event, "value", None)
        what = "has no value" if value is None else f"is {value!r}"
        return UserError(f"{Setting(name)} {what}, but must be {in_words(known[name].hint)}.")
    if isinstance(event, failures.MissingArgs):
        missing = ", ".join(one.arg.field.intern_name.upper() for one in event.missing_arguments)
        return UserError(f"'dlhmc {leaf.words}' needs {missing}.")
    return UserError(f"'dlhmc {leaf.words}' was not understood: see 'dlhmc {leaf.words} --help'.")


def completion_script(commands: Mapping[str, Command], shell: str) -> None:
    """Print the parser's own script for a shell: all words and options."""
    tree = _branch({name: _subtree(command, command.words, ()) for name, command in commands.items()})
    tyro.cli(tree, prog="dlhmc", args=["--tyro-print-completion", shell], config=CONFIG)


def _subtree(command: Command, words: Sequence[Any], said: tuple[str, ...]) -> Any:
    if not words:
        return schema(command.leaf(*said), common=False)[0]
    return _branch({name: _subtree(command, words[1:], (*said, name)) for name in words[0].names()})


def _branch(choices: Mapping[str, Any]) -> Any:
    parts = tuple(Annotated[(kind, tyro.conf.subcommand(name))] for name, kind in choices.items())
    make: Any = TypedDict
    return make("Branch", {"choice": typing.Union[parts]})  # noqa: UP007
