import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dlhmc.numerics import rng

pytestmark = pytest.mark.statistical

KEY = jax.random.key(11)
# Each test below is one Kolmogorov-Smirnov or moment test at a fixed seed; a new seed would fail with probability 1e-3.
P_VALUE = 1e-3


@pytest.mark.parametrize(("draw", "law"), [(rng.uniform, stats.uniform), (rng.normal, stats.norm)])
def test_distribution(draw, law):
    sample = np.asarray(draw(KEY, (101, 33, 64), jnp.float32), np.float64).ravel()
    assert stats.kstest(sample, law.cdf).pvalue > P_VALUE


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("draw", "law"), [(rng.uniform, stats.uniform), (rng.normal, stats.norm)])
def test_distribution_in_double_precision(draw, law):
    sample = np.asarray(draw(KEY, (50, 33, 64), jnp.float64)).ravel()
    assert sample.dtype == np.float64
    assert len(np.unique(sample)) == sample.size  # 53 bits do not collide
    assert stats.kstest(sample, law.cdf).pvalue > P_VALUE


def test_tails_of_the_normal():
    z = np.asarray(rng.normal(KEY, (2**14, 1024), jnp.float32))
    for threshold in (3.0, 4.0, 5.0):
        expected = 2 * stats.norm.sf(threshold) * z.size
        seen = np.count_nonzero(np.abs(z) > threshold)
        assert abs(seen - expected) < 3.5 * np.sqrt(expected)


def test_no_uniform_is_zero_or_one():
    """Box–Muller takes its logarithm. Of 4e9 words one is 0, and 128 are so large that they would be rounded to 1."""
    draw = jax.jit(lambda key: rng.uniform(key, (112, 13394), jnp.float32))
    smallest = np.asarray(draw(jax.random.key(169)))
    assert 0 < smallest.min() == smallest[-1, -1] < 2**-32
    largest = np.asarray(draw(jax.random.key(109)))
    assert 1 - 2**-23 < largest.max() < 1


def test_neighbours_are_independent():
    z = np.asarray(rng.normal(KEY, (2, 64, 64, 64), jnp.float32), np.float64)
    for axis in range(4):
        shifted = np.roll(z, 1, axis)
        # The mean of n products of independent normals has standard deviation 1/√n.
        assert abs((z * shifted).mean()) < 3.5 / np.sqrt(z.size)
        assert abs(((z**2 - 1) * (shifted**2 - 1)).mean()) < 3.5 * 2 / np.sqrt(z.size)


def test_keys_of_steps_and_purposes_differ():
    seen = {
        tuple(jax.random.key_data(rng.step_key(jnp.uint32(seed), purpose, jnp.int32(step))).tolist())
        for seed in range(3)
        for purpose in rng.Purpose
        for step in range(20)
    }
    assert len(seen) == 3 * len(rng.Purpose) * 20


def test_other_keys_give_other_numbers():
    one, other = (rng.normal(jax.random.key(seed), (100, 4), jnp.float32) for seed in (0, 1))
    assert not np.any(one == other)


@pytest.mark.parametrize("draw", [rng.uniform, rng.normal])
@pytest.mark.parametrize("field", [(), (1,), (3,), (2, 5, 3)])
def test_a_chain_does_not_depend_on_the_number_of_chains(draw, field):
    # Compiled as for users: what saves time in tests rounds what is left over after whole vectors in another way.
    for_users = {"xla_backend_optimization_level": 3}
    if sys.version_info < (3, 12):
        for_users["xla_cpu_use_fusion_emitters"] = True
    draw = jax.jit(draw, static_argnums=(1, 2), compiler_options=for_users)
    few, many = (draw(KEY, (*field, chains), jnp.float32) for chains in (5, 13))
    assert few.shape == (*field, 5)
    np.testing.assert_array_equal(few, many[..., :5])


def test_coins_are_fair():
    heads = int(rng.coin(KEY, (1000, 100)).sum())
    assert abs(heads - 50_000) < 3.3 * np.sqrt(100_000) / 2
