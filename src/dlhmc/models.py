"""Models: a trajectory with the description it was built from, in one file that is safe to open.

A model file is a NumPy archive of plain arrays (no pickle): every array of the trajectory by its path in the tree,
a description as JSON text, and a SHA-256 of each array.
"""

import dataclasses
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from numpy.typing import NDArray

from dlhmc.errors import UserError
from dlhmc.layers import RULES, Affine, Circle, Defect, LayerStack, LeapfrogLayer, PositionRule, Trajectory
from dlhmc.layers.masks import checkerboard_mask, random_mask
from dlhmc.leaves import by_name, digest
from dlhmc.names import MaskName, NetworkName, RuleName
from dlhmc.networks import Dense, NetworkFactory, Patch
from dlhmc.targets import U1, Target

FORMAT = 1
SHIPPED = Path(__file__).parent / "trained"
_DESCRIPTION = "description"


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """What a trajectory is built from."""

    network: NetworkName = "dense"
    leapfrog_steps: int = 10
    hidden: tuple[int, ...] = (256, 256, 256)
    rule: RuleName = "circle"
    mask: MaskName = "random"
    step_size: float = 0.1
    #: of a defect: the radii at which its parameters have values, and the width of the hole before training
    radii: tuple[float, ...] = ()
    hole: float = 0.5
    #: units of flux that the trajectory drives through the hole before training
    flux: float = 1.0
    #: of patch networks: the side of the window they see
    window: int = 5


def build(
    config: ModelConfig,
    target: Target,
    key: Key[Array, ""],
    *,
    make_network: NetworkFactory | None = None,
    rule: PositionRule | None = None,
) -> Trajectory:
    """A new trajectory: dense networks give 0 (plain HMC) until they are trained, a defect is open a little.

    A network or a position rule of one's own takes the place of those that the configuration names.
    """
    if make_network is not None:
        return _leapfrog_layers(config, target, key, make_network, rule or RULES[config.rule]())
    if config.network == "dense":

        def dense(key: Key[Array, ""], shape: tuple[int, ...], features: int) -> Dense:
            return Dense(key, shape, features, config.hidden)

        return _leapfrog_layers(config, target, key, dense, rule or RULES[config.rule]())
    if not isinstance(target, U1):
        raise UserError("Defect layers move topological charge, which this target has not: use --network dense.")
    patches = None
    number = config.leapfrog_steps
    if config.network == "patch":
        kick_key, drift_key = jax.random.split(key)
        hidden = config.hidden[0]
        patches = (
            Patch.stack(kick_key, (number + 1) // 2, config.window, 2, hidden),
            Patch.stack(drift_key, (number + 1) // 2, config.window, 1, hidden),
        )
    return Defect.start(number, config.step_size, config.radii, config.hole, config.flux, patches)


def _leapfrog_layers(
    config: ModelConfig, target: Target, key: Key[Array, ""], make_network: NetworkFactory, rule: PositionRule
) -> Trajectory:
    if isinstance(rule, Affine) and target.compact:
        raise UserError(
            "The affine rule is no bijection of angles (x·e^{εs} wraps around the circle), so no accept/reject can "
            "make it exact: use --rule circle or --rule shift."
        )
    if isinstance(rule, Circle) and not target.compact:
        raise UserError("The circle rule is for angles; this target has none: use --rule affine or --rule shift.")
    shape = target.shape
    features = jax.eval_shape(target.features, jax.ShapeDtypeStruct((*shape, 1), jnp.float32)).shape[0]
    log_step = jnp.log(jnp.asarray(config.step_size, float))

    def layer(key_and_parity: tuple[Key[Array, ""], Array]) -> LeapfrogLayer:
        key, parity = key_and_parity
        v_key, x_key, mask_key = jax.random.split(key, 3)
        mask = random_mask(mask_key, shape) if config.mask == "random" else checkerboard_mask(shape) ^ parity
        return LeapfrogLayer(
            make_network(v_key, shape, features),
            make_network(x_key, shape, features),
            mask,
            log_step,
            log_step,
            rule,
        )

    number = config.leapfrog_steps
    return LayerStack(eqx.filter_vmap(layer)((jax.random.split(key, number), jnp.arange(number) % 2 == 0)))


def save(path: Path, trajectory: Trajectory, description: dict[str, Any]) -> None:
    """Write a model in one piece: it is there as a whole or not at all."""
    arrays = {name: np.asarray(value) for name, value in by_name(eqx.filter(trajectory, eqx.is_array)).items()}
    text = json.dumps({"format": FORMAT, "sha256": {name: digest(a) for name, a in arrays.items()}} | description)
    arrays[_DESCRIPTION] = np.frombuffer(text.encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(buffer.getvalue())
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def shipped() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.npz"))


def find(name: str) -> Path:
    """The file of a model: the file itself, that of a training run, or one that comes with the package."""
    path = Path(name)
    if not path.exists() and name in shipped():
        return SHIPPED / f"{name}.npz"
    if path.is_dir():
        file = path / "model.npz"
        if not file.is_file():
            raise UserError(f"{path} has no trained model: finish it with 'dlhmc resume {path}'.")
        return file
    if not path.is_file():
        raise UserError(f"There is no model or training run {path}; 'dlhmc models' lists those of the package.")
    return path


def read_config(path: Path) -> tuple[ModelConfig, dict[str, Any]]:
    """What the trajectory in a file was built from, and the rest of its description."""
    description = read_description(path)
    if description.get("model", {}) is None:
        raise UserError(f"The model {path} is of layers made in Python: load it there with dlhmc.load_kernel.")
    try:
        fields: Any = {key: tuple(v) if isinstance(v, list) else v for key, v in description["model"].items()}
        return ModelConfig(**fields), description
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"The model {path} is damaged: its description does not fit ({error}).") from None


def read_description(path: Path) -> dict[str, Any]:
    """What a model file says about itself."""
    return _read(path)[0]


def load(path: Path, like: Trajectory) -> Trajectory:
    """The trajectory in a file; it must have the arrays of `like` (or shapes): same names and kinds, finite values."""
    description, arrays = _read(path)
    dynamic, static = eqx.partition(like, lambda leaf: eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct))
    wanted = by_name(dynamic)
    if missing := sorted(wanted.keys() - arrays.keys()):
        raise UserError(f"The model {path} does not fit: it has no {missing[0]}.")
    for name, leaf in wanted.items():
        array = arrays[name]
        if array.shape != leaf.shape or array.dtype.kind != np.dtype(leaf.dtype).kind:
            raise UserError(
                f"The model {path} does not fit: {name} is {array.dtype} {array.shape}, not {leaf.dtype} {leaf.shape}."
            )
        if not np.all(np.isfinite(array)):
            raise UserError(f"The model {path} is damaged: {name} holds numbers that are not finite.")
        if digest(array) != description.get("sha256", {}).get(name):
            raise UserError(f"The model {path} is damaged: {name} is not what was saved.")
    loaded = [jnp.asarray(arrays[name], leaf.dtype) for name, leaf in wanted.items()]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(dynamic), loaded), static)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        # From memory: np.load leaves a file open that turns out to be no archive.
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        description = json.loads(arrays.pop(_DESCRIPTION).tobytes().decode())
    except FileNotFoundError:
        raise UserError(f"There is no model file {path}.") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"The model {path} is damaged: {error}.") from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise UserError(f"The model {path} has another format than this version of dlhmc reads ({FORMAT}).")
    return description, arrays
