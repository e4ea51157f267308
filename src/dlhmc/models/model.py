"""Models: a trajectory with the description it was built from, in one file that is safe to open.

A model file is a NumPy archive of plain arrays (no pickle): every array of the trajectory by its path in the tree,
a description as JSON text, and a SHA-256 of each array.
"""

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from dlhmc.errors import UserError
from dlhmc.layers import RULES, Affine, Circle, LayerStack, LeapfrogLayer, PositionRule, Trajectory
from dlhmc.layers.masks import checkerboard_mask, random_mask
from dlhmc.names import MaskName, NetworkName, RuleName
from dlhmc.networks import Dense, NetworkFactory
from dlhmc.numerics.leaves import by_name, digest
from dlhmc.storage.files import Archive, fingerprint, parse_json, read_text, unsealed, write_arrays
from dlhmc.targets import Target
from dlhmc.theories.u1.action import U1
from dlhmc.theories.u1.defect import Defect
from dlhmc.theories.u1.patch import Patch

FORMAT = 1
SHIPPED = Path(__file__).parents[1] / "theories" / "u1" / "trained"
_DESCRIPTION = "description"
# No trajectory comes near these; a file from a stranger may say anything.
_MOST_LAYERS, _MOST_RADII, _MOST_RADIUS, _MOST_HIDDEN, _MOST_WINDOW = 10_000, 64, 300.0, 10**6, 101


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
    table = {"format": FORMAT, "sha256": {name: digest(array) for name, array in arrays.items()}} | description
    write_arrays(path, arrays, {_DESCRIPTION: table})


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
        _require_model_of_run(file, path / "summary.json")
        return file
    if not path.is_file():
        raise UserError(f"There is no model or training run {path}; 'dlhmc models' lists those of the package.")
    return path


def _require_model_of_run(file: Path, summary: Path) -> None:
    """A finished training run knows the fingerprint of its model."""
    if not summary.is_file():
        return  # one that gave up has a model, too
    try:
        run = fingerprint(summary.with_name("config.toml"))
        wanted = unsealed(parse_json(read_text(summary)), run).get("model_sha256")
    except (OSError, ValueError) as error:
        advice = f"if you trust the model, give the file itself (--model {file})"
        raise UserError(f"{summary} is damaged, or of an older version of dlhmc: {error}; {advice}.") from None
    if fingerprint(file) != wanted:
        raise UserError(
            f"The model {file} is not the one that was trained there (its SHA-256 is not that of {summary})."
        )


def read_config(path: Path) -> tuple[ModelConfig, dict[str, Any]]:
    """What the trajectory in a file was built from, and the rest of its description."""
    description = read_description(path)
    if description.get("model", {}) is None:
        raise UserError(f"The model {path} is of layers made in Python: load it there with dlhmc.load_kernel.")
    try:
        fields: Any = {key: tuple(v) if isinstance(v, list) else v for key, v in description["model"].items()}
        config = ModelConfig(**fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"The model {path} is damaged: its description does not fit ({error}).") from None
    if wrong := _impossible(config):
        raise UserError(f"The model {path} is damaged: its description has an impossible {wrong}.")
    return config, description


def _impossible(config: ModelConfig) -> str | None:
    """The first field with a value that no training run could have written."""

    def whole(value: object, most: int) -> bool:
        return type(value) is int and 1 <= value <= most

    def number(value: object) -> bool:
        return isinstance(value, float | int) and not isinstance(value, bool) and abs(value) <= 1e300

    radii, hidden = config.radii, config.hidden
    rising = isinstance(radii, tuple) and len(radii) <= _MOST_RADII and all(map(number, radii))
    rising = rising and len(radii) != 1 and list(radii[:1]) in ([], [0])
    rising = rising and all(a < b for a, b in itertools.pairwise(radii)) and max(radii, default=0) <= _MOST_RADIUS
    layered = isinstance(hidden, tuple) and 1 <= len(hidden) <= 100 and all(whole(h, _MOST_HIDDEN) for h in hidden)
    fine = {
        "network": config.network in get_args(NetworkName),
        "rule": config.rule in get_args(RuleName),
        "mask": config.mask in get_args(MaskName),
        "leapfrog_steps": whole(config.leapfrog_steps, _MOST_LAYERS),
        "hidden": layered,
        "step_size": number(config.step_size) and config.step_size > 0,
        "radii": rising and (bool(radii) or config.network == "dense"),
        "hole": number(config.hole) and config.hole >= 0 and (config.hole > 0 or config.network == "dense"),
        "flux": number(config.flux) and abs(config.flux) <= 100,
        "window": whole(config.window, _MOST_WINDOW) and config.window % 2 == 1,
    }
    return next((name for name, good in fine.items() if not good), None)


def read_description(path: Path) -> dict[str, Any]:
    """What a model file says about itself."""
    return _open(path)[0]


def load(path: Path, like: Trajectory) -> Trajectory:
    """The trajectory in a file; it must have the arrays of `like` (or shapes): same names and kinds, finite values."""
    description, archive = _open(path)
    digests = description.get("sha256")
    dynamic, static = eqx.partition(like, lambda leaf: eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct))
    loaded = []
    wanted = by_name(dynamic)
    if missing := sorted(wanted.keys() - archive.names):
        raise UserError(f"The model {path} does not fit: it has no {missing[0]}.")
    for name, leaf in wanted.items():
        try:
            array = archive.read(name, 8 * math.prod(leaf.shape))
        except ValueError as error:
            raise UserError(f"The model {path} is damaged: {error}.") from None
        if array.shape != leaf.shape or array.dtype.kind != np.dtype(leaf.dtype).kind:
            raise UserError(
                f"The model {path} does not fit: {name} is {array.dtype} {array.shape}, not {leaf.dtype} {leaf.shape}."
            )
        with np.errstate(over="ignore"):  # a number of double precision may be too large for single
            values = array.astype(leaf.dtype)
        if not np.all(np.isfinite(values)):
            raise UserError(f"The model {path} is damaged: {name} holds numbers that are not finite.")
        if not isinstance(digests, dict) or digest(array) != digests.get(name):
            raise UserError(f"The model {path} is damaged: {name} is not what was saved.")
        loaded.append(jnp.asarray(values))
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(dynamic), loaded), static)


def _open(path: Path) -> tuple[dict[str, Any], Archive]:
    try:
        archive = Archive(path)
        description = archive.table(_DESCRIPTION)
    except FileNotFoundError:
        raise UserError(f"There is no model file {path}.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"The model {path} is damaged: {error}.") from None
    if (version := description.get("format")) != FORMAT:
        raise UserError(
            f"The model {path} has format {version}, but this version of dlhmc reads {FORMAT}: "
            "train it again, or use it with the version of dlhmc that made it."
        )
    return description, archive
