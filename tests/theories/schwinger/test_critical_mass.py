"""What a report and a summary of runs with fermions add."""

import pytest
import xarray as xr

from dlhmc.run.summary import Histories
from dlhmc.theories.derived import warn
from dlhmc.theories.schwinger.figures import critical_mass


def test_critical_mass():
    assert critical_mass(5.0) == pytest.approx(-0.0840)
    assert -0.1968 < critical_mass(2.5) < -0.1351
    assert critical_mass(12.0) == pytest.approx(-0.0719 / 2)
    assert critical_mass(0.5) is None


def test_a_solver_that_gave_up_is_warned_of():
    failures = xr.Variable(("chain", "trajectory"), [[0, 2], [1, 0]])
    (text,) = warn(Histories(xr.Dataset({"solver_failures": failures})))
    assert text.startswith("The solver gave up 3 times, and the proposals were rejected")
