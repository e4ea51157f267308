"""Models: the arrays of a trajectory as safetensors, with the tables that it was trained with as metadata."""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save as to_bytes

from dlhmc.errors import Setting, UserError
from dlhmc.files import write_whole
from dlhmc.kernels import DLHMC
from dlhmc.layers import Trajectory
from dlhmc.models.architecture import Architecture
from dlhmc.models.files import SUFFIX, Described, ModelFile, metadata, opened
from dlhmc.numerics.leaves import by_name
from dlhmc.settings import fields_of, shown
from dlhmc.targets import Target


@dataclasses.dataclass(frozen=True)
class Model:
    """A model file; its arrays are read when a trajectory is asked for."""

    path: Path
    description: Described
    architecture: Architecture | None

    @classmethod
    def open(cls, name: str) -> "Model":
        """The model in a file, of a training run, or one that comes with the package."""
        return cls(*ModelFile.open(name))

    @property
    def words(self) -> str:
        """What texts and figures call its layers."""
        network = self.architecture
        return "learned layers" if network is None else f"{network.words}, {network.leapfrog_steps} layers"

    def require_architecture(self, wanted: Architecture) -> None:
        """Parameters mean something for the layers they were trained in alone: what differs is named."""
        found = self.architecture
        if found is None or type(found) is not type(wanted):
            its = "made in Python" if found is None else f"of the network {found.name}"
            raise UserError(f"The model {self.path} does not fit: its layers are {its}, not {wanted.name}.")
        for name in (field.name for field in fields_of(type(wanted))):
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
        dynamic = eqx.filter(like, _is_array)
        wanted = by_name(dynamic)
        with opened(self.path) as file:
            if missing := sorted(wanted.keys() - file.keys()):
                raise UserError(f"The model {self.path} does not fit: it has no {missing[0]}.")
            loaded = [self._read(file, name, leaf) for name, leaf in wanted.items()]
        tree = jax.tree.unflatten(jax.tree.structure(dynamic), loaded)
        return eqx.combine(tree, eqx.filter(like, _is_array, inverse=True))

    def _read(self, file: Any, name: str, leaf: Any) -> Any:
        array = file.get_tensor(name)
        if array.shape != leaf.shape or array.dtype.kind != np.dtype(leaf.dtype).kind:
            raise UserError(f"The model {self.path} does not fit: {self._misfit(name, array, leaf)}.")
        with np.errstate(over="ignore"):  # a number of double precision may be too large for single
            values = array.astype(leaf.dtype)
        if not np.all(np.isfinite(values)):
            raise UserError(f"The model {self.path} is damaged: {name} holds numbers that are not finite.")
        return jnp.asarray(values)

    def _misfit(self, name: str, array: Any, leaf: Any) -> str:
        trained = self.description.get("target", {})
        where = f"; it was trained for {Setting('lattice')} {shown(trained['lattice'])}" if "lattice" in trained else ""
        return f"{name} is {array.dtype} {array.shape}, not {leaf.dtype} {leaf.shape}{where}"

    def kernel(self, target: Target, like: Trajectory | None = None) -> DLHMC:
        """The trained sampler, on a target of any coupling."""
        return DLHMC.of(target, self.trajectory(target, like))


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def describe(architecture: Architecture | None, target: dict[str, Any]) -> dict[str, Any]:
    """What a model file says about itself."""
    return {"network": None if architecture is None else architecture.to_table(), "target": target}


def save(path: Path, trajectory: Trajectory, description: dict[str, Any]) -> None:
    """Write a model in one piece: it is there as a whole or not at all."""
    if path.suffix != SUFFIX:
        raise UserError(f"A model is a file that ends in {SUFFIX}, and {path.name} does not.")
    arrays = {name: np.asarray(leaf) for name, leaf in by_name(eqx.filter(trajectory, eqx.is_array)).items()}
    write_whole(path, to_bytes(arrays, metadata(description)))
