r"""The Γ-method: autocorrelation times and errors of Markov-chain averages.

Equation numbers are those of U. Wolff, "Monte Carlo errors with less errors", hep-lat/0306017.
Results equal those of pyerrors up to rounding, with one deliberate difference: fluctuations are taken about
the *global* mean of all chains, as in Wolff's eq. (31); pyerrors subtracts from each replica its own mean.
About its own mean a chain stuck in one mode has no variance at all, so pyerrors gives a frozen
set of chains τ_int = ½ and error 0. The two coincide when all replica means are equal.

The integrated autocorrelation time is τ_int = ½ + Σ_{t≥1} ρ(t) in units of the time step: independent samples
have τ_int = ½.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len
from scipy.special import gammaincinv

FloatArray = NDArray[np.float64]

CONFIDENCE = 0.95
ONE_SIDED_SIGMA = 1.6448536269514722  # CONFIDENCE of a normal distribution lies below this many sigma
MIN_CHANGES = 10  # fewer changes leave the rate of change uncertain by more than 1/√10, about 30 %
BLOCK_SAMPLES = 2**24  # samples read at once: 128 MiB as float64


class Series(Protocol):
    """A history shaped [time, chain] (or [time]) that can be sliced, such as a NumPy or zarr array."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        ...

    def __getitem__(self, key: Any, /) -> Any:
        """Return `series[:, a:b]`, the histories of chains a to b−1, or `series[::k, a:b]`, every k-th step of them."""
        ...


class Mapped:
    """A function of one series, or of several of one shape, number by number as they are read."""

    def __init__(self, function: Callable[..., FloatArray], *series: Series) -> None:
        self._function, self._series = function, series
        self.shape = series[0].shape

    def __getitem__(self, key: Any, /) -> FloatArray:
        return self._function(*(np.asarray(each[key], np.float64) for each in self._series))


class Strided:
    """Every k-th step of a series, from the first one on."""

    def __init__(self, series: Series, stride: int) -> None:
        self._series, self._steps = series, range(0, series.shape[0], stride)
        self.shape = (len(self._steps), series.shape[1])

    def __getitem__(self, key: tuple[slice, slice]) -> FloatArray:
        steps = self._steps[key[0]]
        found: FloatArray = np.asarray(self._series[steps.start : steps.stop : steps.step, key[1]], np.float64)
        return found


@dataclass(frozen=True)
class AutocorrelationTime:
    """An integrated autocorrelation time in units of the time step.

    Attributes:
        value: τ_int; infinite if the chains are frozen.
        error: its standard error; infinite if the chains are frozen.
        window: lag W at which the sum over ρ(t) was cut; 0 if the chains are frozen.
        frozen: whether no chain ever changed.
        lower_bound: one-sided 95 % lower limit of τ_int, always finite; how it is obtained stands at
            `integrated_autocorrelation_time`.
        resolved: whether the window closed within the run, at twice τ_int at least, and enough changes were seen. If
            not, `value` may be far too small and `lower_bound` is what the data support.
    """

    value: float
    error: float
    window: int
    frozen: bool
    lower_bound: float
    resolved: bool


@dataclass(frozen=True)
class AutocorrelationFunction:
    """Normalised autocorrelation ρ(t) at lags 0, 1, …, and its standard error."""

    rho: FloatArray
    error: FloatArray


@dataclass(frozen=True)
class GammaAnalysis:
    """Outcome of the Γ-method.

    Attributes:
        mean: average over all chains and times.
        error: its Γ-method error, autocorrelations included; infinite if the chains are frozen.
        tau: the integrated autocorrelation time.
        chain_means: average of each chain.
        rho: normalised autocorrelation at lags 0 … T/2 − 1; 1 throughout if the chains are frozen.
    """

    mean: float
    error: float
    tau: AutocorrelationTime
    chain_means: FloatArray
    rho: FloatArray


def as_two_dimensional(series: Series) -> Series:
    """Return a [time, chain] view: a one-dimensional series is one chain."""
    if len(series.shape) == 1:
        series = np.asarray(series[:])[:, None]
    if len(series.shape) != 2 or 0 in series.shape:
        raise ValueError(f"a series is shaped [time, chain] and not empty, got {series.shape}")
    return series


