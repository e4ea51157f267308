"""Settings: frozen dataclasses in which name, meaning, default, limits and checks of a setting stand together.

The limits of a field are part of its type, such as `Annotated[int, Meta(ge=1)]`; they hold whether a value comes from
Python, from the command line or from a file of a stranger. The command line and TOML files hold several such classes in
one flat table: those of a theory, of an architecture, of a run.
"""

import dataclasses
import difflib
import functools
import operator
import tomllib
import types
import typing
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
import tomli_w
from msgspec import Meta

from dlhmc.errors import Setting, UserError
from dlhmc.files import read_text

T = TypeVar("T")
S = TypeVar("S", bound="Settings")


@dataclasses.dataclass(frozen=True)
class Listed:
    """Where the help of the command line lists a setting, if not where its class is."""

    section: str = ""
    #: in the long help alone
    advanced: bool = False
    #: what each of a few values means
    choices: tuple[tuple[str, str], ...] = ()


#: marks of fields: `Advanced[int]`
Advanced = Annotated[T, Listed(advanced=True)]
OfMachine = Annotated[T, Listed("machine")]
What = Annotated[T, Listed("what")]
HowMuch = Annotated[T, Listed("how much")]
# Trajectories and steps are counted in 32 bits.
MOST = 10**9

Count = Annotated[int, Meta(ge=1, le=MOST)]
Amount = Annotated[int, Meta(ge=0, le=MOST)]
#: far more chains than any machine could hold
Chains = Annotated[int, Meta(ge=1, le=10**7)]
Seed = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Positive = Annotated[float, Meta(gt=0, le=1e300)]
#: between 0 and 1, both excluded
Probability = Annotated[float, Meta(gt=0, lt=1)]
Sizes = tuple[Annotated[int, Meta(ge=1, le=10**6)], ...]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base class: every value is checked against the type of its field."""

    #: of the help that lists them
    section: ClassVar[str] = "options"

    def __post_init__(self) -> None:
        """Refuse values of another type or beyond their limits, with one sentence."""
        for name, hint in hints_of(type(self)).items():
            value = getattr(self, name)
            object.__setattr__(self, name, checked(name, value, hint))

    def require(self, good: bool, name: str, wanted: str) -> None:
        """Refuse a value with one sentence; for limits that no type can say."""
        if not good:
            raise UserError(f"{Setting(name)} is {shown(getattr(self, name))}, but must be {wanted}.")


def hints_of(kind: type[Any]) -> dict[str, Any]:
    """The types of the fields, with their limits and without what only the command line needs."""
    return _hints(typing.cast(Hashable, kind))


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: plain(hints[field.name]) for field in dataclasses.fields(kind)}


def advanced_defaults(kind: type[Any]) -> dict[str, Any]:
    """Fields that only the long help lists, with their defaults."""
    hints = typing.get_type_hints(kind, include_extras=True)
    marks = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    fields = (field for field in dataclasses.fields(kind) if Listed(advanced=True) in marks[field.name])
    return {field.name: field.default for field in fields}


def plain(hint: Any) -> Any:
    """A type without annotations other than limits."""
    if typing.get_origin(hint) is Annotated:
        inner, *marks = typing.get_args(hint)
        limits = [mark for mark in marks if isinstance(mark, Meta)]
        return Annotated[plain(inner), limits[0]] if limits else plain(inner)
    if typing.get_origin(hint) in (types.UnionType, typing.Union) and str in typing.get_args(hint):
        # Names and any other text: the names are for shells that complete them.
        parts = [part for part in typing.get_args(hint) if typing.get_origin(part) is not Literal]
        return functools.reduce(operator.or_, parts)
    return hint


def checked(name: str, value: object, hint: Any) -> Any:
    """The value of a setting of this type; UserError, in the same words everywhere, where it does not fit."""
    value = value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value
    try:
        return msgspec.convert(value, hint, strict=True)
    except (msgspec.ValidationError, OverflowError, ValueError):
        raise UserError(f"{Setting(name)} is {shown(value)}, but must be {in_words(hint)}.") from None


def shown(value: object) -> str:
    """A value in a sentence."""
    if isinstance(value, tuple | list):
        text = " ".join(map(shown, value)) or "nothing"
    else:
        text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) < 100 else f"{text[:100]}…"


def in_words(hint: Any) -> str:
    """What a value must be.

    >>> in_words(Count), in_words(tuple[float, ...]), in_words(Literal["hot", "cold"])
    ('a whole number from 1 to 1000000000', 'a list of numbers', 'hot or cold')
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _with_limits(in_words(arguments[0]), arguments[1])
    if origin in (types.UnionType, typing.Union):
        return " or ".join(in_words(part) for part in arguments if part is not types.NoneType)
    if origin is Literal:
        *others, last = map(str, arguments)
        return f"{', '.join(others)} or {last}" if others else last
    if origin is tuple:
        part = in_words(arguments[0]).removeprefix("a ")
        part = part.replace("number", "numbers", 1).replace("text", "texts", 1)
        if arguments[-1] is ...:
            return f"a list of {part}"
        return f"{len(arguments)} {part}"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}.get(hint, str(hint))


