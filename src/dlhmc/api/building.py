"""Layers to be trained, from names or from objects."""

from typing import Any

from dlhmc.errors import Setting, UserError
from dlhmc.layers import PositionRule, Trajectory
from dlhmc.models.architecture import Architecture
from dlhmc.models.architectures import architecture_for, built, drawn
from dlhmc.models.dense import DenseArchitecture
from dlhmc.names import RuleName
from dlhmc.networks import NetworkFactory
from dlhmc.settings import fields_of, require_known
from dlhmc.targets import Target


def build_trajectory(
    target: Target,
    network: str | NetworkFactory | None = None,
    *,
    layers: int | None = None,
    rule: RuleName | PositionRule | None = None,
    seed: int = 1,
    **settings: Any,
) -> Trajectory:
    """Layers to be trained: N_LF of them, each with parameters of its own.

    Args:
        target: what they are for.
        network: the name of an architecture ("dense" is the paper's, others are made for theories), or a function that
            makes a network of your own from a key and the geometry of the target. By default what suits the target.
        layers: N_LF.
        rule: position update Λ: "circle", "affine", "shift" or one of your own; by default what suits the geometry.
        seed: root of the random weights.
        **settings: what else the architecture can be told, as `dlhmc train u1 local --help` lists it (hidden, mask,
            step_size, …).

    >>> from dlhmc import Gaussian
    >>> len(build_trajectory(Gaussian([1.0, 2.0]), "dense", layers=3, hidden=(8,)))
    3
    """
    if isinstance(rule, str):
        settings["rule"] = rule
    own_network = network if callable(network) else None
    own_rule = rule if isinstance(rule, PositionRule) else None
    name = DenseArchitecture.name if callable(network) else network
    architecture = architecture_of(target, name, layers, settings)
    if own_network is None and own_rule is None:
        return built(architecture, target, seed)
    if not isinstance(architecture, DenseArchitecture):
        raise UserError(f"{Setting('rule')} is for leapfrog layers, which {architecture.name} layers are not.")
    return drawn(lambda key: architecture.layers(target, key, own_network, own_rule), seed)


def architecture_of(target: Target, name: str | None, layers: int | None, settings: dict[str, Any]) -> Architecture:
    """The architecture of that name with these settings, completed for the target."""
    kind = architecture_for(target, name)
    require_known(settings, [field.name for field in fields_of(kind)], f"The network {kind.name}")
    number = {} if layers is None else {"leapfrog_steps": layers}
    return kind(**number, **settings).completed(target)
