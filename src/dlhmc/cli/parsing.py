"""From the words of a command line to a command with its settings."""

import difflib
from collections.abc import Iterable
from typing import Any

import tyro

from dlhmc.cli.completion import options_of
from dlhmc.errors import UserError
from dlhmc.plans.tables import out_of_place, owners_of


def parse(name: str, options: type[Any], arguments: list[str]) -> Any:
    """The command with its options; a word that is none is answered with the one that was probably meant."""
    default: Any = tyro.MISSING_NONPROP
    # Which options there are, and their defaults, may depend on words such as --target.
    if (specialised := getattr(options, "specialised", None)) is not None:
        options, default = specialised(arguments)
    known = options_of(options)
    for argument in arguments:
        option = argument.partition("=")[0].replace("_", "-")
        if option.startswith("--") and option not in known and option != "--help":
            if owners := owners_of(name_of(option)):
                raise out_of_place(name_of(option), owners)
            see = f"dlhmc {name} --help"
            raise UserError(f"There is no option '{argument}' of 'dlhmc {name}': {advice(option, known, see)}")
    config = (tyro.conf.DisallowNone, tyro.conf.PositionalMetavarFromFieldName)
    return tyro.cli(options, prog=f"dlhmc {name}", args=arguments, default=default, config=config)


def name_of(option: str) -> str:
    """The setting that an option stands for."""
    return option.removeprefix("--").removeprefix("no-").replace("-", "_")


def advice(word: str, known: Iterable[str], see: str) -> str:
    """What was probably meant, or where to look."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"see '{see}'."
