"""The target of a run: from its settings, and from the model that it uses."""

from pathlib import Path
from typing import Any, get_args

from dlhmc import models
from dlhmc.errors import UserError
from dlhmc.names import TargetName
from dlhmc.runs.config import SampleConfig, TrainConfig
from dlhmc.targets import U1, ExactDraws, Target, standard


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
        names = ("network", "hidden", "leapfrog_steps", "rule", "mask", "radii", "window")
        settings |= {name: getattr(layers, name) for name in names}
    return settings


def require_target_of_model(file: Path, name: TargetName) -> None:
    """A model knows its target; couplings may differ, the kind of target may not."""
    if (trained := _described(file)["name"]) != name:
        raise UserError(
            f"The model {file} was trained for the target {trained}, not {name}: "
            f"give --target {trained} or another --model."
        )


def require_draws(draws: ExactDraws | None) -> ExactDraws:
    """Exact draws, where they are asked for."""
    if draws is None:
        raise UserError("This target has no exact draws: use --kernel hmc and --start hot or cold.")
    return draws


def _described(file: Path) -> dict[str, Any]:
    target = models.read_description(file).get("target")
    if isinstance(target, dict) and target.get("name") in get_args(TargetName):
        needed = {"lattice", "beta"} if target["name"] == "u1" else set()
        if needed <= target.keys():
            return target
    raise UserError(f"The model {file} is damaged: it does not say which target it was trained for.")
