"""Masses from correlated data of which they are known."""

import numpy as np
import pytest

from dlhmc.statistics.masses import average_mass, masses

MASS, HALF = 0.5, 8
TIMES = np.arange(HALF + 1)


def measurements(seed, rows=200, chains=8, memory=0.6, excited=0.0, noise=0.03):
    """C(t) with a second state of the mass 3M, and noise that is correlated in time and between trajectories."""
    generator = np.random.default_rng(seed)
    from_middle = HALF - TIMES
    mean = np.cosh(MASS * from_middle) / np.cosh(MASS * HALF)
    mean += excited * np.cosh(3 * MASS * from_middle) / np.cosh(3 * MASS * HALF)
    # Smooth over a few times, and for the most part the same at all of them.
    mixing = 0.3 * np.exp(-0.5 * (np.subtract.outer(TIMES, TIMES) / 1.5) ** 2) + 0.7
    independent = generator.normal(size=(rows, HALF + 1, chains))
    for row in range(1, rows):
        independent[row] = memory * independent[row - 1] + np.sqrt(1 - memory**2) * independent[row]
    return mean[:, None] * (1 + noise * np.einsum("st,rtc->rsc", mixing, independent))


def series(data):
    return [data[:, t] for t in range(data.shape[1])]


@pytest.mark.statistical
@pytest.mark.parametrize(("excited", "noise"), [(0.0, 0.03), (0.5, 0.03), (0.5, 0.3)])
def test_the_error_is_the_distance_from_the_mass(excited, noise):
    """Mean squares of 200 pulls were 0.87, 0.74 and 1.08: of unit normals, 60 are outside of these bounds in 0.1 %.

    A fit from the first time on from which one state is not improbable had 1.2, 8.4 and 5.5. Without autocorrelation
    errors would be half as large.
    """
    fits = [average_mass(series(measurements(seed, excited=excited, noise=noise))).mass for seed in range(60)]
    pulls = np.array([(fit.value - MASS) / fit.error for fit in fits])
    assert 0.5 < np.mean(pulls**2) < 1.65
    assert abs(pulls.mean()) < 0.5
    assert np.median([fit.error for fit in fits]) < 0.01 * MASS


@pytest.mark.parametrize(("gain", "first"), [(1.5, 1), (2.5, 2)])
def test_a_time_is_left_out_where_that_gains_more_than_it_costs(gain, first):
    """C(t) at t = 1 … 4: without the first time χ² must be smaller by 2."""
    time = np.arange(3, -1, -1)
    slopes = np.stack([np.ones(4), time * np.tanh(MASS * time)], axis=1)
    # No parameter can follow in this direction: χ² is the square of the distance in errors.
    away = np.linalg.qr(slopes, mode="complete")[0][:, 2]
    stays = np.linalg.qr(slopes[1:], mode="complete")[0][:, 2] @ away[1:]
    square = gain / (1 - stays**2)
    number = 8000
    columns = np.random.default_rng(1).normal(size=(number, 6))
    columns[:, 0] = 1
    noise = np.sqrt(number) * np.linalg.qr(columns)[0][:, 1:] + np.sqrt(square / number) * np.append(0, away)
    data = np.cosh(MASS * np.arange(4, -1, -1)) * (1 + 0.01 * noise)
    fit = average_mass(series(np.swapaxes(data.reshape(-1, 8, 5), 1, 2)))
    assert fit.first == first
    assert abs(fit.mass.value - MASS) < 5 * fit.mass.error


def test_where_nothing_can_be_fitted():
    data = measurements(3, rows=100)
    noise = np.random.default_rng(5).normal(size=data.shape)
    lost = np.where(TIMES[:, None] > 2, noise, data)
    assert average_mass(series(lost)) is None
    assert average_mass(series(data[:2, :, :4])) is None
    assert masses({"eta": lambda t: lost[:, t]}, HALF + 1) == {}
    # Noise from t = 6 on is left out.
    tail = np.where(TIMES[:, None] > 5, noise, data)
    assert abs(average_mass(series(tail)).mass.value - MASS) < 0.2 * MASS
