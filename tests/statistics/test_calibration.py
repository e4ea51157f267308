"""`make calibrate` on few runs: that it runs, and that it says what is wrong."""

import calibrate
import numpy as np


def test_a_few_runs():
    pulls, alarms = calibrate.calibrate(runs=3, chains=4, trajectories=200, seed=1)
    assert set(pulls) == {"plaquette", "charge_squared", "tau_int_charge"}
    for values in pulls.values():
        assert values.shape == (3,)
        assert np.nanmax(np.abs(values)) < 6
    assert not alarms


def test_errors_that_are_off_by_a_tenth_are_wrong():
    unit = np.random.default_rng(1).normal(size=960)
    unit /= unit.std()
    assert not calibrate.verdict({"plaquette": unit}, [])
    assert calibrate.verdict({"plaquette": 0.9 * unit}, []) == ["plaquette: the variance of the pulls is 0.810"]
    assert calibrate.verdict({"plaquette": 1.1 * unit}, []) == ["plaquette: the variance of the pulls is 1.210"]
    assert calibrate.verdict({"plaquette": np.append(unit, np.nan)}, []) == ["plaquette: 1 runs have no error"]
    assert calibrate.verdict({}, ["too hot"]) == ["alarm: too hot"]
