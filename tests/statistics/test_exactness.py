import numpy as np
import pytest
from scipy.special import erfcinv

from dlhmc.statistics import check_exactness, check_temperature


def sound(acceptance: float, shape: tuple[int, int], seed: int) -> np.ndarray:
    """ΔH ~ N(s²/2, s²), which has ⟨e^{−ΔH}⟩ = 1, with s from ⟨A⟩ = erfc(s/√8)."""
    s = np.sqrt(8) * erfcinv(acceptance)
    return np.random.default_rng(seed).normal(s**2 / 2, s, size=shape)


@pytest.mark.parametrize("acceptance", [0.1, 0.6, 0.7, 0.8, 0.9, 0.99])
def test_sound_runs_raise_no_alarm(acceptance: float) -> None:
    # At a new seed a run fails with a probability of 1e-5: see check_exactness.
    for seed in range(200):
        assert check_exactness(sound(acceptance, (100, 8), seed)).alarms == ()


def test_a_mean_below_one_by_unseen_weights_is_no_alarm() -> None:
    # At an acceptance of 0.1 the mean is made by weights that a run of this length does not see.
    found = check_exactness(sound(0.1, (100, 8), 2))
    assert found.weight.value + 4 * found.weight.error < 1
    assert found.alarms == ()


@pytest.mark.parametrize("shift", [-2.0, -0.3, 0.3, 2.0])
def test_energies_that_are_off_are_found(shift: float) -> None:
    found = check_exactness(sound(0.8, (1000, 8), 3) + shift)
    assert found.weight.value == pytest.approx(np.exp(-shift), rel=0.1)
    assert any("tanh" in alarm for alarm in found.alarms)
    assert any("e^{−ΔH}" in alarm for alarm in found.alarms) == (shift < 0)


@pytest.mark.parametrize("energy", [-14.0, -56.0, -300.0, -1e30])
def test_one_enormous_weight_is_found(energy: float) -> None:
    """The mean is then about as large as its error."""
    change = sound(0.8, (1000, 8), 4)
    change[0, 0] = energy
    found = check_exactness(change)
    assert found.weight.value - 1 < 2 * found.weight.error
    (alarm,) = found.alarms
    assert alarm.startswith("⟨e^{−ΔH}⟩ = ")


@pytest.mark.parametrize("drop", [4.0, 6.0, 15.0, 100.0])
def test_a_warm_up_that_was_too_short_is_found(drop: float) -> None:
    change = sound(0.8, (1000, 8), 5)
    change[:5] -= drop
    assert check_exactness(change).alarms


def test_rare_large_weights_of_a_heavy_tail_are_no_alarm() -> None:
    change = sound(0.8, (1000, 8), 6)
    change[:100] = 9.0  # 800 · e^{−9} = 0.1
    change[0, 0] = -9.0
    assert check_exactness(change).weight.value > 1.5
    assert check_exactness(change).alarms == ()


@pytest.mark.parametrize("change", [0.0, np.nan, np.inf, -np.inf])
def test_where_nothing_is_proposed_there_is_no_alarm(change: float) -> None:
    found = check_exactness(np.full((10, 4), change))
    assert found.alarms == ()
    assert (found.weight.value, found.balance.value) == (float(change == 0), 0)
    if change == 0:
        assert (found.weight.error, found.balance.error) == (0, 0)


def test_rounding_errors_are_no_alarm() -> None:
    change = 1e-5 + 1e-6 * np.random.default_rng(6).normal(size=(1000, 8))
    assert check_exactness(change).alarms == check_exactness(-change).alarms == ()


@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (2, 4), (4, 1)])
def test_the_shortest_runs(shape: tuple[int, int]) -> None:
    for seed in range(100):
        assert check_exactness(sound(0.99, shape, seed)).alarms == ()


def test_temperatures_of_sound_runs_raise_no_alarm_however_short():
    """Skewed, and slow; at 4σ one in 16,000 would fail by chance."""
    random = np.random.default_rng(5)
    alarms = 0
    for shape in [(1, 4), (3, 4), (2, 128), (50, 1), (100, 16)] * 400:
        common = np.repeat(random.chisquare(20, (shape[0] // 5 + 1, shape[1])), 5, axis=0)[: shape[0]]
        slope = common * random.chisquare(20, shape) / 20
        alarms += len(check_temperature(slope, common * random.chisquare(20, shape) / 20).alarms)
    assert alarms <= 2


@pytest.mark.parametrize("factor", [0.98, 1.02])
def test_temperatures_that_are_off_raise_one(factor):
    random = np.random.default_rng(6)
    slope, curvature = random.chisquare(200, (2, 400, 8))
    found = check_temperature(factor * slope, curvature)
    assert len(found.alarms) == 1
    assert found.value.value == pytest.approx(factor, abs=4 * found.value.error)


def test_numbers_that_are_not_finite_are_left_out_of_temperatures():
    random = np.random.default_rng(7)
    slope, curvature = random.chisquare(200, (2, 400, 8))
    slope[3, 2], curvature[5, 1] = np.nan, np.inf
    assert check_temperature(slope, curvature).alarms == ()
