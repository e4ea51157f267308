"""t₀ and w₀ of a curve that is known, with noise that is."""

import numpy as np
import pytest

from dlhmc.statistics.scales import reference_scales

TIMES = np.arange(0.0, 4.01, 0.05)


def test_errors_are_those_of_the_energy_divided_by_the_slope_at_the_scale():
    """For t²E = 0.1 t², t₀ = √3 and w₀⁴ = 1.5; all energies fluctuate by one hundredth, and together."""
    noise = np.random.default_rng(0).normal(size=(2000, 8))
    found = reference_scales(TIMES, lambda k: 0.1 * TIMES[k] ** 2 * (1 + 0.01 * noise))
    error = 0.01 / np.sqrt(noise.size)
    # Of t₀ and of w₀², by d log(t²E) = 2 d log t
    assert found["t0"].value == pytest.approx(np.sqrt(3), abs=4 * found["t0"].error)
    assert found["t0"].error == pytest.approx(np.sqrt(3) / 2 * error, rel=0.1)
    assert found["w0"].value == pytest.approx(1.5**0.25, abs=4 * found["w0"].error)
    assert found["w0"].error == pytest.approx(1.5**0.25 / 4 * error, rel=0.1)


def test_scales_that_are_not_reached_are_left_out():
    flat = np.full((10, 4), 0.1)
    assert reference_scales(TIMES, lambda k: flat) == {}
    assert reference_scales(TIMES[:3], lambda k: flat) == {}
    # A flow that begins above the reference does not cross it.
    assert reference_scales(TIMES, lambda k: flat + 0.3) == {}
