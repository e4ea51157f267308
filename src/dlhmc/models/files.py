"""Where models are, and what their files say of themselves; read without JAX."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from safetensors import SafetensorError, safe_open

from dlhmc.errors import UserError
from dlhmc.files import parse_json
from dlhmc.models.architecture import Architecture
from dlhmc.models.architectures import architecture
from dlhmc.settings import build, converted, fields_of
from dlhmc.theories import registry

SUFFIX = ".safetensors"
_METADATA = "dlhmc"


class Described(TypedDict, total=False):
    """What a model says of itself: the tables [target] and [network], and how it was trained and what was measured."""

    target: dict[str, Any]
    network: dict[str, Any] | None
    training: dict[str, Any]
    measured: dict[str, Any]


class ModelFile(NamedTuple):
    """A model file, of which nothing but its description has been read."""

    path: Path
    description: Described
    #: None for layers that were made in Python
    architecture: Architecture | None

    @classmethod
    def open(cls, name: str) -> "ModelFile":
        """The model in a file, of a training run, or one that comes with the package."""
        path = find(name)
        with opened(path) as file:
            table = parse_json((file.metadata() or {}).get(_METADATA, "{}").encode())
        described: Described = converted(table, Described, f"The model {path}")
        return cls(path, described, _architecture(path, described.get("network")))

    def target_like(self, kind: type) -> dict[str, Any]:
        """The settings that targets of this kind have in common with the one that it was trained for."""
        names = {field.name for field in fields_of(kind)}
        return {name: value for name, value in self.description.get("target", {}).items() if name in names}


def _architecture(path: Path, network: Mapping[str, Any] | None) -> Architecture | None:
    if network is None:
        return None
    settings = dict(network)
    try:
        return build(architecture(settings.pop("name", None)), settings, "Its description")
    except UserError as error:
        raise UserError(f"The model {path} is damaged or of another version of dlhmc: {error}") from None


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The file, which may be a stranger's."""
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (OSError, SafetensorError, ValueError) as error:
        raise UserError(f"The model {path} is damaged: {str(error).removesuffix('.')}.") from None


def metadata(description: Mapping[str, Any]) -> dict[str, str]:
    """As a file holds it."""
    return {_METADATA: json.dumps(description)}


def absolute(model: str) -> str:
    """A model by a name that means the same in every directory."""
    return str(Path(model).resolve()) if Path(model).exists() else model


def shipped() -> dict[str, Path]:
    """The models that come with theories, by name."""
    folders = (theory.models for theory in registry.all_theories())
    return {path.stem: path for folder in folders if folder is not None for path in sorted(folder.glob(f"*{SUFFIX}"))}


def find(name: str) -> Path:
    """The file of a model: the file itself, that of a training run, or one that comes with a theory."""
    path = Path(name)
    if not path.exists() and name in (known := shipped()):
        return known[name]
    if path.is_dir():
        return _of_run(path)
    if not path.is_file():
        raise UserError(f"There is no model or training run {path}; 'dlhmc models' lists those of the package.")
    return path


def _of_run(path: Path) -> Path:
    file = path / f"model{SUFFIX}"
    if file.is_file():
        return file
    if (path / "results.json").exists():
        raise UserError(f"{path} is a comparison and has no model: give the training run of one of its samplers.")
    if (path / "summary.json").is_file():
        raise UserError(f"{path} is no training run, so it has no model: give a training run or a model file.")
    raise UserError(f"{path} has no trained model yet: go on with 'dlhmc resume {path}', if it is a training run.")
