"""Checks of networks, alone and in layers."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dlhmc.layers import LayerStack, LeapfrogLayer, PositionRule
from dlhmc.layers.masks import random_mask
from dlhmc.layers.position import Affine, Circle
from dlhmc.networks.contract import SQT, Network, NetworkFactory, Zeta
from dlhmc.targets.contract import Target
from dlhmc.testing.checks import CHAINS, Checked, Problems, as_numbers, example, far, in_double, run_checks
from dlhmc.testing.trajectory import jacobians_agree, round_trips, with_random_weights


def check_network(make_network: NetworkFactory, target: Target) -> Checked:
    """A network, made from (key, shape, features), must fit the field, keep chains apart, and make exact layers.

    >>> from dlhmc.networks import Dense
    >>> from dlhmc.theories.u1.action import U1
    >>> check_network(lambda key, shape, features: Dense(key, shape, features, (4,)), U1((2, 2), 1.0)).passed[0]
    'outputs'
    """
    with jax.enable_x64(True):
        features = jax.eval_shape(target.features, jax.ShapeDtypeStruct((*target.shape, 1), jnp.float64)).shape[0]

    def make() -> Network:
        network = with_random_weights(make_network(jax.random.key(0), target.shape, features), 0.3)
        return in_double(network)

    def zeta(chains: slice = slice(None)) -> Zeta:
        x = example(target)[..., chains]
        return Zeta(target.features(x), target.force(example(target))[..., chains])

    def outputs() -> Problems:
        found: Any = make()(zeta())
        if not isinstance(found, SQT):
            yield f"it returns a {type(found).__name__}, not SQT(s, q, t)"
            return
        for name, value in found._asdict().items():
            if value.shape != (*target.shape, CHAINS):
                yield f"{name} has the shape {value.shape}, but the field {(*target.shape, CHAINS)}"
            elif not np.all(np.isfinite(as_numbers(value))):
                yield f"{name} is not finite"

    def chains() -> Problems:
        network = make()
        together, alone = network(zeta()), network(zeta(slice(1, 2)))
        for name, value in together._asdict().items():
            if far(value[..., 1:2], getattr(alone, name), 1e-10) is not None:
                yield f"{name} of a chain depends on other chains, so the sampler would not be exact"

    def trainable() -> Problems:
        network = make_network(jax.random.key(0), target.shape, features)
        if not jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)):
            yield "there is nothing to train: it has no floating-point arrays"

    # Layers take long to compile, and need networks that are right.
    first = run_checks("the network", {"outputs": outputs, "chains": chains, "parameters": trainable})
    trajectory = _layers(make_network, target, features, Circle() if target.compact else Affine())
    layers = run_checks(
        "the network",
        {
            "inverse": lambda: round_trips(with_random_weights(trajectory(), 0.3), target),
            "Jacobian": lambda: jacobians_agree(with_random_weights(trajectory(), 0.3), target),
        },
    )
    return Checked(first.passed + layers.passed, ())


def _layers(
    make_network: NetworkFactory, target: Target, features: int, rule: PositionRule
) -> Callable[[], LayerStack]:
    def layer(key: Array) -> LeapfrogLayer:
        v_key, x_key, mask_key = jax.random.split(key, 3)
        v_network, x_network = (in_double(make_network(k, target.shape, features)) for k in (v_key, x_key))
        log_step = jnp.log(jnp.asarray(0.1, jnp.float64))
        return LeapfrogLayer(v_network, x_network, random_mask(mask_key, target.shape), log_step, log_step, rule)

    return lambda: LayerStack.build(layer, jax.random.key(7), 2)
