"""The mean of e^{−ΔH} is tested where its weights are so uneven that the mean itself is of no use."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.testing.stationarity import bounded_weight

pytestmark = pytest.mark.statistical

CHAINS = 10_000
# Of proposals in equilibrium ΔH is normal with half its variance as mean, if there are many degrees of freedom.
VARIANCE = 6.0

weights = jax.jit(bounded_weight)


def pulls(of, mean, repeats=500):
    """How far the mean of a function of ΔH is from 0, in standard errors."""
    rng = np.random.default_rng(1)
    changes = mean + np.sqrt(VARIANCE) * rng.standard_normal((repeats, CHAINS))
    values = np.asarray(of(changes.astype(np.float32)), np.float64)
    return values.mean(axis=1) / (values.std(axis=1) / np.sqrt(CHAINS))


def test_false_alarms_are_as_rare_as_stated():
    # Beyond 3 σ there is 1.3 of 500; more than 7 come about at a new seed with probability 8e-5.
    assert np.sum(np.abs(pulls(weights, VARIANCE / 2)) > 3) <= 7
    # Of e^{−ΔH} itself there are 29.
    assert np.sum(np.abs(pulls(lambda d: np.exp(-d) - 1, VARIANCE / 2)) > 3) > 15


def test_a_wrong_energy_change_is_seen():
    assert np.median(pulls(weights, 0.8 * VARIANCE / 2)) > 5


def test_what_is_not_finite_is_left_out():
    numbers = weights(jnp.asarray([0.0, 1e30, -1e30, jnp.inf, -jnp.inf, jnp.nan], jnp.float32))
    np.testing.assert_array_equal(numbers, [0, 0, 1, 0, 0, 0])
