r"""What accept/reject steps tell about a run: whether its kernel is exact, and its chains in equilibrium.

In equilibrium, an exact kernel with a Metropolis–Hastings step, A = min(1, e^{−ΔH}), proposes the change −ΔH less often
than ΔH by a factor of e^{−ΔH}: ρ(−ΔH) = e^{−ΔH} ρ(ΔH). Three consequences can be measured:

- ⟨e^{−ΔH}⟩ = 1 (Creutz, Phys. Rev. D 38, 1228 (1988)). The weights may have a heavy tail. Then a run that has missed
  the largest weights finds a mean below 1 with an error that is far too small, and one that is not in equilibrium
  finds 4(4)·10²⁴, which is only 1σ away;
- ⟨A tanh(ΔH/2)⟩ = 0, or of any odd function of ΔH: of accepted changes, those up and down balance. This is bounded,
  so that its error can be trusted in both directions;
- of the proposals with |ΔH| = a, a share of 1/(1 + e^a) has ΔH = −a: what would give large weights can be counted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr, stdtrit

from dlhmc.statistics.autocorrelation import (
    FloatArray,
    Mapped,
    Series,
    blocks,
    chain_means_and_changes,
    gamma_method,
)
from dlhmc.statistics.uncertainty import Estimate, error_of_mean

SIGMAS = 4.0
_TAIL = float(ndtr(-SIGMAS))  # 3.2e-5
# Rounding in single precision changes acceptances by less: 2e-4 was the largest change seen.
_ROUNDING = 1e-3
# Of sums of squares.
_ROUNDING_OF_SLOPE = 1e-4
# Weights of a run far from equilibrium can be larger than any number: e^300 is enough, and can be squared.
_LARGEST_EXPONENT = 300.0
_DEPTHS = 2.0 ** np.arange(1, 9)
_MEANING = (
    ": the chains were not in equilibrium (warm up longer, or start elsewhere), or the kernel is not exact. "
    "No result of this run can be trusted."
)


@dataclass(frozen=True)
class Exactness:
    """The means of e^{−ΔH} and of A tanh(ΔH/2), and what is wrong with them, a sentence each."""

    weight: Estimate
    balance: Estimate
    alarms: tuple[str, ...]


def check_exactness(energy_change: Series) -> Exactness:
    r"""Compare ⟨e^{−ΔH}⟩ with 1 and ⟨A tanh(ΔH/2)⟩ with 0; a proposal that is not finite counts as ΔH = ∞.

    There is an alarm, as rare as 4σ on one side of a normal distribution (3·10⁻⁵ = e^{−ℓ}) if the kernel is exact, if

    - ⟨e^{−ΔH}⟩ is above 1 by more than 4σ + ℓ/3n, of n proposals. Below 1 it means nothing by itself;
    - more proposals lower the energy by more than 2, 4, 8, … than those shares explain (Chernoff's bound for the number
      of independent events): a single one below about −13, unless many are as far above;
    - ⟨A tanh(ΔH/2)⟩ is further from 0 than ℓ/3n + √((ℓ/3n)² + 2ℓσ²), Bernstein's bound for numbers between −1 and 1:
      4.6σ for long runs, more for short ones.

    Means must also be off by more than rounding errors explain. For ΔH ~ N(s²/2, s²) with an acceptance of 0.6 to 0.9
    there were 2 alarms in 272 000 sound runs of 80 to 8000 proposals; at 0.1, where the error of ⟨e^{−ΔH}⟩ is far too
    small and one run in three is 4σ below 1, there was 1 in 68 000.

    Example:
        >>> sound = np.random.default_rng(0).normal(0.5, 1.0, size=(1000, 8))  # ⟨ΔH⟩ = σ²/2
        >>> check_exactness(sound).alarms
        ()
        >>> check_exactness(sound - 0.5).alarms[0][:44]
        '⟨e^{−ΔH}⟩ = 1.65(3) is not compatible with 1'
    """
    weight, balance = _mean(energy_change, _weights), _mean(energy_change, _balance)
    exponent = -math.log(_TAIL)
    least = exponent / (3 * math.prod(energy_change.shape))
    alarms = []
    above = weight.value - 1 > max(_ROUNDING, least + SIGMAS * weight.error)
    if above or _log_probability_of_tail(energy_change) < -exponent:
        alarms.append(f"⟨e^{{−ΔH}}⟩ = {weight} is not compatible with 1{_MEANING}")
    if abs(balance.value) > max(_ROUNDING, least + math.sqrt(least**2 + 2 * exponent * balance.error**2)):
        alarms.append(f"⟨A tanh(ΔH/2)⟩ = {balance} is not compatible with 0{_MEANING}")
    return Exactness(weight, balance, tuple(alarms))


@dataclass(frozen=True)
class Temperature:
    """The configurational temperature, and what is wrong with it, a sentence each."""

    value: Estimate
    alarms: tuple[str, ...]


def check_temperature(slope: Series, curvature: Series) -> Temperature:
    r"""Compare T = ⟨|∇S|²⟩/⟨ΔS⟩ with 1, from |∇S|² and estimates of ΔS on the same configurations.

    The error is that of ⟨|∇S|² − ΔS⟩ = 0. There is an alarm beyond 4σ, or for few independent numbers where Student's
    t is as rare, if rounding does not explain it. Numbers that are not finite are left out.

    Example:
        >>> random = np.random.default_rng(0)
        >>> slope, curvature = random.chisquare(50, (100, 8)), np.full((100, 8), 50.0)
        >>> print(check_temperature(slope, curvature).value)
        0.998(7)
        >>> check_temperature(1.1 * slope, curvature).alarms[0][:37]
        '⟨|∇S|²⟩/⟨ΔS⟩ = 1.098(8) is not compat'
    """

    def difference(a: FloatArray, b: FloatArray) -> FloatArray:
        return np.where(np.isfinite(a) & np.isfinite(b), a - b, 0)

    analysis = gamma_method(Mapped(difference, slope, curvature))
    scale = float(chain_means_and_changes(Mapped(lambda b: np.where(np.isfinite(b), b, 0), curvature))[0].mean())
    if scale == 0:  # nothing changes the action
        return Temperature(Estimate(1.0, math.inf), ())
    error = error_of_mean(analysis)
    numbers = math.prod(slope.shape) / (2 * analysis.tau.value) if analysis.tau.resolved else slope.shape[1]
    limit = float(stdtrit(max(numbers - 1, 1), 1 - _TAIL)) * error
    value = Estimate(1 + analysis.mean / scale, abs(error / scale))
    wrong = abs(analysis.mean) > max(_ROUNDING_OF_SLOPE * abs(scale), limit)
    return Temperature(value, (f"⟨|∇S|²⟩/⟨ΔS⟩ = {value} is not compatible with 1{_MEANING}",) if wrong else ())


def _weights(change: FloatArray) -> FloatArray:
    """Return e^{−ΔH}."""
    return np.exp(-np.maximum(change, -_LARGEST_EXPONENT))


def _balance(change: FloatArray) -> FloatArray:
    """Return A tanh(ΔH/2)."""
    return np.exp(-np.maximum(change, 0)) * np.tanh(change / 2)


def _log_probability_of_tail(energy_change: Series) -> float:
    """Return an upper bound of the logarithm of the probability of as many large weights."""
    counts, expected = np.zeros(_DEPTHS.size), np.zeros(_DEPTHS.size)
    for block in blocks(energy_change):
        size = np.where(np.isfinite(block), np.abs(block), 0)
        share = expit(-size)
        for k, depth in enumerate(_DEPTHS):
            deep = size > depth
            counts[k] += np.count_nonzero(block[deep] < 0)
            expected[k] += share[deep].sum()
    seen = counts > expected
    counts, expected = counts[seen], np.maximum(expected[seen], np.exp(-_LARGEST_EXPONENT))
    logs = counts - expected - counts * np.log(counts / expected)
    return float(logs.min(initial=0)) + math.log(_DEPTHS.size)


def _mean(series: Series, function: Callable[[FloatArray], FloatArray]) -> Estimate:
    """Return the mean with its error, which is 0 if there is nothing to accept or reject: ΔH = 0 throughout."""
    # What is not finite counts as ∞.
    analysis = gamma_method(Mapped(lambda change: function(np.where(np.isfinite(change), change, np.inf)), series))
    nothing = analysis.tau.frozen and analysis.mean == float(function(np.zeros(())))
    return Estimate(analysis.mean, 0.0 if nothing else error_of_mean(analysis))