def _with_limits(what: str, limits: Meta) -> str:
    low = limits.ge if limits.ge is not None else limits.gt
    high = limits.le if limits.le is not None else limits.lt
    if limits.min_length is not None and limits.max_length is not None:
        return f"{what}, {limits.min_length} to {limits.max_length} of them"
    if limits.min_length is not None:
        return f"{what}, at least {limits.min_length}"
    unlimited = high is None or high >= 1e300
    if low == 0 and limits.gt is not None and unlimited:
        return f"{what} above 0"
    if limits.ge is not None and limits.le is not None:
        return f"{what} from {low:.15g} to {high:.15g}"
    parts = [] if low is None else [f"{'above' if limits.gt is not None else 'at least'} {low:.15g}"]
    if not unlimited:
        parts.append(f"{'below' if limits.lt is not None else 'at most'} {high:.15g}")
    return f"{what} {' and '.join(parts)}" if parts else what


# Several settings in one flat table.


def merged(*parts: Settings | Mapping[str, Any]) -> dict[str, Any]:
    """All values by name."""
    table: dict[str, Any] = {}
    for part in parts:
        table |= part if isinstance(part, Mapping) else dataclasses.asdict(part)
    return table


def read_table(path: Path) -> dict[str, Any]:
    """A TOML file; keys may be spelled with hyphens."""
    try:
        table = tomllib.loads(read_text(path).decode())
    except FileNotFoundError:
        raise UserError(f"There is no configuration file {path}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"The configuration {path} cannot be read: {error}.") from None
    return {key.replace("-", "_"): value for key, value in table.items()}


def require_known(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse a key that nobody asks for, with the one that was probably meant."""
    known = list(known)
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            advice = f"did you mean '{close[0]}'?" if close else f"known keys: {', '.join(known)}."
            raise UserError(f"{where} has an unknown key '{key}': {advice}")


def picked(kind: type[S], table: Mapping[str, Any]) -> S:
    """The settings of one class from a table that may hold those of others, too."""
    names = hints_of(kind).keys() & table.keys()
    return kind(**{name: table[name] for name in names})


def to_toml(table: Mapping[str, Any]) -> str:
    """A table as TOML that `read_table` gives back; what is not given is left out."""
    return tomli_w.dumps({name: value for name, value in table.items() if value is not None})


def converted(table: object, kind: type[T], what: str) -> T:
    """A table of a file, which may be a stranger's, as a dataclass; UserError for whatever does not fit."""
    try:
        return msgspec.convert(table, kind, strict=True)
    except (msgspec.ValidationError, OverflowError, ValueError) as error:
        raise UserError(f"{what} is damaged or of another version of dlhmc: {error}.") from None
