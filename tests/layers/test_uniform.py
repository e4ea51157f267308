"""Uniform layers: HMC before training, exact with any numbers, and what dense networks can start from."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc import DLHMC, U1, Gaussian, wilson
from dlhmc.kernels.integrators import INTEGRATORS, integrate
from dlhmc.layers import Uniform
from dlhmc.models.dense import DenseArchitecture
from dlhmc.models.uniform import UniformArchitecture
from dlhmc.testing import check_stationarity
from unoptimised import shaken, unoptimised

TARGETS = {
    "u1": lambda: U1((4, 6), 2.0),
    "su2": lambda: wilson("su2", (2, 4), 2.0),
    "vector": lambda: Gaussian([1.0, 2.0]),
}


@unoptimised
def phase_of(target):
    x = target.start(jax.random.key(1), "hot", 3, jnp.dtype(jnp.float64))
    return x, target.geometry.momentum(jax.random.key(2), 3, jnp.dtype(jnp.float64))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", TARGETS)
def test_before_training_they_are_hmc(name):
    target = TARGETS[name]()
    x, v = phase_of(target)
    end = unoptimised(Uniform.start(3, 0.2).forward)(target, x, v)
    expected = unoptimised(integrate)(target, INTEGRATORS["leapfrog"], x, v, jnp.asarray(0.2), jnp.int32(3))
    np.testing.assert_allclose(end.x, expected[0], atol=1e-12)
    np.testing.assert_allclose(end.v, expected[1], atol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("number", [4, 5])
def test_dense_networks_take_them_over(number):
    """The same trajectory, by the paper's layers; what training finds later is theirs."""
    target = U1((4, 6), 2.0)
    architecture = DenseArchitecture(leapfrog_steps=number, hidden=(4,)).completed(target)

    @unoptimised
    def ends(trained, x, v):
        new = architecture.build(target, jax.random.key(0))
        assert architecture.grown(target, new, Uniform.start(number + 1, 0.2)) is None
        assert architecture.grown(target, new, new) is None
        assert UniformArchitecture().grown(target, trained, new) is None
        return [layers.forward(target, x, v) for layers in (trained, architecture.grown(target, new, trained))]

    ours, theirs = ends(shaken(Uniform.start(number, 0.2), 0.4, 1), *phase_of(target))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-10)


class OneScale(Uniform):
    """Heats in both halves."""

    def steps(self, target):
        steps = super().steps(target)
        return steps._replace(scale=jnp.abs(steps.scale))


class SameKick(Uniform):
    """The second half takes the force as the first did."""

    def steps(self, target):
        steps = super().steps(target)
        return steps._replace(kick=steps.kick * jnp.exp(-0.5 * steps.scale))


def stationarity(kind):
    target = U1((4, 4), 2.0)
    layers = shaken(kind.start(4, 0.25), 0.03, 2)
    layers = eqx.tree_at(lambda it: it.scale, layers, layers.scale + 0.04)
    return check_stationarity(DLHMC(target, layers), steps=6, seed=1)


@pytest.mark.statistical
def test_exact_configurations_stay_exact():
    """p below 1e-3 and a pull above 3.3 once in a thousand seeds each."""
    found = stationarity(Uniform)
    assert found.p_value > 1e-3
    assert abs(found.weight_pull) < 3.3
    assert 0.2 < found.acceptance < 0.99


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [OneScale, SameKick])
def test_halves_that_are_not_mirrored_are_found(kind):
    found = stationarity(kind)
    assert found.p_value < 1e-6 or abs(found.weight_pull) > 5
