"""Models: the arrays of a trajectory as safetensors, with the specification that they were trained with as metadata."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from dlhmc.errors import Setting, UserError
from dlhmc.files import parse_json, write_whole
from dlhmc.kernels import DLHMC
from dlhmc.layers import Trajectory
from dlhmc.models.architecture import Architecture
from dlhmc.numerics.leaves import by_name
from dlhmc.settings import converted, hints_of, shown
from dlhmc.targets import Target
from dlhmc.theories import registry
from dlhmc.theories.contract import TargetSettings

SUFFIX = ".safetensors"
_METADATA = "dlhmc"


class _Described(TypedDict, total=False):
    """What metadata must look like before anything in it is believed."""

    target: dict[str, Any]
    network: dict[str, Any] | None
    training: dict[str, Any]
    measured: dict[str, Any]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file, which may be a stranger's."""
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (OSError, SafetensorError, ValueError) as error:
        raise UserError(f"The model {path} is damaged: {str(error).removesuffix('.')}.") from None


@dataclasses.dataclass(frozen=True)
class Model:
    """A model file: what it says of itself; its arrays are read when a trajectory is asked for."""

    path: Path
    description: dict[str, Any]
    #: None for layers that were made in Python
    architecture: Architecture | None

    @classmethod
    def open(cls, name: str) -> "Model":
        """The model in a file, of a training run, or one that comes with the package."""
        path = find(name)
        with _opened(path) as file:
            table = parse_json((file.metadata() or {}).get(_METADATA, "{}").encode())
        converted(table, _Described, f"The model {path}")
        network = table.get("network")
        return cls(path, table, None if network is None else _architecture(path, network))

    @property
    def target_settings(self) -> tuple[str, TargetSettings]:
        """The theory and the settings of the target that it was trained for."""
        described = self.description.get("target")
        if isinstance(described, dict) and described.get("name") in registry.names():
            theory = registry.theory(described["name"])
            names = hints_of(theory.settings).keys() & described.keys()
            try:
                return theory.name, theory.settings(**{name: described[name] for name in names})
            except UserError as error:
                raise UserError(f"The model {self.path} is damaged: {error}") from None
        raise UserError(f"The model {self.path} does not say for which theory it was trained.")

    def require_target(self, theory: str, settings: TargetSettings) -> None:
        """Couplings may differ; the theory, and for layers of one size the size, not."""
        trained, its = self.target_settings
        if trained != theory and trained not in registry.theory(theory).models_of:
            raise UserError(
                f"The model {self.path} was trained for the target {trained}, not {theory}: give {Setting('target')} "
                f"{trained} or another model."
            )
        if self._fits(settings.build()):
            return
        for name in hints_of(type(settings)):
            theirs, ours = getattr(its, name, None), getattr(settings, name)
            if theirs != ours and not isinstance(ours, float):
                raise UserError(
                    f"The model {self.path} does not fit: its layers are for {Setting(name)} {shown(theirs)}, not "
                    f"{shown(ours)}: give that, or another model."
                )

    def _fits(self, target: Target) -> bool:
        wanted = by_name(_arrays(self._like(target)))
        with _opened(self.path) as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys() & wanted.keys()}
        return shapes == {name: leaf.shape for name, leaf in wanted.items()}

    def require_architecture(self, wanted: Architecture) -> None:
        """Parameters mean something for the layers they were trained in alone: what differs is named."""
        found = self.architecture
        if found is None or type(found) is not type(wanted):
            its = "made in Python" if found is None else f"of the network {found.name}"
            raise UserError(f"The model {self.path} does not fit: its layers are {its}, not {wanted.name}.")
        for name in hints_of(type(wanted)):
            its, ours = getattr(found, name), getattr(wanted, name)
            if name not in wanted.only_before_training and its != ours:
                raise UserError(
                    f"The model {self.path} does not fit: it has {Setting(name)} {shown(its)}, not {shown(ours)}: "
                    "leave that out, or start from another model."
                )

    def _like(self, target: Target) -> Trajectory:
        if self.architecture is None:
            raise UserError(
                f"The layers of {self.path} were made in Python: load it there with dlhmc.load_kernel(…, like=…)."
            )
        if not type(self.architecture).suits(target):
            raise UserError(f"The layers of {self.path} are not for this target.")
        architecture = self.architecture.completed(target)
        like: Trajectory = eqx.filter_eval_shape(lambda: architecture.build(target, jax.random.key(0)))
        return like

    def trajectory(self, target: Target, like: Trajectory | None = None) -> Trajectory:
        """The trained layers; they must have the arrays of `like`: same names and kinds, finite values."""
        like = self._like(target) if like is None else like
        dynamic = _arrays(like)
        wanted = by_name(dynamic)
        with _opened(self.path) as file:
            if missing := sorted(wanted.keys() - file.keys()):
                raise UserError(f"The model {self.path} does not fit: it has no {missing[0]}.")
            loaded = [self._read(file, name, leaf) for name, leaf in wanted.items()]
        tree = jax.tree.unflatten(jax.tree.structure(dynamic), loaded)
        return eqx.combine(tree, eqx.filter(like, _is_array, inverse=True))

    def _read(self, file: Any, name: str, leaf: Any) -> Any:
        array = file.get_tensor(name)
        if array.shape != leaf.shape or array.dtype.kind != np.dtype(leaf.dtype).kind:
            raise UserError(
                f"The model {self.path} does not fit: {name} is {array.dtype} {array.shape}, not {leaf.dtype} "
                f"{leaf.shape}."
            )
        with np.errstate(over="ignore"):  # a number of double precision may be too large for single
            values = array.astype(leaf.dtype)
        if not np.all(np.isfinite(values)):
            raise UserError(f"The model {self.path} is damaged: {name} holds numbers that are not finite.")
        return jnp.asarray(values)

    def kernel(self, target: Target, like: Trajectory | None = None) -> DLHMC:
        """The trained sampler, on a target of any coupling."""
        return DLHMC.of(target, self.trajectory(target, like))


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _arrays(like: Trajectory) -> Any:
    return eqx.filter(like, _is_array)


def _architecture(path: Path, table: dict[str, Any]) -> Architecture:
    """The settings that layers were built from."""
    name = str(table.get("name"))
    kinds = registry.architectures()
    if name not in kinds:
        known = ", ".join(kinds)
        raise UserError(f"The model {path} has layers {name!r}, but there are {known}: train it anew.")
    fields = {key: value for key, value in table.items() if key in hints_of(kinds[name])}
    try:
        return kinds[name](**fields)
    except (UserError, TypeError) as error:
        raise UserError(f"The model {path} is damaged: its description does not fit ({error})") from None


def describe(architecture: Architecture | None, target: dict[str, Any]) -> dict[str, Any]:
    """What a model file says about itself."""
    network = None if architecture is None else {"name": architecture.name} | dataclasses.asdict(architecture)
    return {"network": network, "target": target}


def save(path: Path, trajectory: Trajectory, description: dict[str, Any]) -> None:
    """Write a model in one piece: it is there as a whole or not at all."""
    if path.suffix != SUFFIX:
        raise UserError(f"A model is a file that ends in {SUFFIX}, and {path.name} does not.")
    arrays = {name: np.asarray(leaf) for name, leaf in by_name(eqx.filter(trajectory, eqx.is_array)).items()}
    write_whole(path, to_bytes(arrays, {_METADATA: json.dumps(description)}))


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
