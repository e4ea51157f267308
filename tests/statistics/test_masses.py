"""The pion mass from correlated data of which it is known, and its figures."""

import numpy as np
import pytest

from dlhmc.run.summary import Histories
from dlhmc.statistics.masses import cosh_fit, masses
from dlhmc.theories.schwinger.figures import critical_mass
from dlhmc.theories.schwinger.theory import SchwingerTheory

MASS, HALF = 0.4, 8


def measurements(seed, rows=400, chains=16, memory=0.6, excited=0.3, mass=MASS):
    """C(t) with a second, heavier state, and noise that is correlated in time and from trajectory to trajectory."""
    generator = np.random.default_rng(seed)
    from_middle = HALF - np.arange(HALF + 1)
    mean = np.cosh(mass * from_middle) + excited * np.cosh(5 * mass * from_middle) / np.cosh(5 * mass * HALF) * 20
    # Smooth over a few times, and for the most part the same at all of them.
    mixing = 0.3 * np.exp(-0.5 * (np.subtract.outer(np.arange(9), np.arange(9)) / 1.5) ** 2) + 0.7
    noise = np.empty((rows, HALF + 1, chains))
    noise[0] = generator.normal(size=noise[0].shape)
    for row in range(1, rows):
        noise[row] = memory * noise[row - 1] + np.sqrt(1 - memory**2) * generator.normal(size=noise[0].shape)
    return mean[:, None] * (1 + 0.03 * np.einsum("st,rtc->rsc", mixing, noise)), mean


def series(data):
    return [data[:, t] for t in range(data.shape[1])]


def test_the_mass_is_found_behind_a_heavier_state():
    fit = cosh_fit(series(measurements(1)[0]))
    assert fit.first > 1
    # 4 σ, with the heavier state a little beside it.
    assert abs(fit.mass.value - MASS) < 4 * fit.mass.error
    assert fit.mass.error < 0.02 * MASS


@pytest.mark.parametrize(("square", "first"), [(4.9, 1), (7.5, 2)])
def test_the_fit_begins_where_a_worse_one_is_improbable(square, first):
    """C(t) at t = 1 … 4, less two parameters: χ² = 6.0 is exceeded in a twentieth of all cases."""
    time = np.arange(3, -1, -1)
    slopes = np.stack([np.ones(4), time * np.tanh(MASS * time)], axis=1)
    # No parameter can follow in this direction: χ² is the square of the distance in errors.
    away = np.append(0, np.linalg.qr(slopes, mode="complete")[0][:, 2])
    number = 8000
    columns = np.random.default_rng(1).normal(size=(number, 6))
    columns[:, 0] = 1
    noise = np.sqrt(number) * np.linalg.qr(columns)[0][:, 1:] + np.sqrt(square / number) * away
    data = np.cosh(MASS * np.arange(4, -1, -1)) * (1 + 0.01 * noise)
    fit = cosh_fit(series(np.swapaxes(data.reshape(-1, 8, 5), 1, 2)))
    assert fit.first == first
    assert abs(fit.mass.value - MASS) < 5 * fit.mass.error


@pytest.mark.statistical
def test_the_error_is_the_spread_of_fits():
    """Autocorrelation and correlations are in it: without the first it would be half as large."""
    fits = [cosh_fit(series(measurements(seed, rows=200, chains=8, excited=0.0)[0])).mass for seed in range(60)]
    pulls = np.array([(fit.value - MASS) / fit.error for fit in fits])
    # The spread of 60 pulls is known to 9 %: so far off by chance with probability below 1e-3.
    assert 0.7 < pulls.std() < 1.35
    assert abs(pulls.mean()) < 0.5


def test_where_nothing_can_be_fitted():
    data, _ = measurements(3, rows=100, chains=8)
    noise = np.random.default_rng(5).normal(size=data.shape)
    lost = np.where(np.arange(HALF + 1)[:, None] > 2, noise, data)
    assert cosh_fit(series(lost)) is None
    assert cosh_fit(series(data[:2, :, :4])) is None
    assert masses({"eta": lambda t: lost[:, t]}, HALF + 1) == {}
    # Noise from t = 6 on is left out.
    tail = np.where(np.arange(HALF + 1)[:, None] > 5, noise, data)
    assert abs(cosh_fit(series(tail)).mass.value - MASS) < 0.2 * MASS


def test_critical_mass():
    assert critical_mass(5.0) == pytest.approx(-0.0840)
    assert -0.1968 < critical_mass(2.5) < -0.1351
    assert critical_mass(12.0) == pytest.approx(-0.0719 / 2)
    assert critical_mass(0.5) is None


def test_a_solver_that_gave_up_is_warned_of():
    failures = np.array([[0, 2], [1, 0]])
    histories = Histories(
        (2, 2), "cold", {"solver_failures": ()}, lambda *_: failures, lambda name: float(failures.sum())
    )
    (text,) = SchwingerTheory().warnings(histories)
    assert text.startswith("The solver gave up 3 times, and the proposals were rejected")
