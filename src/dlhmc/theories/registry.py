"""All theories by name: those of the package, and those that other packages offer. Free of heavy imports."""

import functools
import importlib
import importlib.metadata
from pathlib import Path

from dlhmc.errors import Setting, UserError
from dlhmc.settings import advice, shown
from dlhmc.theories import BUILT_IN
from dlhmc.theories.contract import FileFormat, StoredConfiguration, TargetSettings, Theory

GROUP = "dlhmc.theories"
_registered: dict[str, Theory] = {}


def register(theory: Theory) -> None:
    """Make a theory known to this process; a package does so with an entry point."""
    _registered[theory.name] = theory


def unregister(name: str) -> None:
    """Forget a theory that `register` has made known."""
    _registered.pop(name, None)


def names() -> tuple[str, ...]:
    """All theories."""
    return tuple(dict.fromkeys((*BUILT_IN, *_registered, *_offered())))


@functools.cache
def _offered() -> dict[str, str]:
    """What other packages offer, and where it is: found once, whatever names a file may ask for."""
    return {point.name: point.value for point in importlib.metadata.entry_points(group=GROUP)}


def theory(name: object) -> Theory:
    """The theory of that name."""
    if not isinstance(name, str) or name not in names():
        raise UserError(f"There is no theory {name!r}: {advice(str(name), names())}")
    if name not in _registered:
        module, _, attribute = (_offered() | BUILT_IN)[name].partition(":")
        try:
            _registered[name] = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise UserError(f"The theory {name} cannot be loaded from {module}: {error}.") from None
    return _registered[name]


def all_theories() -> list[Theory]:
    """Every theory there is."""
    return [theory(name) for name in names()]


def formats() -> dict[str, FileFormat]:
    """All formats of files in which configurations are exchanged, by name."""
    from dlhmc.theories.gauge.files import formats as of_lattices

    return dict(of_lattices())


def format_of(path: Path) -> FileFormat | None:
    """The format of a file that holds a configuration, told by its first bytes; None for other files."""
    if not path.is_file():  # a pipe may never say anything
        return None
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None
    return next((form for form in formats().values() if form.recognises(head)), None)


def read_configuration(path: Path, form: FileFormat) -> tuple[TargetSettings, StoredConfiguration]:
    """The configuration in a file, and settings of its target: what it does not tell, such as couplings, by default."""
    stored = form.read(path)
    settings = None
    if stored.theory in names():
        settings = theory(stored.theory).settings.of_shape((1, *stored.x.shape), {})
    if settings is None:
        raise UserError(f"{path} holds a configuration of {stored.theory}, which is none of {', '.join(names())}.")
    return settings, stored


def told_by(settings: TargetSettings) -> str:
    """What a configuration tells of its target, in words."""
    told = (f"{Setting(name)} {shown(getattr(settings, name))}" for name in settings.told_by_shape)
    return " ".join([settings.theory, *told])
