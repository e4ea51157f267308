"""Checks of networks, alone and in layers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from dlhmc.layers import LayerStack, LeapfrogLayer
from dlhmc.layers.masks import random_mask
from dlhmc.layers.position import RULES, default_rule
from dlhmc.networks.contract import SQT, Network, NetworkFactory, Zeta
from dlhmc.numerics.leaves import in_double
from dlhmc.targets.contract import Target
from dlhmc.testing.checks import CHAINS, Checked, Problems, bad_numbers, example, mixed_chains, run_checks
from dlhmc.testing.trajectory import jacobians_agree, round_trips, with_random_weights
from dlhmc.training import Algorithm, jump_loss, train


def check_network(make_network: NetworkFactory, target: Target) -> Checked:
    """A network, made from (key, geometry), must fit the momenta, keep chains apart, and make exact layers.

    >>> from dlhmc import Dense, Gaussian
    >>> check_network(lambda key, geometry: Dense(key, geometry, (4,)), Gaussian([1.0, 2.0, 3.0])).passed[0]
    'outputs'
    """
    geometry = target.geometry

    def make() -> Network:
        return in_double(with_random_weights(make_network(jax.random.key(0), geometry), 0.3))

    def zeta() -> Zeta:
        x = example(target)
        return Zeta(geometry.features(x), target.force(x))

    def outputs() -> Problems:
        found: Any = make()(zeta())
        if not isinstance(found, SQT):
            yield f"it returns a {type(found).__name__}, not SQT(s, q, t)"
            return
        for name, value in found._asdict().items():
            yield from bad_numbers(name, value, (*geometry.momentum_shape, CHAINS))

    def chains() -> Problems:
        network = make()
        yield from mixed_chains(lambda given: network(given)._asdict(), zeta(), 1e-10)

    def trainable() -> Problems:
        network = make_network(jax.random.key(0), geometry)
        if not jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)):
            yield "there is nothing to train: it has no floating-point arrays"

    # Layers take long to compile, and need networks that are right.
    first = run_checks("the network", {"outputs": outputs, "chains": chains, "parameters": trainable})
    rule = RULES[default_rule(geometry)]()

    def layer(key: Array) -> LeapfrogLayer:
        v_key, x_key, mask_key = jax.random.split(key, 3)
        v_network, x_network = (in_double(make_network(k, geometry)) for k in (v_key, x_key))
        log_step = jnp.log(jnp.asarray(0.1, jnp.float64))
        return LeapfrogLayer(v_network, x_network, random_mask(mask_key, geometry.elements), log_step, log_step, rule)

    def layers() -> Any:
        return with_random_weights(LayerStack.build(layer, jax.random.key(7), 2), 0.3)

    def training_step() -> Problems:
        algorithm = Algorithm(target, None, jump_loss, optax.sgd(1e-3))
        before = layers()
        after: Any = train(algorithm, before, example(target), steps=1)[0].trajectory
        numbers = [jax.tree.leaves(eqx.filter(it.layers.v_network, eqx.is_array)) for it in (before, after)]
        if all(np.array_equal(old, new) for old, new in zip(*numbers, strict=True)):
            yield "a step of training changes nothing"

    checks = {
        "training": training_step,
        "inverse": lambda: round_trips(layers(), target),
        "Jacobian": lambda: jacobians_agree(layers(), target),
    }
    return Checked(first.passed + run_checks("the network", checks).passed, ())
