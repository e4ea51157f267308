"""The benchmark of gauge groups counts what it should, and the force by autodiff is the force."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.gauge_bench import AutodiffPlaquette, Case
from rich.console import Console

from benchmarks import gauge_bench
from dlhmc.targets.contract import with_actions
from dlhmc.theories.gauge.field import wilson


def test_flops_are_those_of_the_products():
    """A product of 3×3 matrices takes 198; ten of them for the force of a link in four dimensions, two to move it."""
    assert Case("su3", (8, 8, 8, 8), 1, 6.0).flops == 12 * 198
    assert Case("u2", (16, 16), 1, 12.0).flops == (3 + 1 + 1) * 56


def test_links_are_those_of_all_chains():
    assert Case("su3", (4, 4, 4, 4), 8, 6.0).links == 4 * 4**4 * 8


@pytest.mark.slow  # a rival in the benchmark; forces of the package are held to autodiff elsewhere
def test_the_force_by_autodiff_is_the_force():
    target = wilson("su2", (2, 3, 4), 2.3)
    x = target.start(jax.random.key(0), "hot", 2, jnp.dtype(jnp.float32))
    rival = with_actions(target, [AutodiffPlaquette(2.3)])
    np.testing.assert_allclose(rival.force(x), target.force(x), atol=1e-4)


@pytest.mark.slow
def test_gauge_groups_are_measured_in_processes_of_their_own():
    cases = (Case("u2", (4, 4), 3, 5.0),)
    found = gauge_bench.measure(1, Console(file=io.StringIO()), cases)
    first = found[gauge_bench.SETTINGS[0]][cases[0]]
    assert min(first[name] for name in ("trajectory", "touch", "products", "autodiff", "blackjax", "heat bath")) > 0
    assert {setting.precision for setting in found} == {"float32", "float64"}
    assert "U(2), 4×4, 3 chains" in gauge_bench.report(found, 1)
