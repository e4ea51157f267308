import dataclasses
import itertools
import re

import numpy as np
import pytest
from scipy import signal

from dlhmc.run.monitor import Monitor
from dlhmc.targets.contract import Moment, Target
from dlhmc.theories.gauge.field import U1

TARGET = U1((4, 4), beta=2.0)


def records(rows, chains=4):
    generator = np.random.default_rng(5)
    return {
        "plaquette": generator.normal(0.7, 0.1, (rows, chains)).astype(np.float32),
        "charge": generator.integers(-1, 2, (rows, chains)).astype(np.float32),
        "accepted": generator.integers(0, 2, (rows, chains)).astype(np.int8),
        "nonfinite": np.zeros((rows, chains), np.int8),
    }


def cut(rows, first, last):
    return {name: array[first:last] for name, array in rows.items()}


def autoregressive(tau, rows, chains):
    """A Gaussian series with this integrated autocorrelation time."""
    noise = np.random.default_rng(3).normal(size=(rows, chains))
    rho = (2 * tau - 1) / (2 * tau + 1)
    return signal.lfilter([np.sqrt(1 - rho**2)], [1, -rho], noise, axis=0).astype(np.float32)


@pytest.mark.parametrize("tau", [0.5, 3.0, 20.0])
def test_the_time_is_that_of_the_last_rows(tau):
    rows, chains = 40_000, 8
    monitor = Monitor(TARGET, {*records(1)})
    series = records(rows, chains) | {"charge": autoregressive(tau, rows, chains)}
    for first in range(0, rows, 1000):
        monitor.add(cut(series, first, first + 1000))
        facts = monitor.status_line()
    value, _ = re.search(r"τ\(charge\) ([0-9.]+)\(([0-9.]+)\)", facts).groups()
    assert float(value) == pytest.approx(tau, rel=0.25 if tau > 10 else 0.1), facts


@pytest.mark.parametrize("cuts", [[0, 50], [0, 1, 50], [0, 20, 21, 40, 50]])
def test_figures_do_not_depend_on_chunks(cuts):
    rows, monitor = records(50), Monitor(TARGET, {*records(1)})
    for first, last in itertools.pairwise(cuts):
        monitor.add(cut(rows, first, last))
    assert monitor.metrics() == pytest.approx(
        {
            "acceptance": rows["accepted"].mean(),
            "plaquette": rows["plaquette"].mean(dtype=np.float64),
            "tunnelling_rate": np.count_nonzero(np.diff(rows["charge"], axis=0)) / rows["charge"].size,
            "nonfinite_rejected": 0,
        }
    )


def test_the_status_line_is_complete():
    monitor = Monitor(TARGET, {*records(1)})
    assert monitor.status_line() == "warming up"
    rows = records(50)
    monitor.add(rows)
    facts = monitor.status_line()
    assert f"(exact {TARGET.exact()['plaquette']:.4f})" in facts
    for word in ("acceptance", "plaquette", "tunnelling", "τ(charge)"):
        assert word in facts
    assert "not finite" not in facts
    rows["nonfinite"][:2] = 1
    monitor.add(rows)
    assert "not finite, rejected 8" in monitor.status_line()


def test_frozen_chains_have_a_lower_bound():
    rows, monitor = records(50), Monitor(TARGET, {*records(1)})
    rows["charge"][:] = 1
    monitor.add(rows)
    assert "τ(charge) > " in monitor.status_line()


def with_arrays():
    """A target whose first moment and first slow observable are arrays."""
    moments = {"loops": Moment("loops"), **TARGET.known.moments}
    slow = {"loops": None, **TARGET.known.slow(TARGET)}
    known = dataclasses.replace(TARGET.known, moments=moments, slow=lambda target: slow)
    return Target(TARGET.geometry, TARGET.actions, TARGET.observables, known)


def test_arrays_are_passed_over():
    rows = records(50)
    arrays, plain = Monitor(with_arrays(), {*records(1)}), Monitor(TARGET, {*records(1)})
    arrays.add({"loops": np.zeros((50, 3, 4), np.float32)} | rows)
    plain.add(rows)
    assert arrays.status_line() == plain.status_line()
    assert arrays.metrics() == plain.metrics()


def test_a_kernel_need_not_record_anything():
    rows = {name: values for name, values in records(50).items() if name in ("plaquette", "charge")}
    monitor = Monitor(TARGET, {*rows})
    monitor.add(rows)
    assert monitor.metrics().keys() == {"plaquette", "tunnelling_rate"}
    assert monitor.status_line().startswith("plaquette")
