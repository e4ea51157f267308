import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.exact import characters
from dlhmc.kernels import HMC, Exact
from dlhmc.theories.gauge.field import U1
from dlhmc.theories.gauge.known import charge
from dlhmc.theories.u1.hits import InstantonHits
from dlhmc.theories.vectors.toys import Gaussian
from unoptimised import unoptimised

pytestmark = pytest.mark.statistical


@pytest.mark.parametrize(("side", "beta"), [pytest.param(16, 7.0, marks=pytest.mark.slow), (8, 4.0)])
def test_acceptance_of_a_hit(side, beta):
    """Almost exactly 1 − P(0): a hit moves the whole distribution of the charge by one."""
    target = U1((side, side), beta)
    kernel = InstantonHits(Exact(target, target.exact_draws()), 1)
    chains = 5000
    state = kernel.init(target.start(jax.random.key(0), "cold", chains, jnp.float32))
    state, info = eqx.filter_jit(kernel.step)(jax.random.key(1), state)
    expected = 1 - float(characters.charge_distribution(1, beta, side**2, 0))
    # Binomial: 4 σ fails at a new seed with probability 6e-5.
    assert abs(float(info.accepted_moves["hits"].mean()) - expected) < 4 * np.sqrt(expected * (1 - expected) / chains)


def test_an_accepted_hit_changes_the_charge_by_one():
    target = U1((8, 8), 4.0)
    draws = target.exact_draws()
    x = unoptimised(draws.draw)(jax.random.key(0), 500, jnp.dtype(jnp.float32))
    kernel = InstantonHits(HMC(target, 1e-6, 1), 1)
    state, info = eqx.filter_jit(kernel.step)(jax.random.key(1), kernel.init(x))
    change = np.abs(unoptimised(lambda x, y: charge(x) - charge(y))(state.x, x))
    np.testing.assert_array_equal(change, info.accepted_moves["hits"])


def test_hits_need_the_gauge_theory():
    with pytest.raises(TypeError, match="links are angles"):
        InstantonHits(HMC(Gaussian([1.0]), 0.1, 1), 1)
