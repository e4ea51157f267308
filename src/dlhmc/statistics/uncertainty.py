"""Means with errors that hold for autocorrelated chains, and none where the data tell none."""

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from scipy.special import chdtri

from dlhmc.statistics.autocorrelation import (
    GammaAnalysis,
    Series,
    as_two_dimensional,
    blocks,
    gamma_method,
)
from dlhmc.statistics.convergence import Convergence, convergence

LARGEST_RHAT = 1.05  # chains that differ more than this have not forgotten where they started
CHAINS_DISAGREE = 1e-3  # p-value below which the spread of chains refutes the Γ-method error
#: independent changes of sector without which the error of ⟨Q²⟩ is too small: docs/guides/errors.md has the calibration
FEWEST_SECTOR_CHANGES = 60


@dataclass(frozen=True)
class Estimate:
    """A value and its standard error, printed with one digit of the error.

    Example:
        >>> print(Estimate(0.92553, 0.00031))
        0.9255(3)
    """

    value: float
    error: float

    def __str__(self) -> str:
        return format_uncertainty(self.value, self.error)


@dataclass(frozen=True)
class ChainEstimate(Estimate):
    """A mean over chains, and how well they agree.

    Attributes:
        error: infinite if the data do not tell it.
        rhat: rank-normalised split R̂; infinite if no chain ever changed, or all are shorter than 4 time steps.
        ess_bulk: effective sample size of the ranks.
        sector_changes: independent changes of sector that were seen, for moments of a sector.
    """

    rhat: float
    ess_bulk: float
    sector_changes: int | None = None


def format_uncertainty(value: float, error: float, digits: int = 1) -> str:
    """Write a value with the error of its last digits in brackets.

    One digit of the error by default. An exact value (error 0) has no bracket, and neither has one whose error is not
    known (infinite). Values below 1e-4 or from 1e6 on get an exponent; an error of 1 or more that has decimals is
    written out.

    Example:
        >>> format_uncertainty(0.314982, 0.00072, digits=2)
        '0.31498(72)'
        >>> format_uncertainty(1234, 37)
        '1230(40)'
        >>> format_uncertainty(1.234e-7, 4e-9)
        '1.23(4)e-07'
        >>> format_uncertainty(2.1873, math.inf)
        '2.19 (not converged)'
    """
    if digits < 1:
        raise ValueError(f"digits must be at least 1, got {digits}")
    if error < 0:
        raise ValueError(f"an error is not negative, got {error}")
    if not math.isfinite(value):
        return f"{value}"
    if error < abs(value) * 1e-15 or error == 0:  # no number of a computer is more precise
        return f"{value:.12g}"
    if not math.isfinite(error):
        return f"{value:.3g} (not converged)"

    # Decimals round as on paper and carry: 0.00996 becomes 0.01, not 0.0010.
    rounded_error = Decimal(f"{error:.{digits - 1}e}")
    last_place = rounded_error.adjusted() - digits + 1
    rounded = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(last_place))
    leading = max(rounded.adjusted() if rounded else rounded_error.adjusted(), rounded_error.adjusted())
    exponent = leading if leading < -4 or leading >= 6 else 0
    rounded, rounded_error = rounded.scaleb(-exponent), rounded_error.scaleb(-exponent)
    decimals = max(0, exponent - last_place)
    bracket = f"{rounded_error:.{decimals}f}"
    if rounded_error < 1:
        bracket = bracket.replace(".", "").lstrip("0")
    suffix = f"e{exponent:+03d}" if exponent else ""
    return f"{rounded:.{decimals}f}({bracket}){suffix}"


def error_of_mean(analysis: GammaAnalysis) -> float:
    """Return the standard error of the mean of independent chains in equilibrium: the rule of `mean_and_error`."""
    means = analysis.chain_means
    n_free = means.size - 1
    spread = float(means.std(ddof=1) / np.sqrt(means.size)) if n_free else math.inf
    if analysis.tau.frozen:
        # Chains frozen at one and the same value have shown no fluctuation to estimate an error from.
        return spread if np.ptp(means) > 0 else math.inf
    if not analysis.tau.resolved:
        return max(analysis.error, spread)
    # Chain means scatter as χ² if the Γ-method error is right; slow modes it missed show up here.
    if n_free and n_free * (spread / analysis.error) ** 2 > chdtri(n_free, CHAINS_DISAGREE):
        return max(analysis.error, spread)
    return analysis.error


