"""Whether chains have forgotten where they started, and how many independent samples they are worth.

Equation numbers are those of Vehtari et al., arXiv:1903.08008. R̂ and the bulk ESS equal those of ArviZ up to rounding,
but for series that never change: nothing is known about where else they could go, so R̂ is infinite and the ESS 0.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from dlhmc.statistics.autocorrelation import (
    FloatArray,
    Series,
    as_two_dimensional,
    integrated_autocorrelation_time,
    lagged_products,
)

MOST_SAMPLES = 2**22  # ranks need all samples in memory, several times over: 32 MiB each as float64


class Convergence(NamedTuple):
    """Agreement of chains with each other and of their halves.

    Attributes:
        rhat: rank-normalised split R̂, the larger of the one for location and the folded one for scale.
        ess_bulk: effective sample size of the rank-normalised halves.
    """

    rhat: float
    ess_bulk: float


def convergence(series: Series) -> Convergence:
    """Return R̂ and bulk ESS of a series shaped [time, chain] of at least 4 time steps.

    Of more than 2²² samples every k-th time step is used, as few as are needed: R̂ hardly depends on k, and the ESS is
    that of the thinned series, at most that of all of it.
    """
    halves = _halves(as_two_dimensional(series))
    scores = _rank_normalised(halves)
    rhat = _rhat(scores)
    folded = np.abs(halves - np.median(halves))  # eq. (15)
    # A series of two values symmetric about the median folds to a constant, which says nothing.
    if np.ptp(folded) > 0:
        rhat = max(rhat, _rhat(_rank_normalised(folded)))
    return Convergence(rhat, _ess(scores))


def split_rhat(series: Series) -> float:
    """Rank-normalised split R̂; below 1.01 chains are taken for converged, and beyond 1.05 they have not.

    Example:
        >>> noise = np.random.default_rng(0).normal(size=(1000, 8))
        >>> bool(split_rhat(noise) < 1.01)
        True
    """
    return convergence(series).rhat


def ess_bulk(series: Series) -> float:
    """Effective sample size of the rank-normalised, split series: a measure of convergence that no outlier spoils.

    For the error of a mean see `effective_sample_size`.

    Example:
        >>> noise = np.random.default_rng(0).normal(size=(1000, 8))
        >>> bool(abs(ess_bulk(noise) / 8000 - 1) < 0.1)
        True
    """
    return convergence(series).ess_bulk


def effective_sample_size(series: Series, mean: float | None = None) -> float:
    """Count the independent samples the chains are worth for their mean, T·C/(2 τ_int); 0 if frozen.

    An upper limit if τ_int is not resolved.
    """
    n_time, n_chains = as_two_dimensional(series).shape
    tau = integrated_autocorrelation_time(series, mean)
    return n_time * n_chains / (2 * tau.value)


def _halves(series: Series) -> FloatArray:
    """Return the halves of all chains side by side, without the middle time step of an odd number."""
    n_time, n_chains = series.shape
    if n_time < 4:
        raise ValueError(f"R̂ needs at least 4 time steps, got {n_time}")
    step = max(1, min(n_time // 4, math.ceil(n_time * n_chains / MOST_SAMPLES)))
    width = max(1, MOST_SAMPLES // n_time)
    blocks = [series[::step, start : start + width] for start in range(0, n_chains, width)]
    values = np.concatenate(blocks, axis=1, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("the series contains values that are not finite")
    half = len(values) // 2
    return np.concatenate((values[:half], values[-half:]), axis=1)


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


def _ess(values: FloatArray) -> float:
    """Effective sample size of values shaped [time, chain], eqs. (10)–(13), with Geyer's monotone sequence."""
    if not np.ptp(values):
        return 0.0
    n_time, n_chains = values.shape
    centred = values - values.mean(axis=0)
    covariance = lagged_products(centred.T, n_time, n_time) / (n_time * n_chains)
    within = covariance[0] * n_time / (n_time - 1)
    total = covariance[0] + values.mean(axis=0).var(ddof=1)  # eq. (3)
    rho = 1 - (within - covariance) / total  # eq. (10)
    rho[0] = 1
    pairs = rho[0 : 2 * (n_time // 2) : 2] + rho[1::2]
    # The sum ends at the first pair that is not positive, or near the end of the series, with half of its first term.
    end = int(np.argmin((pairs > 0) & (2 * np.arange(pairs.size) + 4 < n_time)))
    last = rho[2 * end] if rho[2 * end] > 0 or pairs[end] >= 0 else 0.0
    tau = -1 + 2 * np.minimum.accumulate(pairs)[:end].sum() + last  # eq. (12)
    # Antithetic chains may be worth more than as many independent samples, but not without limit.
    return float(values.size / max(tau, 1 / np.log10(values.size)))
