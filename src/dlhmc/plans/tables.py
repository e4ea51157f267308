"""Flat tables that hold the settings of several classes."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dlhmc.errors import Setting, UserError
from dlhmc.settings import Settings, hints_of, require_known
from dlhmc.theories import registry
from dlhmc.theories.contract import Theory


def theory_of(table: Mapping[str, Any]) -> Theory:
    """The theory that a table names, or the default one."""
    name = table.get("target", registry.default())
    if not isinstance(name, str):
        raise UserError(f"{Setting('target')} is {name!r}, but must be one of {', '.join(registry.names())}.")
    return registry.theory(name)


def require_in_place(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Refuse a key that is not known, unless it says nothing.

    Settings of another network or theory say nothing where they have their default values, as files of all settings do.
    """
    for key, value in table.items():
        if key in known:
            continue
        owners = owners_of(key)
        if not owners:
            require_known({key: value}, known, where)
        if not any(_is_default(kind, key, value) for kind in owners.values()):
            raise out_of_place(key, owners)


class Owner(NamedTuple):
    """Whom a setting is for: a network, or a target in what is done with it."""

    kind: str
    what: str
    name: str


def out_of_place(key: str, owners: Iterable[Owner]) -> UserError:
    """What to say of a setting that would be ignored."""
    groups: dict[tuple[str, str], list[str]] = {}
    for kind, what, name in owners:
        groups.setdefault((kind, what), []).append(name)
    parts = [
        f"the {kind}{'s' if len(names) > 1 else ''} {', '.join(names)}{what}" for (kind, what), names in groups.items()
    ]
    return UserError(f"{Setting(key)} is for {' and '.join(parts)}, not for this run: leave it out.")


def owners_of(key: str) -> dict[Owner, type[Settings]]:
    """Whom a setting is for, and the class that has it: theories and networks."""
    architectures = registry.architectures().items()
    found: dict[Owner, type[Settings]] = {Owner("network", "", name): kind for name, kind in architectures}
    for theory in registry.all_theories():
        kinds = {
            "": theory.settings,
            " in sampling": theory.moves,
            " in measuring": theory.occasional,
            " in training": theory.schedules,
        }
        found |= {Owner("target", what, theory.name): kind for what, kind in kinds.items()}
    return {owner: kind for owner, kind in found.items() if key in hints_of(kind)}


def _is_default(kind: type[Settings], name: str, value: object) -> bool:
    default = getattr(kind(), name)
    return value == default or (isinstance(default, tuple) and isinstance(value, list) and tuple(value) == default)


def absolute(model: str | None) -> str | None:
    """A model by a name that means the same in every directory."""
    return model if model is None or not Path(model).exists() else str(Path(model).resolve())
