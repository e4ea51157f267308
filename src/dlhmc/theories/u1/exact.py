"""Exact finite-volume results of two-dimensional U(1) gauge theory: what every sampler is held to.

Wilson action β Σ_P (1 − cos x_P) on a periodic lattice of V = Lx·Lt plaquettes. The plaquette angles are
independent von Mises variables except that they sum to 0 mod 2π, so everything follows from the modified
Bessel functions I_n = I_n(β), the Fourier coefficients of e^{β cos x}, and from the characteristic function
of one plaquette at *real* k,

    φ(k) = ∫_{−π}^{π} e^{β cos x} cos(kx) dx / (2π I_0),    φ(n) = I_n / I_0 at integers.

The code works with these ratios, at most 1, so nothing overflows at any β or V. Loops are the case N = 1 of
`dlhmc.theories.gauge.exact`; the charge has a quadrature of its own, which loses no digits at large β and V.

>>> round(plaquette(2.0, 64), 8), round(wilson_loop(2.0, 64, 4), 6), round(log_partition_function(2.0, 64), 6)
(0.69777466, 0.237061, 52.735587)
"""

import math
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ive

from dlhmc.theories.gauge import exact

__all__ = [
    "charge_distribution",
    "charge_squared",
    "log_partition_function",
    "plaquette",
    "sine_charge_squared",
    "wilson_loop",
]

Array = NDArray[np.float64]

_TAIL = 1e-15  # what the truncated sum over k may leave out, relative to the whole
_NODES = 300  # of the quadrature over one plaquette angle


log_partition_function = partial(exact.log_partition_function, 1, False)
plaquette = partial(exact.plaquette, 1, False)
wilson_loop = partial(exact.wilson_loop, 1, False)


@lru_cache(maxsize=64)
def _bessel_ratios(beta: float) -> tuple[Array, Array]:
    """Orders n = −M..M and I_n / I_0, with M where the ratio falls below any double-precision relevance."""
    weights, ratios = exact.representations(1, False, beta)
    n = weights[:, 0].astype(np.float64)
    n.flags.writeable = ratios.flags.writeable = False
    return n, ratios


def sine_charge_squared(beta: float, volume: int) -> float:
    """⟨Q_R²⟩ of the real-valued charge Q_R = Σ_P sin x_P / 2π: V⟨cos x_P⟩ / (4π²β) − V²⟨n²⟩ / (4π²β²).

    ⟨n²⟩ is the average over p_n ∝ I_n^V.

    >>> round(sine_charge_squared(2.0, 64), 6)
    0.565595
    """
    mean_cos = plaquette(beta, volume)
    n, ratios = _bessel_ratios(beta)
    p = ratios**volume
    mean_n2 = float(np.sum(p * n**2) / np.sum(p))
    x = volume / beta
    return (x * mean_cos - x**2 * mean_n2) / (4 * math.pi**2)


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    """Gauss–Legendre nodes and weights on [−1, 1], which take most of the time of a quadrature."""
    return np.polynomial.legendre.leggauss(_NODES)


@lru_cache(maxsize=64)
def _quadrature(beta: float) -> tuple[Array, Array]:
    """Gauss–Legendre nodes x in [0, π] and weights of the density ∝ e^{β cos x}, the weights summing to one.

    Where the density is narrow the interval ends at 16/√β, beyond which less than machine precision is left.
    Every integrand it is used for is even in x.
    """
    nodes, weights = _legendre()
    x = 0.5 * min(math.pi, 16 / math.sqrt(beta)) * (1 + nodes)
    w = weights * np.exp(-2 * beta * np.sin(x / 2) ** 2)
    w /= np.sum(w)
    x.flags.writeable = w.flags.writeable = False
    return x, w


def charge_squared(beta: float, volume: int) -> float:
    """⟨Q_Z²⟩ of the integer charge Q_Z = Σ_P x_P / 2π with x_P in [−π, π): V times the susceptibility.

    With A_n = (1/2π) ∫ x sin(nx) e^{β cos x} dx, B_n = (1/2π) ∫ x² cos(nx) e^{β cos x} dx over [−π, π] and
    averages over p_n ∝ I_n^V,

        ⟨Q_Z²⟩ = (V/4π²) ⟨B_n/I_n − (V−1)(A_n/I_n)²⟩.

    The error is about 1e−13 of V/(4π²β); an exponentially smaller ⟨Q_Z²⟩ (large β/V) is noise or 0.

    >>> round(charge_squared(2.0, 64), 6)
    1.239299
    """
    exact.check(1, False, beta, volume)
    n, ratios = _bessel_ratios(beta)
    x, w = _quadrature(beta)
    a = np.sin(np.outer(n, x)) @ (w * x)  # A_n / I_0
    b = np.cos(np.outer(n, x)) @ (w * x**2)  # B_n / I_0
    # p_n (B_n/I_n − (V−1)(A_n/I_n)²), multiplied out so that no small I_n is divided by
    terms = ratios ** (volume - 1) * b - (volume - 1) * ratios ** (volume - 2) * a**2
    mean = float(np.sum(terms) / np.sum(ratios**volume))
    return max(0.0, volume / (4 * math.pi**2) * mean)


