"""The benchmark of networks counts what it should, and says when it was disturbed."""

import equinox as eqx
import jax
import pytest
from benchmarks.network_bench import PAPER

from benchmarks import network_bench


def test_work_is_that_of_the_weights():
    plan = PAPER.plan()
    assert plan.network.hidden == PAPER.hidden
    trajectory = eqx.filter_eval_shape(
        plan.network.completed(plan.target.build()).build, plan.target.build(), jax.random.key(0)
    )
    matrices = [leaf for leaf in jax.tree.leaves(trajectory) if leaf.ndim == 3 and leaf.shape[1] > 2]
    # A multiplication and an addition for each weight and chain; both networks of a layer act twice.
    assert network_bench.flops_of_sampling(PAPER) == 2 * 2 * PAPER.chains * sum(m.size for m in matrices)


@pytest.mark.slow
def test_networks_are_measured():
    small = PAPER._replace(lattice=(4, 4), hidden=(8,), leapfrog_steps=2, chains=16)
    rates = network_bench.measure(small, rounds=1, square=64)
    assert min(rates) > 0
    text = network_bench.report(small, rates, 1)
    assert "| training |" in text
    assert "4×4" in text


def test_a_disturbed_measurement_says_so():
    quiet = network_bench.Rates(square=100e9, narrow=80e9, sampling=50e9, training=40e9, compilation=10.0)
    text = network_bench.report(PAPER, quiet, 1)
    assert "busy" not in text
    assert "| training |" in text
    assert "16×16" in text
    assert "busy" in network_bench.report(PAPER, quiet._replace(square=60e9), 1)
