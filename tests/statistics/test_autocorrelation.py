import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from dlhmc.statistics import (
    Strided,
    autocorrelation,
    autocorrelation_function,
    gamma_method,
    integrated_autocorrelation_time,
)
from dlhmc.statistics.autocorrelation import Mapped

with warnings.catch_warnings():
    # pyerrors imports the deprecated scipy.odr.
    warnings.filterwarnings("ignore", message=".*scipy.odr.*", category=DeprecationWarning)
    import pyerrors

FloatArray = NDArray[np.float64]


def ar1(tau: float, n_time: int, n_chains: int, seed: int) -> FloatArray:
    """Stationary AR(1) chains of unit variance with τ_int = ½(1 + a)/(1 − a)."""
    a = (2 * tau - 1) / (2 * tau + 1)
    noise = np.random.default_rng(seed).normal(size=(n_chains, n_time))
    noise[:, 1:] *= np.sqrt(1 - a**2)
    return np.asarray(lfilter([1.0], [1.0, -a], noise, axis=1)).T


def pyerrors_obs(series: FloatArray, mean: float) -> Any:
    """The Obs with the fluctuations about one mean, so that pyerrors sees the same input as we do."""
    names = [f"ensemble|r{c:04d}" for c in range(series.shape[1])]
    obs = pyerrors.Obs([*(series - mean).T], names, means=[*series.mean(axis=0)])
    obs.gamma_method()
    return obs


def assert_equal_to_pyerrors(series: FloatArray, obs: Any) -> None:
    ours = gamma_method(series)
    (name,) = obs.e_tauint
    np.testing.assert_allclose(ours.error, obs.dvalue, rtol=1e-10)
    np.testing.assert_allclose(ours.tau.value, obs.e_tauint[name], rtol=1e-10)
    np.testing.assert_allclose(ours.tau.error, obs.e_dtauint[name], rtol=1e-10, atol=1e-14)
    assert ours.tau.window == obs.e_windowsize[name]


CASES = [(0.5, 1000, 1), (0.5, 7, 1), (0.5, 5, 3), (3, 501, 1), (10, 5000, 1), (10, 1024, 7), (200, 1000, 4)]


@pytest.mark.parametrize(("tau", "n_time", "n_chains"), CASES)
def test_equals_pyerrors_on_fluctuations_about_the_global_mean(tau: float, n_time: int, n_chains: int) -> None:
    series = 3 + ar1(tau, n_time, n_chains, seed=1)
    assert_equal_to_pyerrors(series, pyerrors_obs(series, float(series.mean())))


@pytest.mark.parametrize(("tau", "n_time", "n_chains"), CASES)
def test_equals_plain_pyerrors_when_replica_means_agree(tau: float, n_time: int, n_chains: int) -> None:
    series = ar1(tau, n_time, n_chains, seed=2)
    series += 3 - series.mean(axis=0)
    obs = pyerrors.Obs([*series.T], [f"ensemble|r{c:04d}" for c in range(n_chains)])
    obs.gamma_method()
    assert_equal_to_pyerrors(series, obs)
    np.testing.assert_allclose(gamma_method(series).mean, obs.value, rtol=1e-10)


def test_known_mean_equals_pyerrors_without_the_bias_correction() -> None:
    series = ar1(10, 2000, 3, seed=3)
    ours, obs = integrated_autocorrelation_time(series, 0.0), pyerrors_obs(series, 0.0)
    correction = (1 + (2 * ours.window + 1) / series.size) / (1 + 1 / series.size)
    np.testing.assert_allclose(ours.value * correction, obs.e_tauint["ensemble"], rtol=1e-10)
    assert ours.window == obs.e_windowsize["ensemble"]


