"""Whether chains have forgotten where they started, and how many independent samples they are worth.

Equation numbers are those of Vehtari et al., arXiv:1903.08008.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dlhmc.statistics.autocorrelation import Series, as_two_dimensional, integrated_autocorrelation_time

FloatArray = NDArray[np.float64]


def _rank_normalised(values: FloatArray) -> FloatArray:
    """Return normal scores of the ranks over all chains, eq. (14); ties share their average rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    # Blom's offset, S + ¼ in the denominator, keeps the scores symmetric about zero.
    scores: FloatArray = np.asarray(ndtri((ranks - 0.375) / (values.size + 0.25)))
    return scores[inverse].reshape(values.shape)


def _rhat(values: FloatArray) -> float:
    """Potential scale reduction of values shaped [time, chain], eqs. (1)–(4)."""
    if not np.ptp(values, axis=0).any():
        return np.inf
    n_time = values.shape[0]
    within = values.var(axis=0, ddof=1).mean()  # W, eq. (2)
    between = values.mean(axis=0).var(ddof=1)  # B/N, eq. (1)
    return float(np.sqrt((n_time - 1) / n_time + between / within))  # eqs. (3), (4)


def split_rhat(series: Series) -> float:
    """Rank-normalised split R̂: the larger of the one for location and the folded one for scale.

    Values below 1.01 are taken for converged. Chains that never move within a half give infinity: nothing is
    known about where else they could go. The ranks run over all samples, so the series is read into memory.

    Example:
        >>> noise = np.random.default_rng(0).normal(size=(1000, 8))
        >>> bool(split_rhat(noise) < 1.01)
        True
    """
    series = as_two_dimensional(series)
    values = np.asarray(series[:, :], dtype=np.float64)
    half = values.shape[0] // 2
    if half < 2:
        raise ValueError(f"R̂ needs at least 4 time steps, got {values.shape[0]}")
    if not np.isfinite(values).all():
        raise ValueError("the series contains values that are not finite")
    halves = np.concatenate((values[:half], values[-half:]), axis=1)
    rhat = _rhat(_rank_normalised(halves))
    folded = np.abs(halves - np.median(halves))  # eq. (15)
    # A series of two values symmetric about the median folds to a constant, which says nothing.
    return max(rhat, _rhat(_rank_normalised(folded))) if np.ptp(folded) > 0 else rhat


def effective_sample_size(series: Series, mean: float | None = None, *, chains_per_block: int | None = None) -> float:
    """Count the independent samples the chains are worth for their mean, T·C/(2 τ_int); 0 if frozen.

    An upper limit if τ_int is not resolved.
    """
    n_time, n_chains = as_two_dimensional(series).shape
    tau = integrated_autocorrelation_time(series, mean, chains_per_block=chains_per_block)
    return n_time * n_chains / (2 * tau.value)
