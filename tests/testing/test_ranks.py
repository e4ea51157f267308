"""Ranks tell right from wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.kernels import HMC, Info, Kernel, State
from dlhmc.targets.contract import with_gamma
from dlhmc.testing import check_ranks
from dlhmc.theories.gauge.field import U1
from dlhmc.theories.vectors.toys import Gaussian

# `check_stationarity`, which everything else relies on, is tested in the short run.
pytestmark = [pytest.mark.statistical, pytest.mark.slow]


class Faulty(HMC):
    """With a fault of some size; without any if that is zero."""

    fault: jax.Array

    def __init__(self, fault, step_size=0.3):
        super().__init__(U1((4, 4), 2.0), step_size, 3)
        self.fault = jnp.float32(fault)


class Hotter(Faulty):
    """HMC at another temperature than its target's."""

    def step(self, key, state):
        other = with_gamma(self.target, 1 - self.fault)
        return HMC(other, self.step_size, self.steps).step(key, state)


class Turns(Faulty):
    """Leaves the target as it is, but there is no way back: all links are turned by the same angle."""

    def step(self, key, state):
        state, info = super().step(key, state)
        return State.at(self.target, self.target.geometry.project(state.x + self.fault)), info


# An exact kernel fails with probability 1e-3 at a new seed.
@pytest.mark.parametrize("seed", [1, 2])
def test_ranks_of_an_exact_kernel_are_uniform(seed):
    result = check_ranks(Hotter(0.0), chains=10_001, seed=seed)
    assert result.p_value > 1e-3, result
    assert all(counts.sum() == 10_001 for counts in result.counts.values())


def test_ranks_find_a_wrong_temperature():
    result = check_ranks(Hotter(0.2), chains=10_001, seed=1)
    assert result.p_value < 1e-9, result


@pytest.mark.slow
def test_ranks_find_a_kernel_that_is_not_reversible():
    assert check_ranks(Turns(0.0, 0.05), chains=10_001, seed=1).p_value > 1e-3
    assert check_ranks(Turns(0.1, 0.05), chains=10_001, seed=1).p_value < 1e-9


class Halves(Kernel):
    """Draws one of two independent components anew: which one is drawn for all chains together."""

    target: Gaussian

    def step(self, key, state):
        which, value = jax.random.split(key)
        drawn = jax.random.normal(value, state.x.shape[-1:])
        x = state.x.at[jax.random.randint(which, (), 0, 2)].set(drawn)
        one = jnp.ones(x.shape[-1], x.dtype)
        return State.at(self.target, x), Info(one, one > 0, 0 * one, one < 0)


def test_what_chains_have_in_common_does_not_spoil_their_ranks():
    """With random numbers for all chains together p is below 1e-9."""
    assert check_ranks(Halves(Gaussian(np.ones(2))), chains=10_001, seed=1).p_value > 1e-3