@pytest.mark.parametrize(("n_time", "n_chains"), [(400, 1), (101, 3)])
def test_autocorrelation_function_equals_pyerrors(n_time: int, n_chains: int) -> None:
    series = ar1(5, n_time, n_chains, seed=4)
    obs = pyerrors_obs(series, float(series.mean()))
    window = obs.e_windowsize["ensemble"]
    ours = autocorrelation_function(series, max_lag=n_time)
    np.testing.assert_allclose(ours.rho, obs.e_rho["ensemble"], rtol=0, atol=1e-10)
    # pyerrors fills in the error at its window only.
    np.testing.assert_allclose(ours.error[window], obs.e_drho["ensemble"][window], rtol=1e-10)
    assert ours.error[0] == 0
    assert autocorrelation_function(series).rho.size == min(2 * window, n_time // 2 - 1) + 1


# With S = 1 the relative error of τ_int is 1.8 % for τ_int = 1000, 1.6 % for 100 and at most 1.1 % otherwise:
# 5 % is exceeded by chance with probability 0.6 %, 0.2 % and below 1e-5.
@pytest.mark.parametrize(
    ("tau", "n_time", "n_chains"),
    [
        (1, 2**14, 32),
        (3, 2**15, 32),
        (10, 2**16, 32),
        (100, 2**18, 32),
        pytest.param(1000, 2**19, 128, marks=pytest.mark.slow),
    ],
)
def test_recovers_the_autocorrelation_time_of_ar1(tau: float, n_time: int, n_chains: int) -> None:
    ours = gamma_method(ar1(tau, n_time, n_chains, seed=5), s_tau=1.0).tau
    assert ours.resolved
    assert not ours.frozen
    assert ours.value == pytest.approx(tau, rel=0.05)
    assert ours.error < 0.02 * tau
    assert 0.5 <= ours.lower_bound < ours.value


@pytest.mark.parametrize("charges", [[0, 0, 0, 0], [-2, 0, 1, 3], [0.1, 0.1, 0.1, 0.1]])
@pytest.mark.parametrize("mean", [None, 0.0])
def test_frozen_chains_have_infinite_time_and_a_lower_bound(charges: list[float], mean: float | None) -> None:
    ours = integrated_autocorrelation_time(np.tile(charges, (1001, 1)), mean)
    assert ours.frozen
    assert not ours.resolved
    assert ours.value == ours.error == np.inf
    assert ours.lower_bound == pytest.approx(4000 / np.log(20) - 0.5)
    tight = integrated_autocorrelation_time(np.tile(charges, (1001, 1)), mean, variance=2.0)
    assert tight.lower_bound == pytest.approx(4 * 4000 / np.log(20) - 0.5)
    assert (gamma_method(np.tile(charges, (1001, 1)), mean).chain_means == charges).all()
    function = autocorrelation_function(np.tile(charges, (1001, 1)), mean, max_lag=7)
    assert (function.rho == np.ones(8)).all()
    assert np.isnan(function.error).all()


@pytest.mark.parametrize("mean", [None, 0.0])
@pytest.mark.parametrize("where", [1, 500, 996, 999])
def test_a_single_jump_is_not_resolved(where: int, mean: float | None) -> None:
    series = np.zeros((1000, 8))
    series[where:, 3] = 1
    ours = integrated_autocorrelation_time(series, mean)
    assert not ours.frozen
    assert not ours.resolved
    assert np.isfinite([ours.value, ours.error]).all()
    assert ours.lower_bound == pytest.approx(8 * 999 / 4.7439 - 0.5, rel=1e-4)  # Poisson limit for one event


def test_rate_bound_holds_for_a_random_walk_among_charges() -> None:
    # A reversible walk on the integers with stationary weight exp(−Q²/2), whose exact τ_int follows from the
    # transition matrix: it respects the bound derived from the rate of change. Nothing is random here.
    charges = np.arange(-8, 9)
    weight = np.exp(-(charges**2) / 2.0)
    weight /= weight.sum()
    move = 1e-3
    up = move * np.minimum(1, weight[1:] / weight[:-1])
    down = move * np.minimum(1, weight[:-1] / weight[1:])
    matrix = np.diag(up, 1) + np.diag(down, -1)
    matrix += np.diag(1 - matrix.sum(axis=1))
    variance = float(weight @ charges**2)
    rate = float(weight @ (1 - np.diag(matrix)))
    poisson = np.linalg.solve(np.eye(17) - matrix + weight, charges)  # Σ_t (P^t − 1π) Q
    tau = float((weight * charges) @ poisson) / variance - 0.5
    assert tau >= 2 * variance / rate - 0.5
    steps = int(3 / rate)  # as long as it takes to expect three changes
    bound = integrated_autocorrelation_time(np.zeros(steps + 1), 0.0, variance=variance).lower_bound
    assert bound == pytest.approx(2 * variance / rate, rel=0.01)
    assert bound < tau


def test_chains_that_tremble_in_their_sectors_are_not_resolved() -> None:
    """Four short chains: their number closes the window, at W ≈ τ, with an error that is small."""
    tremble = np.random.default_rng(1).normal(scale=0.05, size=(67, 4))
    time = integrated_autocorrelation_time(np.array([-1, 0, 1, 1]) + tremble, 0.0)
    assert time.window < 33  # the largest lag
    assert not time.resolved
    assert 20 < time.lower_bound <= time.value


def test_window_that_never_closes_is_not_resolved() -> None:
    # Chains much shorter than τ_int: the 20 starting points carry all the variance (certain at any seed).
    series = ar1(10_000, 200, 20, seed=6)
    ours = integrated_autocorrelation_time(series, 0.0)
    assert not ours.resolved
    assert ours.window == 99
    assert ours.lower_bound <= ours.value < 10_000


@pytest.mark.parametrize("n_time", [1, 2, 3, 4, 5])
def test_short_series(n_time: int) -> None:
    series = np.random.default_rng(7).normal(size=(n_time, 6))
    ours = integrated_autocorrelation_time(series)
    assert ours.frozen == (n_time == 1)
    assert ours.lower_bound >= 0.5
    if n_time < 4:
        assert not ours.resolved
    assert autocorrelation_function(series).rho[0] == 1


def test_the_shortest_series_that_changes_in_every_step_is_resolved() -> None:
    ours = integrated_autocorrelation_time(np.array([0, 1, 0, 1, 0, 1, 0, 1]))
    assert ours.resolved
    assert ours.lower_bound == 0.5


def test_window_that_closes_before_twice_the_time_is_not_resolved() -> None:
    sectors = [np.array([-1, 1]) + np.random.default_rng(seed).normal(size=(67, 2)) for seed in range(40)]
    times = [integrated_autocorrelation_time(series, 0.0) for series in sectors]
    close = [time for time in times if time.window / 2 < time.value <= time.window < 32]
    assert len(close) > 20
    assert not any(time.resolved for time in close)


def test_lower_bound_is_one_sided() -> None:
    ours = integrated_autocorrelation_time(ar1(10, 5000, 4, seed=10))
    assert ours.lower_bound == pytest.approx(ours.value - 1.6449 * ours.error, rel=1e-5)


def test_autocorrelation_function_about_a_known_mean() -> None:
    series = ar1(3, 300, 2, seed=11)
    products = [np.mean(series[: 300 - t] * series[t:]) for t in range(20)]
    found = autocorrelation_function(series + 5, 5.0, max_lag=19).rho
    np.testing.assert_allclose(found, np.array(products) / products[0], atol=1e-10)


def test_parts_of_series_begin_with_the_first_step_and_are_in_double_precision() -> None:
    series = ar1(1, 10, 4, seed=12).astype(np.float32)
    strided = Strided(series, 3)
    assert strided.shape == (4, 4)
    np.testing.assert_array_equal(strided[:, 1:3], series[::3, 1:3])
    assert Mapped(lambda a: a, series)[:, 1:3].dtype == np.float64


class LazySeries:
    """Stands for a zarr array: slices of a few chains only, never the whole."""

    def __init__(self, values: FloatArray, widest: int) -> None:
        self._values, self._widest = values, widest
        self.shape = values.shape

    def __getitem__(self, key: tuple[slice, slice], /) -> FloatArray:
        times, chains = key
        assert times == slice(None)
        assert 0 <= chains.start < chains.stop <= self.shape[1]
        assert chains.stop - chains.start <= self._widest
        return self._values[key]


def test_lazy_series_is_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    series = ar1(5, 500, 10, seed=8)
    monkeypatch.setattr(autocorrelation, "BLOCK_SAMPLES", 3 * 500)
    whole, lazy = gamma_method(series), gamma_method(LazySeries(series, 3))
    np.testing.assert_allclose(lazy.error, whole.error, rtol=1e-12)
    np.testing.assert_allclose(lazy.tau.value, whole.tau.value, rtol=1e-12)
    np.testing.assert_allclose(lazy.chain_means, whole.chain_means, rtol=1e-12)
    rho = autocorrelation_function(LazySeries(series, 3)).rho
    np.testing.assert_allclose(rho, autocorrelation_function(series).rho, atol=1e-12)


def test_integers_and_one_dimension_are_accepted() -> None:
    charge = np.rint(ar1(5, 500, 1, seed=9)).astype(np.int8)
    assert integrated_autocorrelation_time(charge[:, 0]) == integrated_autocorrelation_time(charge)


@pytest.mark.parametrize("bad", [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((2, 2, 2)), np.array([1.0, np.nan])])
def test_rejects_what_is_no_series(bad: FloatArray) -> None:
    with pytest.raises(ValueError, match="series"):
        integrated_autocorrelation_time(bad)


def test_rejects_a_window_parameter_of_zero() -> None:
    with pytest.raises(ValueError, match="s_tau"):
        gamma_method(np.arange(9.0), s_tau=0)
