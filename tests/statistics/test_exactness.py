import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.special import erfcinv

from dlhmc.statistics import check_exactness, check_temperature, gamma_method
from dlhmc.statistics.uncertainty import error_of_mean


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
    # More than so many proposals could hide, but less than rounding may do; then more than that.
    assert check_exactness(change - 6e-4).alarms == ()
    assert check_exactness(change - 3e-3).alarms != ()


def test_the_balance_is_of_half_of_the_change() -> None:
    found = check_exactness(np.full((10, 4), 0.5))
    assert found.balance.value == pytest.approx(np.exp(-0.5) * np.tanh(0.25))


def test_the_balance_is_trusted_up_to_bernsteins_bound() -> None:
    """Of 8000 proposals it is at 4.7 errors."""
    for shift in np.linspace(0.01, 0.1, 40):
        found = check_exactness(sound(0.8, (1000, 8), 3) + shift)
        errors = abs(found.balance.value) / found.balance.error
        if not 4.5 < errors < 5.2:
            assert any("tanh" in alarm for alarm in found.alarms) == (errors > 5)


def test_a_single_large_weight_is_judged_at_every_depth() -> None:
    """Eight depths make it eight times as likely: −12.4 would be an alarm at a single one."""
    change = np.zeros((1000, 8))
    change[0, 0] = -12.4
    assert check_exactness(change).alarms == ()
    change[0, 0] = -13.6
    assert check_exactness(change).alarms != ()


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


def test_rounding_errors_of_temperatures_are_no_alarm():
    curvature = np.full((400, 8), 100.0)
    slope = curvature + 1e-5 * np.random.default_rng(9).normal(size=(400, 8))
    assert check_temperature(slope + 7e-3, curvature).alarms == ()
    assert check_temperature(slope + 2e-2, curvature).alarms != ()


def test_the_error_of_a_temperature_is_relative():
    slope, curvature = np.random.default_rng(8).chisquare(200, (2, 400, 8))
    assert check_temperature(slope, curvature).value.error == pytest.approx(np.sqrt(800 / 3200) / 200, rel=0.1)


@pytest.mark.parametrize(("time", "steps", "chains", "resolved"), [(20.0, 400, 1, True), (1e9, 50, 4, False)])
def test_few_independent_temperatures_need_a_larger_deviation(time, steps, chains, resolved):
    """A t of about ten independent numbers, or of four chains: 4σ is at 7 and at 26."""
    memory = (2 * time - 1) / (2 * time + 1)
    noise = np.random.default_rng(5).normal(size=(steps, chains))
    noise[1:] *= np.sqrt(1 - memory**2)
    fluctuations = lfilter([1.0], [1.0, -memory], noise, axis=0)
    fluctuations -= fluctuations.mean()
    curvature = np.full((steps, chains), 100.0)
    analysis = gamma_method(fluctuations)
    assert analysis.tau.resolved == resolved
    error = error_of_mean(analysis)
    assert check_temperature(curvature + fluctuations + 5 * error, curvature).alarms == ()
    assert check_temperature(curvature + fluctuations + 40 * error, curvature).alarms != ()


def test_numbers_that_are_not_finite_are_left_out_of_temperatures():
    random = np.random.default_rng(7)
    slope, curvature = random.chisquare(200, (2, 400, 8))
    slope[3, 2], curvature[5, 1] = np.nan, np.inf
    assert check_temperature(slope, curvature).alarms == ()