def blocks(series: Series, samples: int | None = None) -> Iterator[FloatArray]:
    """Read a few chains at a time, so that a long lazily stored series never has to fit in memory."""
    n_time, n_chains = series.shape
    width = max(1, (samples or BLOCK_SAMPLES) // n_time)
    for start in range(0, n_chains, width):
        yield np.asarray(series[:, start : min(start + width, n_chains)], np.float64)


def chain_means_and_changes(series: Series) -> tuple[FloatArray, int]:
    """Return the mean of each chain and the number of steps, over all chains, at which the value changed."""
    means, changes = [], 0
    for block in blocks(series):
        changed = np.count_nonzero(block[1:] != block[:-1], axis=0)
        changes += int(changed.sum())
        # A constant chain has exactly its constant as mean; a rounded sum would fake a spread between chains.
        means.append(np.where(changed > 0, block.mean(axis=0), block[0]))
    chain_means = np.concatenate(means)
    if not np.isfinite(chain_means).all():
        raise ValueError("the series contains values that are not finite")
    return chain_means, changes


def lagged_products(chains: Iterable[FloatArray], n_time: int, n_lags: int) -> FloatArray:
    """Σ x(s) x(s + t) over all chains and times s, at lags t = 0 … n_lags − 1."""
    # Zero padding keeps the periodic images of the FFT out of the lags we use.
    n_fft = next_fast_len(n_time + n_lags - 1, real=True)
    power = np.zeros(n_fft // 2 + 1)
    for chain in chains:
        spectrum = np.fft.rfft(chain, n_fft)
        power += spectrum.real**2 + spectrum.imag**2
    # The inverse transform is linear, so one of them serves the sum over chains.
    products: FloatArray = np.fft.irfft(power, n_fft)[:n_lags]
    return products


def _window(tau: FloatArray, n_total: int, s_tau: float) -> tuple[int, bool]:
    """Window at which truncation bias and noise of τ_int balance, and whether it closed within the run."""
    lag = np.arange(1, tau.size)
    decay = s_tau / np.log((2 * tau[1:] + 1) / (2 * tau[1:] - 1))  # eq. (51)
    closed = np.flatnonzero(np.exp(-lag / decay) - decay / np.sqrt(lag * n_total) < 0)  # eq. (52)
    return (int(closed[0]) + 1, True) if closed.size else (tau.size - 1, False)


def _rate_lower_bound(changes: int, steps: int, variance: float | None) -> float:
    """Lower limit of τ_int from the number of changes, derived in `integrated_autocorrelation_time`."""
    if steps == 0:
        return 0.5
    rate = float(gammaincinv(changes + 1, CONFIDENCE)) / steps
    return max(0.5, 2 * (0.5 if variance is None else variance) / rate - 0.5)


def gamma_method(
    series: Series,
    mean: float | None = None,
    *,
    s_tau: float = 2.0,
    variance: float | None = None,
) -> GammaAnalysis:
    """Mean, error and integrated autocorrelation time in one go; arguments as the function below.

    `s_tau` is Wolff's S, the assumed ratio of the slowest decay time to τ_int.
    """
    if not s_tau > 0:
        raise ValueError(f"s_tau must be positive, got {s_tau}")
    series = as_two_dimensional(series)
    n_time, n_chains = series.shape
    n_total, steps = n_time * n_chains, (n_time - 1) * n_chains
    n_lags = max(1, n_time // 2)
    chain_means, changes = chain_means_and_changes(series)
    average = float(chain_means.mean())
    if changes == 0:
        bound = _rate_lower_bound(0, steps, variance)
        frozen = AutocorrelationTime(np.inf, np.inf, 0, frozen=True, lower_bound=bound, resolved=False)
        return GammaAnalysis(average, np.inf, frozen, chain_means, np.ones(n_lags))

    centre = average if mean is None else mean
    chains = (chain - centre for block in blocks(series) for chain in block.T)
    # Pooled over all chains, eq. (31), with N − Rt pairs at lag t.
    gamma = lagged_products(chains, n_time, n_lags) / (n_chains * (n_time - np.arange(n_lags)))
    rho = gamma / gamma[0]
    # τ_int(W) for every window W, eq. (41), kept above ½ so that eq. (51) has a solution.
    tau_of_window = np.maximum(np.cumsum(rho) - 0.5, 0.5 + np.finfo(np.float64).eps)
    window, closed = _window(tau_of_window, n_total, s_tau)
    tau = float(tau_of_window[window])
    tau_error = float(2 * tau * np.sqrt(abs(window + 0.5 - tau) / n_total)) if window else 0.0  # eq. (42)
    variance_of_mean = 2 * tau * gamma[0] / n_total  # eqs. (35), (41)
    if mean is None:
        # Fluctuations about the estimated mean are too small by the variance of that mean, eq. (49).
        # About a known mean there is nothing to correct.
        variance_of_mean *= 1 + (2 * window + 1) / n_total
        tau *= (1 + (2 * window + 1) / n_total) / (1 + 1 / n_total)

    few_changes = changes < min(MIN_CHANGES, steps / 2)
    # Of few samples noise closes the window, whatever ρ(W) is, and the error (42), small where W ≈ τ, would not tell.
    closed &= float(tau_of_window[window]) <= max(1.0, window / 2)
    bound = _rate_lower_bound(changes, steps, variance) if few_changes else max(0.5, tau - ONE_SIDED_SIGMA * tau_error)
    time = AutocorrelationTime(
        tau, tau_error, window, frozen=False, lower_bound=bound, resolved=closed and not few_changes
    )
    return GammaAnalysis(average, float(np.sqrt(variance_of_mean)), time, chain_means, rho)


def integrated_autocorrelation_time(
    series: Series,
    mean: float | None = None,
    *,
    variance: float | None = None,
) -> AutocorrelationTime:
    r"""Integrated autocorrelation time by the Γ-method, pooled over all chains before the window is chosen.

    A set of chains that never changes has τ_int = ∞, never a missing value. What it does tell is a lower
    bound. Let the value change with probability r per step. Over n = C·(T−1) steps with k changes the Poisson
    upper limit of r is, at 95 %, r < q/n, where q solves P(more than k | q) = 0.95: q = ln 20 ≈ 3 for k = 0.
    The mean squared change fixes the first autocorrelation, E[Δ²] = 2σ²(1 − ρ(1)). For a reversible chain
    ρ(t) = Σ c_k λ_k^t with weights c_k ≥ 0, so τ_int = ½ Σ c_k (1 + λ_k)/(1 − λ_k), and Jensen's inequality
    gives τ_int ≥ ½ (1 + ρ(1))/(1 − ρ(1)) = 2σ²/E[Δ²] − ½. Hence

    - an integer of variance σ² moving by ±1 has E[Δ²] = r and τ_int ≥ 2σ²n/q − ½ (`variance` given);
    - a value drawn afresh at every change has E[Δ²] = 2σ²r and τ_int ≥ n/q − ½ ≈ C·T/3 (no `variance`), the
      smaller of the two when σ² > ½.

    The same bound serves if fewer than ten of the steps (and less than half of them) changed anything: the
    window may then close on a short excursion that says nothing about the time between changes, so the result
    is marked as not resolved. The bound presumes that chains are independent and started in equilibrium, or
    at least not where changes are rarest. In all other cases the bound is value − 1.645·error, at least ½.

    Args:
        series: history shaped [time, chain]; one dimension is one chain. Read in blocks of chains only.
        mean: exact expectation value if known (0 by a symmetry); otherwise the mean over all chains, with the bias
            correction of eq. (49).
        variance: exact variance of an integer changing by ±1, used only in the bound from few changes.

    Example:
        >>> noise = np.random.default_rng(0).normal(size=(1000, 8))
        >>> tau = integrated_autocorrelation_time(noise)
        >>> abs(tau.value - 0.5) < 0.1 and tau.resolved
        True
        >>> integrated_autocorrelation_time(np.zeros((1000, 8))).value
        inf
    """
    return gamma_method(series, mean, variance=variance).tau


def autocorrelation_function(
    series: Series,
    mean: float | None = None,
    *,
    max_lag: int | None = None,
) -> AutocorrelationFunction:
    """Normalised autocorrelation function with Madras–Sokal errors (Lüscher, hep-lat/0409106, eq. (E.11)).

    The cost is max_lag × T, so by default the lags end at twice Wolff's window; T/2 − 1 is the largest lag.
    Frozen chains have ρ = 1 at every lag, with unknown (nan) error.
    """
    series = as_two_dimensional(series)
    analysis = gamma_method(series, mean)
    rho = analysis.rho
    n_lags = rho.size
    if max_lag is None:
        max_lag = n_lags if analysis.tau.frozen else 2 * analysis.tau.window
    max_lag = min(max_lag, n_lags - 1)
    if analysis.tau.frozen:
        return AutocorrelationFunction(rho[: max_lag + 1], np.full(max_lag + 1, np.nan))
    error = np.zeros(max_lag + 1)
    for t in range(1, max_lag + 1):
        k = np.arange(1, n_lags - t)
        terms = rho[k + t] + rho[np.abs(k - t)] - 2 * rho[t] * rho[k]  # eq. (E.11)
        error[t] = np.sqrt(np.sum(terms**2) / math.prod(series.shape))
    return AutocorrelationFunction(rho[: max_lag + 1], error)
