import math
import warnings

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from dlhmc.statistics import (
    ChainEstimate,
    Estimate,
    format_uncertainty,
    gamma_method,
    mean_and_error,
    split_rhat,
)
from dlhmc.statistics.uncertainty import independent_sector_changes

with warnings.catch_warnings():
    # pyerrors imports the deprecated scipy.odr.
    warnings.filterwarnings("ignore", message=".*scipy.odr.*", category=DeprecationWarning)
    import pyerrors

FloatArray = NDArray[np.float64]


def ar1(a: float, shape: tuple[int, int], seed: int) -> FloatArray:
    noise = np.random.default_rng(seed).normal(size=shape)
    noise[1:] *= math.sqrt(1 - a**2)
    return np.asarray(lfilter([1.0], [1.0, -a], noise, axis=0))


@pytest.mark.parametrize(
    ("value", "error", "digits", "text"),
    [
        (0.92553, 0.00031, 1, "0.9255(3)"),
        (0.314982, 0.00072, 2, "0.31498(72)"),
        (12.34, 0.4, 1, "12.3(4)"),
        (1234.0, 37.0, 1, "1230(40)"),
        (1234.0, 37.0, 2, "1234(37)"),
        (1.0061, 0.012, 2, "1.006(12)"),
        (12.34, 1.44, 2, "12.3(1.4)"),
        (12.34, 3.0, 1, "12(3)"),
        (-0.92553, 0.00031, 1, "-0.9255(3)"),
        (0.92553, 0.000996, 1, "0.926(1)"),
        (0.92553, 0.000996, 2, "0.9255(10)"),
        (0.92553, 0.00996, 1, "0.93(1)"),
        (5.04, 0.0996, 1, "5.0(1)"),
        (5.04, 0.996, 1, "5(1)"),
        (5.04, 0.996, 2, "5.0(1.0)"),
        (55.0, 9.96, 1, "60(10)"),
        (56.0, 9.96, 2, "56(10)"),
        (0.0, 0.02, 1, "0.00(2)"),
        (0.001, 0.02, 1, "0.00(2)"),
        (0.001, 20.0, 1, "0(20)"),
        (1.234e-7, 4e-9, 1, "1.23(4)e-07"),
        (-1.234e-7, 4e-9, 1, "-1.23(4)e-07"),
        (9.99996e-7, 4e-9, 1, "1.000(4)e-06"),
        (0.0, 4e-9, 1, "0(4)e-09"),
        (1e-9, 4e-7, 1, "0(4)e-07"),
        (1.2345e12, 3.2e9, 1, "1.234(3)e+12"),
        (1.2345e12, 3.2e9, 2, "1.2345(32)e+12"),
        (0.5, 0.0, 1, "0.5"),
        (2, 0, 1, "2"),
        (0.5, math.inf, 1, "0.5 (not converged)"),
        (0.5, math.nan, 1, "0.5 (not converged)"),
        (math.inf, math.inf, 1, "inf"),
        (-math.inf, 1.0, 1, "-inf"),
        (math.nan, 0.1, 1, "nan"),
    ],
)
def test_format(value: float, error: float, digits: int, text: str) -> None:
    assert format_uncertainty(value, error, digits) == text


def test_format_by_default_and_of_an_estimate() -> None:
    assert format_uncertainty(0.92553, 0.00031) == "0.9255(3)"
    assert str(Estimate(0.92553, 0.00031)) == "0.9255(3)"
    assert str(Estimate(np.float64(0.92553), np.float64(0.00031))) == "0.9255(3)"
    assert f"{Estimate(math.inf, math.inf)}" == "inf"


def test_format_rejects_nonsense() -> None:
    with pytest.raises(ValueError, match="negative"):
        format_uncertainty(1.0, -0.1)
    with pytest.raises(ValueError, match="digits"):
        format_uncertainty(1.0, 0.1, 0)


@pytest.mark.parametrize(("a", "shape"), [(0.0, (1000, 1)), (0.8, (3000, 1)), (0.8, (999, 5))])
def test_mean_equals_pyerrors(a: float, shape: tuple[int, int]) -> None:
    series = 1 + ar1(a, shape, seed=1)
    series += 1 - series.mean(axis=0)  # pyerrors takes fluctuations about the mean of each replica
    obs = pyerrors.Obs([*series.T], [f"ensemble|r{c}" for c in range(shape[1])])
    obs.gamma_method()
    ours = mean_and_error(series)
    np.testing.assert_allclose([ours.value, ours.error], [obs.value, obs.dvalue], rtol=1e-10)


