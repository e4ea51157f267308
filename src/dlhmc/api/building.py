"""Layers to be trained, from names or from objects."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dlhmc.errors import UserError, in_words_of_python
from dlhmc.layers import PositionRule, Trajectory
from dlhmc.models import model as models
from dlhmc.names import MaskName, NetworkName, RuleName
from dlhmc.networks import NetworkFactory
from dlhmc.numerics import rng
from dlhmc.runs.config import NETWORK_DEFAULTS, require_meaning
from dlhmc.runs.training import default_model
from dlhmc.targets import Target
from dlhmc.theories.u1.action import U1


@in_words_of_python()
def build_trajectory(
    target: Target,
    network: NetworkName | NetworkFactory | None = None,
    *,
    layers: int | None = None,
    hidden: Sequence[int] | None = None,
    rule: RuleName | PositionRule | None = None,
    mask: MaskName = "random",
    step_size: float | None = None,
    radii: Sequence[float] = (),
    flux: float = 1.0,
    window: int = 5,
    seed: int = 1,
) -> Trajectory:
    """Layers to be trained: N_LF of them, each with parameters of its own.

    Args:
        target: what they are for.
        network: "dense" (the paper's), "defect" or "patch" (U(1) only), or a function that makes a network of your own
            from (key, shape of the field, features of each component). By default what suits the target.
        layers: N_LF.
        hidden: sizes of the hidden layers.
        rule: position update Λ: "circle", "affine", "shift" or one of your own; by default what suits the target.
        mask: which half of x is updated first.
        step_size: ε before training.
        radii: distances at which the parameters of a defect have values.
        flux: units of flux that a defect drives before training.
        window: side of the window that patch networks see.
        seed: root of the random weights.

    >>> from dlhmc.theories.u1.action import U1
    >>> len(build_trajectory(U1((4, 4), beta=2.0), "dense", layers=3, hidden=(8,)))
    3
    """
    config, own_network, own_rule = describe_model(
        target, network, layers, hidden, rule, mask, step_size, tuple(radii), flux, window
    )
    key = rng.step_key(jax.device_put(np.uint32(seed)), rng.Purpose.MODEL, jnp.zeros((), jnp.uint32))
    build = eqx.filter_jit(lambda key: models.build(config, target, key, make_network=own_network, rule=own_rule))
    return build(key)


def describe_model(
    target: Target,
    network: NetworkName | NetworkFactory | None,
    layers: int | None,
    hidden: Sequence[int] | None,
    rule: RuleName | PositionRule | None,
    mask: MaskName,
    step_size: float | None,
    radii: tuple[float, ...],
    flux: float,
    window: int,
) -> tuple[models.ModelConfig, NetworkFactory | None, PositionRule | None]:
    """The description of a model, with those parts of it that are objects."""
    if network is None:
        network = "defect" if isinstance(target, U1) else "dense"
    name: NetworkName = network if isinstance(network, str) else "dense"
    if name not in NETWORK_DEFAULTS:
        raise UserError(f"There is no network '{name}': there are {', '.join(NETWORK_DEFAULTS)}, or give your own.")
    defaults = NETWORK_DEFAULTS[name]
    sizes = tuple(hidden or defaults["hidden"])
    given = {"hidden": sizes, "rule": rule or "circle", "mask": mask, "radii": radii, "flux": flux, "window": window}
    require_meaning(name, given)
    own_rule = rule if isinstance(rule, PositionRule) else None
    rule_name: RuleName = rule if isinstance(rule, str) else "circle" if target.compact else "affine"
    config = default_model(
        float(target.beta) if isinstance(target, U1) else None,
        network=name,
        leapfrog_steps=layers or defaults["leapfrog_steps"],
        hidden=sizes,
        rule=rule_name,
        mask=mask,
        step_size=step_size,
        radii=radii,
        flux=flux,
        window=window,
    )
    return config, None if isinstance(network, str) else network, own_rule
