"""Ratios with errors and limits; a stream of histories."""

import math

import numpy as np
import pytest

from dlhmc.comparison.results import NOTHING, Quantity, ratio
from dlhmc.comparison.streams import Streams


def test_a_ratio_of_values_has_the_error_of_both():
    gain = ratio(Quantity.measured(1000.0, 60.0), Quantity.measured(10.0, 0.8))
    assert gain.value == pytest.approx(100)
    assert gain.error == pytest.approx(100 * math.hypot(0.06, 0.08))
    assert gain.times(2.0, 0.24).error == pytest.approx(200 * math.hypot(0.1, 0.24))


def test_a_lower_bound_of_hmc_is_one_of_the_ratio():
    own = Quantity.measured(10.0, 1.0)
    gain = ratio(Quantity(lower=2000.0), own)
    assert gain.value is None
    assert gain.error is None
    assert gain.upper is None
    assert gain.lower == pytest.approx(2000 / (10 + 1.645), rel=1e-3)
    assert gain.times(3.0).lower == pytest.approx(3 * gain.lower)


def test_a_sampler_that_is_only_bounded_is_slower_than_so_much():
    gain = ratio(Quantity.measured(100.0, 10.0), Quantity(lower=1000.0))
    assert gain.value is None
    assert gain.lower is None
    assert gain.upper == pytest.approx(0.11645, rel=1e-3)
    assert ratio(Quantity(lower=1.0), Quantity(lower=1.0)) == NOTHING
    assert ratio(Quantity.measured(1.0, 0.1), Quantity.measured(0.0, 0.0)) == NOTHING  # N_LF = 0


def test_streams_grow_and_are_read_back(tmp_path):
    rng = np.random.default_rng(1)
    charges = rng.integers(-5, 6, (300, 3)).astype(np.float32)
    sines = rng.normal(size=(300, 3)).astype(np.float32)
    streams = Streams(("charge", "sine"), "charge", 3)
    for first, last in ((0, 1), (1, 63), (63, 65), (65, 65), (65, 300)):
        streams.extend({"charge": charges[first:last], "sine": sines[first:last], "other": charges[first:last]})
    assert streams.rows == 300
    streams.save(tmp_path / "a.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        assert archive.files == ["charge", "sine"]
        assert archive["charge"].dtype == np.int16
        assert archive["sine"].dtype == np.float32
        np.testing.assert_array_equal(archive["charge"], charges)
        np.testing.assert_array_equal(archive["sine"], sines)
