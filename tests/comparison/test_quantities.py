"""Ratios with errors and limits, and what tables make of them."""

import math

import pytest

from dlhmc.comparison.table import in_words
from dlhmc.statistics.quantity import NOTHING, Quantity, largest, median, ratio


def test_a_ratio_of_values_has_the_error_of_both():
    gain = ratio(Quantity.measured(1000.0, 60.0), Quantity.measured(10.0, 0.8))
    assert gain.value == pytest.approx(100)
    assert gain.error == pytest.approx(100 * math.hypot(0.06, 0.08))
    assert gain.times(2.0, 0.24).error == pytest.approx(200 * math.hypot(0.1, 0.24))


def test_a_lower_limit_of_hmc_is_one_of_the_ratio():
    own = Quantity.measured(10.0, 1.0)
    gain = ratio(Quantity(lower=2000.0), own)
    assert gain.value is gain.error is gain.upper is None
    assert gain.lower == pytest.approx(2000 / (10 + 1.645), rel=1e-3)
    assert gain.times(3.0).lower == pytest.approx(3 * gain.lower)


def test_a_sampler_that_is_only_limited_is_slower_than_so_much():
    gain = ratio(Quantity.measured(100.0, 10.0), Quantity(lower=1000.0))
    assert gain.value is gain.lower is None
    assert gain.upper == pytest.approx(0.11645, rel=1e-3)
    assert ratio(Quantity(lower=1.0), Quantity(lower=1.0)) == NOTHING
    assert ratio(Quantity.measured(1.0, 0.1), Quantity.measured(0.0, 0.0)) == NOTHING  # N_LF = 0


def test_what_is_only_limited_counts_as_the_largest():
    limited = Quantity(lower=3.0)
    assert largest([Quantity.measured(100.0, 1.0), limited, Quantity(lower=2.0)]) == limited


def test_a_median_forgets_a_burst():
    quiet = median([1.0, 1.01, 0.99, 1.0, 1.02, 0.98])
    noisy = median([1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 30.0])
    assert noisy.value == pytest.approx(quiet.value, abs=0.01)
    assert noisy.error < 0.03


def test_limits_are_written_as_limits():
    assert in_words(Quantity(lower=2345.6)) == "> 2350"
    assert in_words(Quantity(upper=0.0123)) == "< 0.0123"
    assert in_words(Quantity.measured(0.00482, 0.00003), 1e3) == "4.82(3)"
    assert in_words(NOTHING) == ""
