"""From the words of a command line to a command with its settings."""

import difflib
import sys
import typing
from collections.abc import Iterable, Sequence
from typing import Any

import tyro

from dlhmc.cli.completion import spellings
from dlhmc.cli.help import help_text
from dlhmc.cli.listing import Option, options_of, unwrap
from dlhmc.errors import ExitCode, Setting, UserError
from dlhmc.plans.tables import out_of_place, owners_of
from dlhmc.settings import in_words, shown


def parse(name: str, options: type[Any], arguments: list[str]) -> Any:
    """The command with its options; whatever does not fit is answered with one sentence, and --help with the help."""
    default: Any = tyro.MISSING_NONPROP
    # Which options there are, and their defaults, may depend on words such as --target.
    if (specialised := getattr(options, "specialised", None)) is not None:
        options, default = specialised(arguments)
    known = options_of(options, default)
    if asked := {"-h", "--help", "--help-all"} & set(arguments):
        sys.stdout.write(help_text(name, options.__doc__ or "", known, everything="--help-all" in asked))
        raise SystemExit(ExitCode.OK)
    for place, argument in enumerate(arguments):
        spelled, _, value = argument.partition("=")
        word = spelled.replace("_", "-")
        if not word.startswith("--"):
            continue
        option = next((option for option in known if word in spellings([option])), None)
        if option is None:
            if owners := owners_of(name_of(word)):
                raise out_of_place(name_of(word), owners)
            see = f"dlhmc {name} --help"
            raise UserError(f"There is no option '{argument}' of 'dlhmc {name}': {advice(word, spellings(known), see)}")
        if not option.is_switch:
            _require_readable(option, name_of(word), [value] if value else _values(arguments[place + 1 :]))
    config = (tyro.conf.DisallowNone, tyro.conf.PositionalMetavarFromFieldName)
    return tyro.cli(options, prog=f"dlhmc {name}", args=arguments, default=default, config=config)


def _values(following: Sequence[str]) -> list[str]:
    """The words up to the next option."""
    end = next((place for place, word in enumerate(following) if word.startswith("--")), len(following))
    return list(following[:end])


def _require_readable(option: Option, name: str, words: Sequence[str]) -> None:
    """Refuse values that cannot be read; limits are for the settings themselves."""
    _, kind = unwrap(option.hint)
    number, fewest = 1, 1
    if typing.get_origin(kind) is tuple:
        parts = typing.get_args(kind)
        _, kind = unwrap(parts[0])
        number, fewest = len(words), 0 if parts[-1] is ... else len(parts)
    must = f"but must be {in_words(option.hint)}"
    if len(words) < fewest:
        raise UserError(f"{Setting(name)} {f'is {shown(list(words))}' if words else 'has no value'}, {must}.")
    for word in words[:number] if kind in (int, float) else ():
        try:
            kind(word)
        except ValueError:
            raise UserError(f"{Setting(name)} is {shown(word)}, {must}{_correction(word)}.") from None


def _correction(word: str) -> str:
    """What to write in place of 1e3, 2.0 or 1,5."""
    try:
        number = float(word.replace(",", "."))
    except ValueError:
        return ""
    return f": write {number:.0f}" if number.is_integer() else f": write {number:g}" if "," in word else ""


def name_of(option: str) -> str:
    """The setting that an option stands for."""
    return option.removeprefix("--").removeprefix("no-").replace("-", "_")


def advice(word: str, known: Iterable[str], see: str) -> str:
    """What was probably meant, or where to look."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"see '{see}'."
