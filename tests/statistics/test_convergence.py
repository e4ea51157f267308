import numpy as np
import pytest
from scipy.stats import norm, rankdata

from dlhmc.statistics import effective_sample_size, split_rhat


def test_good_chains() -> None:
    # For 16 halves of 1000 white samples R̂ − 1 is (χ²/ν − 1)/2000, ν = 15: 1.01 is never reached by chance.
    noise = np.random.default_rng(0).normal(size=(2000, 8))
    assert 0.999 < split_rhat(noise) < 1.01
    assert split_rhat(1 / noise) < 1.01  # ranks do not mind that these have no variance


def test_equals_a_direct_evaluation() -> None:
    series = np.rint(np.random.default_rng(1).normal(size=(101, 3)) * 2) + np.array([0, 0, 1])

    def direct(values: np.ndarray) -> float:
        z = norm.ppf((rankdata(values).reshape(values.shape) - 3 / 8) / (values.size + 1 / 4))
        n = len(z)
        within = np.mean([np.var(c, ddof=1) for c in z.T])
        between = n * np.var([np.mean(c) for c in z.T], ddof=1)
        return float(np.sqrt(((n - 1) / n * within + between / n) / within))

    halves = np.hstack((series[:50], series[51:]))
    expected = max(direct(halves), direct(abs(halves - np.median(halves))))
    assert split_rhat(series) == pytest.approx(expected, rel=1e-12)


def test_shifted_drifting_and_wider_chains_are_found() -> None:
    noise = np.random.default_rng(2).normal(size=(1000, 4))
    assert split_rhat(noise + np.array([0, 0, 0, 1])) > 1.05
    assert split_rhat(noise + np.linspace(0, 2, 1000)[:, None]) > 1.05  # all drift alike: the split sees it
    assert split_rhat(noise * np.array([1, 1, 1, 4])) > 1.05  # same centre: the folded ranks see it


@pytest.mark.parametrize("charges", [[0, 0, 0], [-1, 0, 2], [0.1, 0.1, 0.1], [5]])
def test_frozen_chains_are_infinitely_far_from_convergence(charges: list[float]) -> None:
    frozen = np.tile(charges, (100, 1))
    assert split_rhat(frozen) == np.inf
    assert effective_sample_size(frozen) == 0


def test_two_valued_series_folds_to_a_constant() -> None:
    signs = np.random.default_rng(3).choice([-1.0, 1.0], size=(999, 4))
    signs[0] = -signs[1]
    assert split_rhat(signs) < 1.01


def test_too_short_or_not_finite() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        split_rhat(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="finite"):
        split_rhat(np.array([1.0, 2.0, np.inf, 4.0]))


def test_effective_sample_size_of_white_noise() -> None:
    # Neither tolerance was exceeded in 3000 (20000) seeds: false alarm below 1e-3.
    noise = np.random.default_rng(4).normal(size=(2000, 8))
    assert effective_sample_size(noise) == pytest.approx(16000, rel=0.15)
    assert effective_sample_size(noise[:, 0]) == pytest.approx(2000, rel=0.4)
