"""The target of a run: from its settings, and from the model that it uses."""

from pathlib import Path
from typing import Any, get_args

from dlhmc.errors import UserError
from dlhmc.models import model as models
from dlhmc.names import TargetName
from dlhmc.runs.config import MEANINGLESS, SampleConfig, TrainConfig
from dlhmc.targets import ExactDraws, Target, standard
from dlhmc.theories.u1.action import U1

#: settings that say what the layers of a trajectory are, and not where their parameters start
ARCHITECTURE = ("network", "hidden", "leapfrog_steps", "rule", "mask", "radii", "window")


def build(config: SampleConfig | TrainConfig) -> Target:
    """The target that the settings name."""
    if config.lattice is not None and config.beta is not None:
        return U1(config.lattice, config.beta)
    return standard[config.target]()


def describe(config: SampleConfig | TrainConfig) -> dict[str, Any]:
    """The target in words and numbers, for files that outlive the run."""
    if config.lattice is not None:
        return {"name": config.target, "lattice": list(config.lattice), "beta": config.beta}
    return {"name": config.target}


def settings_of_model(name: str, *, architecture: bool = False) -> dict[str, Any]:
    """The settings that name the target a model was trained for, and on request those of its layers."""
    file = models.find(name)
    target = _described(file)
    settings: dict[str, Any] = {"target": target["name"]}
    if target["name"] == "u1":
        settings |= {"lattice": tuple(target["lattice"]), "beta": target["beta"]}
    if architecture:
        layers = models.read_config(file)[0]
        names = [name for name in ARCHITECTURE if name not in MEANINGLESS[layers.network]]
        settings |= {name: getattr(layers, name) for name in names}
    return settings


def require_target_of_model(file: Path, name: TargetName, lattice: tuple[int, int] | None) -> None:
    """A model knows its target: couplings may differ; the kind of target, and for dense networks the lattice, not."""
    trained = _described(file)
    if trained["name"] != name:
        raise UserError(
            f"The model {file} was trained for the target {trained['name']}, not {name}: "
            f"give --target {trained['name']} or another --model."
        )
    if lattice is not None and tuple(trained["lattice"]) != lattice and models.read_config(file)[0].network == "dense":
        its, ours = (" ".join(map(str, sides)) for sides in (trained["lattice"], lattice))
        raise UserError(
            f"The model {file} does not fit: its dense networks are for the lattice {its}, not {ours}: "
            f"give --lattice {its} or another --model."
        )


def require_layers_of_model(file: Path, wanted: models.ModelConfig) -> None:
    """Parameters mean something for the layers they were trained in alone: what differs is named."""
    found = models.read_config(file)[0]
    for name in ARCHITECTURE:
        its, ours = getattr(found, name), getattr(wanted, name)
        # Only networks have hidden layers, rules and masks, only defects radii, only patches windows.
        if name in MEANINGLESS[found.network] or its == ours:
            continue
        option = name.replace("_", "-")
        shown = [" ".join(map(str, v)) if isinstance(v, tuple) else v for v in (its, ours)]
        raise UserError(
            f"The model {file} does not fit: it has --{option} {shown[0]}, not {shown[1]}: "
            f"leave out --{option}, or start from another model."
        )


def require_draws(draws: ExactDraws | None) -> ExactDraws:
    """Exact draws, where they are asked for."""
    if draws is None:
        raise UserError("This target has no exact draws: use --kernel hmc and --start hot or cold.")
    return draws


def _described(file: Path) -> dict[str, Any]:
    target = models.read_description(file).get("target")
    if isinstance(target, dict) and target.get("name") in get_args(TargetName):
        if target["name"] != "u1":
            return target
        lattice, beta = target.get("lattice"), target.get("beta")
        sides = isinstance(lattice, list) and len(lattice) == 2 and all(type(side) is int for side in lattice)
        if sides and isinstance(beta, float | int):
            return target
    raise UserError(f"The model {file} is damaged: it does not say which target it was trained for.")
