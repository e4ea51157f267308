"""Layers to be trained, from names or from objects."""

from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dlhmc.errors import Setting, UserError
from dlhmc.layers import RULES, PositionRule, Trajectory
from dlhmc.layers.position import default_rule
from dlhmc.models.architecture import Architecture
from dlhmc.models.dense import DenseArchitecture, leapfrog_layers
from dlhmc.names import RuleName
from dlhmc.networks import NetworkFactory
from dlhmc.numerics import rng
from dlhmc.plans.training import built, default_network, require_suiting
from dlhmc.settings import hints_of, require_known
from dlhmc.targets import Target
from dlhmc.theories import registry


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
        **settings: what else the architecture can be told, as `dlhmc train --network … --help` lists it (hidden, mask,
            step_size, …).

    >>> from dlhmc import Gaussian
    >>> len(build_trajectory(Gaussian([1.0, 2.0]), "dense", layers=3, hidden=(8,)))
    3
    """
    if network is None or isinstance(network, str):
        if isinstance(rule, str):
            settings["rule"] = rule
        architecture = architecture_of(target, network, layers, settings)
        if not isinstance(rule, PositionRule):
            return built(architecture, target, seed)
        if not isinstance(architecture, DenseArchitecture):
            raise UserError(Setting("rule"), f" is for leapfrog layers, which {architecture.name} layers are not.")
        network = network_of(architecture)
    else:
        architecture = architecture_of(target, DenseArchitecture.name, layers, settings)
    own_rule = rule if isinstance(rule, PositionRule) else RULES[rule or default_rule(target.geometry)]()
    make_network = network
    key = rng.step_key(jax.device_put(np.uint32(seed)), rng.Purpose.MODEL, jnp.zeros((), jnp.uint32))
    build = eqx.filter_jit(
        lambda key: leapfrog_layers(cast(DenseArchitecture, architecture), target, key, make_network, own_rule)
    )
    return cast(Trajectory, build(key))


def architecture_of(target: Target, name: str | None, layers: int | None, settings: dict[str, Any]) -> Architecture:
    """The architecture of that name with these settings, completed for the target."""
    kind = registry.architecture(default_network(target) if name is None else name)
    require_suiting(kind, target)
    require_known(settings, hints_of(kind), f"The network {kind.name}")
    number = {} if layers is None else {"leapfrog_steps": layers}
    return kind(**number, **settings).completed(target)


def network_of(architecture: Architecture) -> NetworkFactory:
    """The networks of leapfrog layers, for another position rule."""
    from dlhmc.networks import Dense

    hidden = cast(DenseArchitecture, architecture).hidden
    return lambda key, geometry: Dense(key, geometry, hidden)
