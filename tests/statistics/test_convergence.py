import sys
import warnings

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm, rankdata

from dlhmc.statistics import convergence, effective_sample_size, ess_bulk, split_rhat

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its next version
    import arviz


@pytest.mark.parametrize("shape", [(4, 2), (5, 3), (100, 4), (101, 4), (1000, 7)])
@pytest.mark.parametrize("kind", ["noise", "slow", "antithetic", "ties", "offsets", "heavy tail", "drift"])
def test_equals_arviz(shape: tuple[int, int], kind: str) -> None:
    rng = np.random.default_rng(5)
    memory = {"slow": 0.95, "antithetic": -0.8, "ties": 0.5}.get(kind, 0.0)
    series = lfilter([1.0], [1.0, -memory], rng.normal(size=shape), axis=0)
    if kind == "ties":
        series = np.rint(series)
    elif kind == "offsets":
        series += rng.normal(size=shape[1])
    elif kind == "heavy tail":
        series = 1 / series
    elif kind == "drift":
        series += np.linspace(0, 3, shape[0])[:, None]
    ours = convergence(series)
    assert ours.rhat == pytest.approx(float(arviz.rhat(series.T, method="rank")), rel=1e-10)
    assert ours.ess_bulk == pytest.approx(float(arviz.ess(series.T, method="bulk")), rel=1e-10)
    assert ours == (split_rhat(series), ess_bulk(series))


def test_ess_of_one_chain_equals_arviz() -> None:
    series = lfilter([1.0], [1.0, -0.5], np.random.default_rng(6).normal(size=333))
    assert ess_bulk(series) == pytest.approx(float(arviz.ess(series[None], method="bulk")), rel=1e-10)


def test_long_series_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    series = lfilter([1.0], [1.0, -0.9], np.random.default_rng(7).normal(size=(4000, 6)), axis=0)
    monkeypatch.setattr(sys.modules[convergence.__module__], "MOST_SAMPLES", 9000)
    assert convergence(series) == convergence(series[::3])


def test_short_series_of_many_chains_keep_four_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    series = np.random.default_rng(8).normal(size=(9, 6))
    monkeypatch.setattr(sys.modules[convergence.__module__], "MOST_SAMPLES", 10)
    assert convergence(series) == convergence(series[::2])


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
    assert ess_bulk(frozen) <= 2 * len(charges)  # where chains differ, each half is worth one sample


def test_two_valued_series_folds_to_a_constant() -> None:
    signs = np.random.default_rng(3).permutation(np.repeat([-1.0, 1.0], 2000)).reshape(1000, 4)
    assert np.median(signs) == 0
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
    assert effective_sample_size(1 + noise, 0.0) < 100  # about a mean that it does not have
