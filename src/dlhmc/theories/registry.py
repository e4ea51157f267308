"""All theories by name: those of the package, and those that other packages offer. Free of heavy imports."""

import functools
import importlib
import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dlhmc.errors import Setting, UserError
from dlhmc.settings import shown
from dlhmc.theories import BUILT_IN
from dlhmc.theories.contract import FileFormat, NamedLoss, StoredConfiguration, TargetSettings, Theory

if TYPE_CHECKING:
    from dlhmc.models.architecture import Architecture
    from dlhmc.studies.study import Preset
    from dlhmc.targets import Target

GROUP = "dlhmc.theories"
_registered: dict[str, Theory] = {}


def register(theory: Theory) -> None:
    """Make a theory known to this process; a package does so with an entry point."""
    _registered[theory.name] = theory
    names.cache_clear()


def unregister(name: str) -> None:
    """Forget a theory that `register` has made known."""
    _registered.pop(name, None)
    names.cache_clear()


@functools.cache
def names() -> tuple[str, ...]:
    """What `--target` may be."""
    return tuple(dict.fromkeys((*BUILT_IN, *_registered, *_offered())))


@functools.cache
def _offered() -> dict[str, str]:
    """What other packages offer, and where it is: found once, whatever names a file may ask for."""
    return {point.name: point.value for point in importlib.metadata.entry_points(group=GROUP)}


def default() -> str:
    """The theory of a run that names none."""
    return next(iter(BUILT_IN))


def theory(name: str) -> Theory:
    """The theory of that name."""
    if name in _registered:
        return _registered[name]
    places = _offered() | BUILT_IN
    if name in places:
        return _loaded(name, places[name])
    raise UserError(Setting("target"), f" is {name!r}, but must be one of {', '.join(names())}.")


def _loaded(name: str, place: str) -> Theory:
    module, _, attribute = place.partition(":")
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"The theory {name} cannot be loaded from {place}: {error}.") from None
    _registered[name] = found = kind()
    return found


def all_theories() -> list[Theory]:
    """Every theory there is."""
    return [theory(name) for name in names()]


def describe(target: "Target") -> tuple[str, TargetSettings] | None:
    """The name of a target's theory and its settings there; None for targets of one's own."""
    for candidate in all_theories():
        settings = candidate.describe(target)
        if settings is not None:
            return candidate.name, settings
    return None


def architectures() -> "Mapping[str, type[Architecture]]":
    """All layers by name: those made for a theory first, then those that suit every target."""
    from dlhmc.models.dense import DenseArchitecture

    found: dict[str, type[Architecture]] = {}
    for candidate in all_theories():
        found |= candidate.architectures()
    return found | {kind.name: kind for kind in (DenseArchitecture,)}


def architecture(name: str) -> "type[Architecture]":
    """The layers of that name."""
    found = architectures()
    if not isinstance(name, str) or name not in found:
        raise UserError(Setting("network"), f" is {name!r}, but must be one of {', '.join(found)}, or one of your own.")
    return found[name]


def losses() -> Mapping[str, NamedLoss]:
    """All losses by name: those made for a theory first, then those that suit every target."""
    from dlhmc.training.loss import action_loss, jump_loss, leaving_loss

    found: dict[str, NamedLoss] = {}
    for candidate in all_theories():
        found |= candidate.losses()
    leaving = NamedLoss("−√A for what leaves its sector", leaving_loss, _has_smooth_sector)
    everywhere = {
        "jump": NamedLoss("−A·|Δx|²", jump_loss, lambda _: True),
        "action": NamedLoss("−A·(ΔS)²", action_loss, lambda _: True),
    }
    return found | {"leaving": leaving} | everywhere


def _has_smooth_sector(target: "Target") -> bool:
    import jax

    dtype = target.geometry.dtype(jax.numpy.result_type(float))
    x = jax.ShapeDtypeStruct((*target.geometry.shape, 1), dtype)
    return jax.eval_shape(lambda x: target.known.smooth_sector(target, x), x) is not None


def loss_for(target: "Target", name: str | None, preferred: str | None = None) -> tuple[str, NamedLoss]:
    """The loss of that name; without one the preferred if it suits the target, or the first that does."""
    found = losses()
    if name is None:
        order = sorted(found, key=lambda key: key != preferred)
        name = next(key for key in order if found[key].suits(target))
    if name not in found:
        raise UserError(Setting("loss"), f" is {name!r}, but must be one of {', '.join(found)}.")
    if not found[name].suits(target):
        fitting = [key for key, loss in found.items() if loss.suits(target)]
        raise UserError(Setting("loss"), f" {name} is not for this target: use {' or '.join(fitting)}.")
    return name, found[name]


def formats() -> dict[str, FileFormat]:
    """All formats of files in which configurations are exchanged, by name."""
    return {name: form for candidate in all_theories() for name, form in candidate.formats().items()}


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
        settings = theory(stored.theory).from_shape((1, *stored.x.shape), {})
    if settings is None:
        raise UserError(f"{path} holds a configuration of {stored.theory}, which is none of {', '.join(names())}.")
    return settings, stored


def told_by(theory: str, settings: TargetSettings) -> str:
    """What a configuration tells of its target, in words."""
    told = (f"{Setting(name)} {shown(getattr(settings, name))}" for name in settings.told_by_shape)
    return " ".join([f"{Setting('target')} {theory}", *told])


def studies() -> "dict[str, Preset]":
    """All studies by name."""
    return {name: preset for candidate in all_theories() for name, preset in candidate.studies().items()}