def independent_sector_changes(sector: Series, tau_int: float, *, equilibrium_start: bool = False) -> int:
    """Count the independent changes of an integer Q over all chains.

    At most as many as there were changes, and as independent configurations by τ_int, which excursions that return at
    once do not shorten. Steps of a random walk are not independent, either: τ_int ≥ 2σ²/E[ΔQ²] − ½ makes 4σ² of them a
    configuration, and calibration takes two of these for one change. Chains that start from independent draws are laid
    end to end: one that starts in another sector than where the last one ended is a change, too.

    Example:
        >>> sectors = np.tile([0, 1, 1, -1], (1000, 1))
        >>> independent_sector_changes(sectors, np.inf, equilibrium_start=True)
        2
    """
    sector = as_two_dimensional(sector)
    n_time, n_chains = sector.shape
    changes = 0
    squared_jumps = 0.0
    total = 0.0
    total_squares = 0.0
    starts, ends = [], []
    for block in blocks(sector):
        jumps = np.diff(block, axis=0)
        changes += int(np.count_nonzero(jumps))
        squared_jumps += float(np.sum(jumps**2))
        total += float(block.sum())
        total_squares += float(np.sum(block**2))
        starts.append(block[0])
        ends.append(block[-1])
    samples = n_time * n_chains
    variance = total_squares / samples - (total / samples) ** 2
    within = min(changes, squared_jumps / (8 * variance), samples / (2 * tau_int)) if changes else 0
    between = int(np.count_nonzero(np.concatenate(starts)[1:] != np.concatenate(ends)[:-1]))
    return int(within) + between * equilibrium_start


def mean_and_error(
    series: Series,
    *,
    sector: Series | None = None,
    equilibrium_start: bool = False,
) -> ChainEstimate:
    """Mean over all chains and times, with its Γ-method error, R̂ and bulk ESS.

    The error is infinite, for not known, if the autocorrelation time is not resolved or R̂ > 1.05: the chains then
    still depend on where they started, and their spread is that of the starts.

    Chains that started from independent draws of the target itself (`equilibrium_start`) are in equilibrium however
    slowly they move, and always have an error. The Γ-method error is trusted if the autocorrelation time is resolved
    and the chain means scatter no more than it allows (p > 0.001). Otherwise the larger of it and the spread between
    chains is taken, which is right whenever chains are independent. Frozen chains have their spread alone. The error
    is still infinite if nothing in the data tells it: one chain that is frozen or unresolved, or several all frozen at
    one value.

    If the series is a moment of an integer that labels sectors, given as `sector`, the error is infinite as well if
    fewer than 60 independent changes of it were seen: chains that have not seen the rarer sectors underestimate it.

    Example:
        >>> noise = np.random.default_rng(0).normal(size=(1000, 8))
        >>> print(mean_and_error(1 + 0.1 * noise))
        1.000(1)
        >>> frozen = np.tile([0.0, 1.0, 4.0, 4.0], (1000, 1))
        >>> print(mean_and_error(frozen))
        2.25 (not converged)
        >>> print(mean_and_error(frozen, equilibrium_start=True))
        2(1)
    """
    series = as_two_dimensional(series)
    analysis = gamma_method(series)
    agreement = convergence(series) if series.shape[0] >= 4 else Convergence(math.inf, 0.0)
    known = equilibrium_start or (analysis.tau.resolved and agreement.rhat <= LARGEST_RHAT)
    changes = None
    if sector is not None:
        changes = independent_sector_changes(sector, analysis.tau.value, equilibrium_start=equilibrium_start)
        known = known and changes >= FEWEST_SECTOR_CHANGES
    return ChainEstimate(analysis.mean, error_of_mean(analysis) if known else math.inf, *agreement, changes)