def _characteristic_power(beta: float, volume: int, k: Array) -> Array:
    """φ(k)^V at real k ≥ 0, with the sign: φ is negative for some k at small β.

    Near φ = 1 the power would magnify rounding V-fold, so there it is e^{V log(1−d)} with
    d = 1 − φ = 2⟨sin²(kx/2)⟩ by quadrature. Once cos(kx) turns too fast for the nodes, φ is tiny, and the
    Fourier series of e^{β cos x} gives it as φ(k) = Σ_m (I_m/I_0) sinc(k − m), sinc(u) = sin(πu)/(πu).
    """
    x, w = _quadrature(beta)
    slow = k * x[-1] < _NODES
    d = 2 * np.sin(np.outer(k[slow], x) / 2) ** 2 @ w
    fast = np.zeros(np.count_nonzero(~slow))
    for order, ratio in zip(*_bessel_ratios(beta), strict=True):
        fast += ratio * np.sinc(k[~slow] - order)
    power = np.empty_like(k)
    power[slow] = np.where(d < 0.5, np.exp(volume * np.log1p(-np.minimum(d, 0.5))), (1 - d) ** volume)
    power[~slow] = fast**volume
    return power


def _momentum_cutoff(beta: float, volume: int) -> int:
    """Smallest whole K for which the k-integral of |φ(k)|^V beyond K is negligible.

    By Schläfli's integral φ(k) = [I_k + (sin πk / π) ∫_0^∞ e^{−β cosh t − kt} dt] / I_0, so |φ(k)| is at most
    (I_k + e^{−β}/(πk)) / I_0: a Gaussian fall, then 1/k, which matters at small β and the smallest V only.
    """
    _, ratios = _bessel_ratios(beta)
    half = ratios[ratios.size // 2 :]
    k = np.arange(1, 100_000)
    bound = math.exp(-2 * beta) / float(ive(0, beta)) / (math.pi * k)
    bound[: half.size - 1] += half[1 : bound.size + 1]
    return int(k[np.argmax(2 * k * np.minimum(bound, 1.0) ** volume < _TAIL * (volume - 1))])


@lru_cache(maxsize=64)
def _charge_probabilities(beta: float, volume: int) -> Array:
    """P(Q) for Q = 0, 1, ... up to where it vanishes, exactly (|Q| < V/2) or to machine precision."""
    half_width = math.ceil(10 * math.sqrt(charge_squared(beta, volume))) + 8
    # The trapezoid rule of step 1/N in k is exact if P(Q) = 0 for |Q| ≥ N/2: N = V, or less where V is large.
    points = min(volume, 2 * half_width + 1)
    j = np.arange(_momentum_cutoff(beta, volume) * points + 1)
    weight = np.where(j == 0, 1.0, 2.0) * _characteristic_power(beta, volume, j / points)  # even in k
    folded = np.bincount(j % points, weights=weight, minlength=points)
    charges = np.arange((points + 1) // 2)
    angles = (2 * math.pi / points) * (np.outer(charges, np.arange(points)) % points)
    _, ratios = _bessel_ratios(beta)
    p = np.asarray(np.cos(angles) @ folded / (points * np.sum(ratios**volume)), dtype=np.float64)
    p = np.maximum(p, 0.0)
    p.flags.writeable = False
    return p


def charge_distribution(beta: float, volume: int, charges: ArrayLike) -> Array:
    """Probabilities P(Q) of the integer charges given: P(Q) ∝ ∫ dk φ(k)^V cos(2πkQ), k over the real line.

    Σ_n (I_n/I_0)^V normalises it over all integers. The error is absolute, about 1e−14, so a P(Q) below that
    is noise or 0.

    >>> charge_distribution(7.0, 256, [0, 1, -2]).round(6).tolist()
    [0.397711, 0.241951, 0.054499]
    """
    exact.check(1, False, beta, volume)
    q = np.abs(np.asarray(charges, dtype=np.float64))
    if not np.all(q == np.rint(q)):
        raise ValueError("The charges must be whole numbers.")
    p = _charge_probabilities(beta, volume)
    index = np.minimum(q, p.size).astype(np.int64)
    return np.asarray(np.append(p, 0.0)[index], dtype=np.float64)
