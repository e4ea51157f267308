"""Settings: frozen dataclasses in which name, meaning, default, limits and checks of a setting stand together.

The limits of a field are part of its type, such as `Annotated[int, Meta(ge=1)]`; they hold whether a value comes from
Python, from the command line or from a file of a stranger. A specification of a run is made of several such classes,
each a table of its TOML file.
"""

import ast
import dataclasses
import difflib
import functools
import inspect
import itertools
import operator
import textwrap
import tomllib
import types
import typing
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
import tomli_w
from msgspec import Meta

from dlhmc.errors import Setting, UserError
from dlhmc.files import read_text

T = TypeVar("T")
S = TypeVar("S", bound="Settings")


@dataclasses.dataclass(frozen=True)
class Listed:
    """Where the help of the command line lists a setting."""

    #: in the long help alone
    advanced: bool = False
    #: for theories with this ability alone
    ability: str = ""
    #: a word, not an option
    positional: bool = False


#: marks of fields: `Advanced[int]`
Advanced = Annotated[T, Listed(advanced=True)]
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


class Field(NamedTuple):
    """A setting."""

    name: str
    #: the type with its limits
    hint: Any
    meaning: str
    default: Any
    listed: Listed


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base class: every value is checked against the type of its field."""

    def __post_init__(self) -> None:
        """Refuse values of another type or beyond their limits, with one sentence."""
        for field in fields_of(type(self)):
            object.__setattr__(self, field.name, checked(field.name, getattr(self, field.name), field.hint))

    def require(self, good: bool, name: str, wanted: str) -> None:
        """Refuse a value with one sentence; for limits that no type can say."""
        if not good:
            raise UserError(f"{Setting(name)} is {shown(getattr(self, name))}, but must be {wanted}.")


def fields_of(kind: type[Any]) -> tuple[Field, ...]:
    """All settings of a class."""
    return _fields_of(typing.cast(Hashable, kind))


@functools.cache
def _fields_of(kind: Any) -> tuple[Field, ...]:
    hints = typing.get_type_hints(kind, include_extras=True)
    meanings: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        meanings |= _docstrings(base)

    def field(one: "dataclasses.Field[Any]") -> Field:
        marks = getattr(hints[one.name], "__metadata__", ())
        listed = [mark for mark in marks if isinstance(mark, Listed)]
        return Field(one.name, plain(hints[one.name]), meanings.get(one.name, ""), one.default, *(listed or [Listed()]))

    return tuple(field(one) for one in dataclasses.fields(kind))


def _docstrings(kind: type[Any]) -> dict[str, str]:
    """What stands below each field of a dataclass."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    except (OSError, TypeError):  # made at run time
        return {}
    return {
        ast.unparse(field.target): str(below.value.value)
        for field, below in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }


def plain(hint: Any) -> Any:
    """A type without annotations other than limits."""
    if typing.get_origin(hint) is Annotated:
        inner, *marks = typing.get_args(hint)
        limits = [mark for mark in marks if isinstance(mark, Meta)]
        return Annotated[plain(inner), limits[0]] if limits else plain(inner)
    if typing.get_origin(hint) in (types.UnionType, typing.Union) and str in typing.get_args(hint):
        # Names and any other text: the names are for readers.
        parts = [part for part in typing.get_args(hint) if typing.get_origin(part) is not Literal]
        return functools.reduce(operator.or_, parts)
    return hint


def checked(name: str, value: object, hint: Any, *, text: bool = False) -> Any:
    """The value of a setting of this type; UserError, in the same words everywhere, where it does not fit.

    From the command line values come as text.
    """
    value = value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value
    try:
        return msgspec.convert(value, hint, strict=not text)
    except (msgspec.ValidationError, OverflowError, ValueError):
        said = " ".join([value] if isinstance(value, str) else value) if text else shown(value)  # type: ignore[arg-type]
        advice = _correction(said) if text else ""
        raise UserError(f"{Setting(name)} is {said}, but must be {in_words(hint)}{advice}.") from None


def _correction(text: str) -> str:
    """What to write in place of 1,5."""
    try:
        return f": write {float(text.replace(',', '.')):g}" if "," in text else ""
    except ValueError:
        return ""


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
        return f"a list of {part}" if arguments[-1] is ... else f"{len(arguments)} {part}"
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


def build(kind: type[S], table: Mapping[str, Any], where: str) -> S:
    """Settings from a table; a key that they do not have is refused with the one that was probably meant."""
    require_known(table, [field.name for field in fields_of(kind)], where)
    return kind(**table)


def require_known(table: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse a key that nobody asks for, with the one that was probably meant."""
    for key in table:
        if key not in (known := list(known)):
            raise UserError(f"{where} has an unknown key '{key}': {advice(key, known)}")


def advice(word: str, known: Iterable[str]) -> str:
    """What was probably meant, or what there is."""
    close = difflib.get_close_matches(word, known := list(known), n=1)
    return f"did you mean '{close[0]}'?" if close else f"there {'are' if known[1:] else 'is'} {', '.join(known)}."


def read_table(path: Path) -> dict[str, Any]:
    """A TOML file."""
    try:
        return tomllib.loads(read_text(path).decode())
    except FileNotFoundError:
        raise UserError(f"There is no configuration file {path}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"The configuration {path} cannot be read: {error}.") from None


def to_toml(table: Mapping[str, Any]) -> str:
    """A table as TOML that `read_table` gives back; what is not given is left out."""

    def given(table: Mapping[str, Any]) -> dict[str, Any]:
        return {k: given(v) if isinstance(v, Mapping) else v for k, v in table.items() if v is not None}

    return tomli_w.dumps(given(table))


def converted(table: object, kind: type[T], what: str) -> T:
    """A table of a file, which may be a stranger's, as a dataclass; UserError for whatever does not fit."""
    try:
        return msgspec.convert(table, kind, strict=True)
    except (msgspec.ValidationError, OverflowError, ValueError) as error:
        raise UserError(f"{what} is damaged or of another version of dlhmc: {error}.") from None