@pytest.mark.parametrize("n_chains", [1, 4])
def test_errors_cover(n_chains: int) -> None:
    # 400 ensembles: the mean square of the pulls has standard deviation √(2/400) = 7 %, so ±30 % is more than
    # four sigma, false alarm below 1e-4.
    pulls = []
    for seed in range(400):
        estimate = mean_and_error(ar1(0.8, (2000 // n_chains, n_chains), seed=1000 + seed))
        pulls.append(estimate.value / estimate.error)
    assert 0.7 < np.mean(np.square(pulls)) < 1.3


# Few changes of sector.


def charges(n_chains: int, rate: float, seed: int) -> FloatArray:
    """Metropolis steps of ±1 on the integers, exp(−Q²/2), from exact draws: ⟨Q²⟩ = 1.000 and ⟨rate⟩ changes a step."""
    rng = np.random.default_rng(seed)
    values = np.arange(-8, 9)
    weights = np.exp(-(values**2) / 2)
    charge = rng.choice(values, size=n_chains, p=weights / weights.sum())
    series = np.empty((400, n_chains))
    for step in series:
        step[:] = charge
        proposal = charge + rng.choice([-1, 1], size=n_chains)
        accepted = rng.random(n_chains) < 1.6 * rate * np.minimum(1, np.exp((charge**2 - proposal**2) / 2))
        charge = np.where(accepted, proposal, charge)
    return series


@pytest.mark.parametrize(
    ("n_chains", "rate", "known"), [(8, 0.0, False), (8, 0.03, False), (8, 0.6, True), (128, 0.0, True)]
)
def test_errors_of_moments_of_a_sector_need_changes_of_it(n_chains: int, rate: float, known: bool) -> None:
    # The expected counts are 5, 17, 240 and 91, five standard deviations and more from 60.
    series = charges(n_chains, rate, seed=1)
    estimate = mean_and_error(series**2, sector=series, equilibrium_start=True)
    plain = mean_and_error(series**2, equilibrium_start=True)
    assert estimate.sector_changes is not None
    assert (estimate.sector_changes >= 60) == known
    assert estimate.error == (plain.error if known else math.inf)
    assert plain.sector_changes is None


@pytest.mark.statistical
def test_errors_that_are_given_hold_for_eight_chains_that_move_or_not() -> None:
    # Beyond 3 σ are 1 % of those that are given, and 9 % of the frozen ones: false alarm 0.5 %.
    pulls = []
    for rate in (0.0, 0.3):
        for series in np.split(charges(200 * 8, rate, seed=2), 200, axis=1):
            estimate = mean_and_error(series**2, sector=series, equilibrium_start=True)
            if math.isfinite(estimate.error):
                pulls.append((estimate.value - 1) / estimate.error)
    assert 190 < len(pulls) <= 200
    assert np.mean(np.abs(pulls) > 3) <= 0.03


def test_excursions_that_return_at_once_are_no_changes_of_sector() -> None:
    trembling = np.tile([-1.0, 0.0, 0.0, 2.0, 1.0, 0.0, -1.0, 1.0], (1000, 1))
    trembling[::5] += 1
    estimate = mean_and_error(trembling**2, sector=trembling, equilibrium_start=True)
    assert np.count_nonzero(np.diff(trembling, axis=0)) > 3000
    assert estimate.error == math.inf


def test_changes_between_chains_count_only_if_they_started_in_equilibrium() -> None:
    assert independent_sector_changes(FROZEN, math.inf) == 0
    assert independent_sector_changes(FROZEN, math.inf, equilibrium_start=True) == 2
    moving = np.arange(200.0)[:, None] % 2
    assert independent_sector_changes(moving, 0.5) == 99  # 199 changes of a value of variance ¼, two for one
    assert independent_sector_changes(moving, 5.0) == 20


FROZEN = np.tile([-1.0, 0.0, 0.0, 2.0], (100, 1))


def test_frozen_chains_have_no_error_unless_they_started_in_equilibrium() -> None:
    estimate = mean_and_error(FROZEN)
    assert (estimate.value, estimate.error, estimate.rhat) == (0.25, math.inf, math.inf)
    assert str(estimate) == "0.25 (not converged)"
    estimate = mean_and_error(FROZEN, equilibrium_start=True)
    assert (estimate.value, estimate.rhat) == (0.25, math.inf)
    assert estimate.error == pytest.approx(FROZEN[0].std(ddof=1) / 2, rel=1e-12)


def test_chains_that_still_differ_have_no_error() -> None:
    # Noise of variance 1 and offsets of ±½: τ_int is resolved or not, R̂ ≈ √1.25 in any case.
    series = np.random.default_rng(8).normal(size=(1000, 8)) + np.tile([-0.5, 0.5], 4)
    estimate = mean_and_error(series)
    assert estimate.error == math.inf
    assert estimate.rhat > 1.05
    assert mean_and_error(series, equilibrium_start=True).error < 1


def test_the_shortest_series_have_no_error() -> None:
    series = np.random.default_rng(9).normal(size=(3, 8))
    assert (mean_and_error(series).error, mean_and_error(series).rhat) == (math.inf, math.inf)
    assert mean_and_error(series, equilibrium_start=True).error < 1


@pytest.mark.parametrize("constant", [np.full(100, 0.1), np.full((100, 1), 0.1), np.full((100, 4), 0.1)])
def test_nothing_moved_and_nothing_differs(constant: FloatArray) -> None:
    for equilibrium_start in (False, True):
        estimate = mean_and_error(constant, equilibrium_start=equilibrium_start)
        assert estimate == ChainEstimate(0.1, math.inf, math.inf, 0.0)


def test_unresolved_chains_fall_back_to_their_spread() -> None:
    # τ_int = 10⁴ ≫ T = 200: what varies are the chain means, and their spread is the larger (20 degrees of
    # freedom; the Γ-method sees half of it, since its window ends at T/2).
    series = ar1(0.9999, (200, 20), seed=6)
    analysis = gamma_method(series)
    assert not analysis.tau.resolved
    spread = series.mean(axis=0).std(ddof=1) / math.sqrt(20)
    error = mean_and_error(series, equilibrium_start=True).error
    assert error == pytest.approx(max(spread, analysis.error), rel=1e-12)
    assert error >= spread * (1 - 1e-12)
    assert mean_and_error(series).error == math.inf
    single = np.zeros(200)
    single[150:] = 1
    assert mean_and_error(single, equilibrium_start=True).error == math.inf


def test_chains_stuck_in_different_places_are_noticed() -> None:
    # Fast noise hides a small constant offset of each chain from the Γ-method, not from the chain means.
    # The offsets are 20 times the error of a chain mean: noticed at any seed.
    offsets = 0.2 * np.array([-1.0, -1.0, 1.0, 1.0, 0.5, -0.5])
    series = np.random.default_rng(7).normal(size=(10_000, 6)) + offsets
    assert mean_and_error(series).error > 0.9 * offsets.std(ddof=1) / math.sqrt(6)


def test_chains_in_equilibrium_that_disagree_have_the_error_of_their_spread() -> None:
    """χ² = 40 of seven degrees of freedom: p = 1e-6."""
    noise = np.random.default_rng(11).normal(size=(1000, 8))
    noise -= noise.mean(axis=0)
    offsets = np.arange(8) - 3.5
    series = noise + offsets * np.sqrt(40 / 7) * gamma_method(noise).error / (offsets.std(ddof=1) / np.sqrt(8))
    spread = series.mean(axis=0).std(ddof=1) / np.sqrt(8)
    assert spread > 2 * gamma_method(series).error
    assert mean_and_error(series, equilibrium_start=True).error == pytest.approx(spread)


def test_a_few_excursions_give_no_error_though_chains_agree() -> None:
    series = np.zeros((1000, 2))
    series[[100, 600]] = 1.0
    assert split_rhat(series) < 1.05
    assert mean_and_error(series).error == math.inf


def test_chains_are_laid_end_to_start() -> None:
    sectors = np.zeros((1000, 2))
    sectors[500:, 0] = sectors[:, 1] = 1
    assert independent_sector_changes(sectors, math.inf, equilibrium_start=True) == 0
    assert independent_sector_changes(sectors[:, ::-1], math.inf, equilibrium_start=True) == 1


def test_a_jump_counts_as_its_square() -> None:
    """Of 99 jumps by 2, with the variance 1: 4·99/8."""
    assert independent_sector_changes(np.tile(np.repeat([0, 2], 10), 50), 0.5) == 49
