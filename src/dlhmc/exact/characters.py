"""Exact finite-volume results of two-dimensional U(N) and SU(N) gauge theory on the torus.

Wilson action β Σ_P (1 − Re tr P/N) on a periodic lattice of V = Lx·Lt plaquettes. With x = β/N, the weight of a
plaquette is a sum over irreducible representations r of dimension d_r and character χ_r,

    e^{x Re tr P} = Σ_r d_r a_r χ_r(P),    d_r a_r = det[I_{λ_j + i − j}(x)] for U(N),

with highest weights λ_1 ≥ … ≥ λ_N, integers; for SU(N), λ_N = 0 and determinants are summed over a shift of all λ_j.
Characters are orthogonal, so links can be integrated out where two regions meet (A. A. Migdal, Sov. Phys. JETP 42
(1975) 413), and the weights of larger regions are

    disc of area A with the boundary W:        Σ_r d_r a_r^A χ_r(W)
    torus of area V with a hole of boundary W: Σ_r a_r^V χ_r(W)/d_r
    cylinder of area V from W to W′:           Σ_r a_r^V χ_r(W) χ_r(W′)*
    torus:                                     Z = Σ_r a_r^V.

The code works with a_r/a_0, at most 1, so nothing overflows at any β or V. Representations with a_r/a_0 below 1e−20 are
left out. Rounding remains: determinants cancel, and powers magnify it, so that results are good to a relative error of
about 1e−16·V·x^{N(N−1)/2}.
"""

import itertools
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ive

__all__ = [
    "charge_distribution",
    "charge_squared",
    "dimensions",
    "log_partition_function",
    "plaquette",
    "polyakov_correlation",
    "representations",
    "sine_charge_squared",
    "wilson_loop",
]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_SMALLEST = 1e-20  # a_r/a_0 of representations that are left out
_NODES = 300  # of the quadrature over the phase of a plaquette
_TAIL = 1e-15  # what the truncated sum over k may leave out, relative to the whole


def _check(colors: int, special: bool, beta: float, volume: int) -> None:
    """Refuse what is no group, no coupling or no lattice."""
    if not isinstance(colors, (int, np.integer)) or colors < 1 + special:
        raise ValueError(f"U(N) needs N ≥ 1 and SU(N) N ≥ 2 colours as an integer, not {colors}.")
    if not 0.0 < beta < math.inf:
        raise ValueError(f"The coupling beta must be positive and finite, not {beta}.")
    if not isinstance(volume, (int, np.integer)) or volume < 4:
        raise ValueError(f"The volume must be Lx·Lt as an integer, with both sides at least 2, not {volume}.")


def _determinants(x: float, weights: Integers) -> Array:
    """det[I_{λ_j + i − j}(x)] / I_0(x)^N for weights[..., j]."""
    colors = weights.shape[-1]
    i = np.arange(colors)
    orders = np.abs(weights[..., None, :] + i[:, None] - i)
    bessel = np.asarray(ive(np.arange(orders.max(initial=0) + 1), x) / ive(0, x))
    return np.asarray(np.linalg.det(bessel[orders]), dtype=np.float64)


def dimensions(weights: Integers) -> Array:
    """d_r = ∏_{i<j} (λ_i − λ_j + j − i)/(j − i) for weights[..., j], 0 where they are no highest weight.

    >>> dimensions(np.array([[0, 0, 0], [1, 0, 0], [2, 1, 0]])).tolist()
    [1.0, 3.0, 8.0]
    """
    d = np.ones(weights.shape[:-1])
    for i, j in itertools.combinations(range(weights.shape[-1]), 2):
        d *= (weights[..., i] - weights[..., j] + j - i) / (j - i)
    return d


@lru_cache(maxsize=64)
def _weights(colors: int, beta: float) -> Integers:
    """Highest weights λ = μ + n for all μ with μ_N = 0 and all shifts n that matter: [μ, n, j]."""
    x = beta / colors
    trivial = float(_determinants(x, np.zeros((1, colors), dtype=np.int64))[0])
    # Bessel determinants are totally positive: at most the product of the diagonal I_{λ_j}, and so at most I_{|λ_j|}.
    orders = np.arange(31 + math.ceil(12 * math.sqrt(x)))
    largest = int(np.count_nonzero(ive(orders, x) > _SMALLEST * trivial * ive(0, x))) + 1
    shifts = np.arange(-largest, largest + 1)
    shapes = itertools.combinations_with_replacement(range(2 * largest, -1, -1), colors - 1)
    mu = np.array([(*shape, 0) for shape in shapes], dtype=np.int64)
    weights: Integers = mu[:, None, :] + shifts[:, None]
    c = _determinants(x, weights) / trivial
    weights = weights[np.max(c, axis=1) > _SMALLEST * dimensions(mu)]
    weights.flags.writeable = False
    return weights


@lru_cache(maxsize=256)
def _ratios(colors: int, special: bool, beta: float, raised: int | None = None) -> tuple[Array, Array]:
    """d_r and a_r/a_0 of all λ, or of all λ + e_i for a raised i, 0 where that is no highest weight.

    They are [μ, n] for U(N); [μ, 1] for SU(N), where determinants are summed over n.
    """
    weights = _weights(colors, beta)

    def determinants(weights: Integers) -> Array:
        c = _determinants(beta / colors, weights)
        return c.sum(axis=1, keepdims=True) if special else c

    # μ = 0 is the last one, n = 0 in the middle
    trivial = determinants(weights[-1:])
    if raised is not None:
        weights = weights + np.eye(colors, dtype=np.int64)[raised]
    d = dimensions(weights)[:, : 1 if special else None]
    c = np.maximum(determinants(weights) / trivial[0, trivial.shape[1] // 2], 0.0)
    a = np.where(d > 0, c, 0.0) / np.maximum(d, 1.0)
    d.flags.writeable = a.flags.writeable = False
    return d, a


def representations(colors: int, special: bool, beta: float) -> tuple[Integers, Array]:
    """Highest weights [r, j] and a_r/a_0 [r] of all representations that matter.

    >>> weights, ratios = representations(2, True, 4.0)
    >>> weights[-2:].tolist(), ratios[-2:].round(6).tolist()
    ([[1, 0], [0, 0]], [0.658047, 1.0])
    """
    _check(colors, special, beta, 4)
    weights = _weights(colors, beta)
    if special:
        weights = weights[:, :1] - weights[:, :1, -1:]
    return weights.reshape(-1, colors), _ratios(colors, special, beta)[1].ravel()


def log_partition_function(colors: int, special: bool, beta: float, volume: int) -> float:
    """Logarithm of the partition function, ln Z with Z = Σ_r a_r^V.

    It is the average of e^{x Σ_P Re tr P} over links of the Haar measure; subtract βV for the Wilson action.

    >>> round(log_partition_function(2, True, 4.0, 16), 6)
    25.362682
    """
    _check(colors, special, beta, volume)
    _, a = _ratios(colors, special, beta)
    x = beta / colors
    trivial = _determinants(x, _weights(colors, beta)[-1])
    c0 = float(trivial.sum() if special else trivial[trivial.size // 2])
    log_a0 = math.log(c0) + colors * (x + math.log(ive(0, x)))
    return volume * log_a0 + math.log(np.sum(a**volume))


def _with_neighbours(
    colors: int, special: bool, beta: float, volume: int, area: int, weight: Callable[[Array, Array], Array]
) -> float:
    """(1/Z) Σ_r Σ_{r′} w(d_r, d_{r′}) a_r^{V−A} a_{r′}^A, r′ in r ⊗ fundamental: λ + e_i, each once."""
    _check(colors, special, beta, volume)
    if not isinstance(area, (int, np.integer)) or not 0 <= area <= volume:
        raise ValueError(f"The area must be a whole number from 0 to the volume {volume}, not {area}.")
    d, a = _ratios(colors, special, beta)
    total = 0.0
    for i in range(colors):
        d_next, a_next = _ratios(colors, special, beta, i)
        total += np.sum(weight(d, d_next) * a ** (volume - area) * a_next**area)
    return float(total / np.sum(a**volume))


def wilson_loop(colors: int, special: bool, beta: float, volume: int, area: int) -> float:
    """Contractible Wilson loop ⟨Re tr W⟩/N around `area` plaquettes, in the fundamental representation.

    A disc in a torus with a hole: (1/Z) Σ_r Σ_{r′} d_{r′}/(N d_r) a_r^{V−A} a_{r′}^A, r′ in r ⊗ fundamental.

    >>> round(wilson_loop(2, False, 10.0, 256, 4), 6), round(wilson_loop(1, False, 2.0, 64, 4), 6)
    (0.390989, 0.237061)
    """
    return _with_neighbours(colors, special, beta, volume, area, lambda d, d_next: d_next / (colors * d))


def plaquette(colors: int, special: bool, beta: float, volume: int) -> float:
    """Average plaquette ⟨Re tr P⟩/N, the loop of area one.

    >>> round(plaquette(2, True, 4.0, 16), 6)
    0.658185
    """
    return wilson_loop(colors, special, beta, volume, 1)


def polyakov_correlation(colors: int, special: bool, beta: float, volume: int, area: int = 0) -> float:
    """⟨tr L tr L′*⟩/N² of two Polyakov loops around the torus, with `area` plaquettes from one to the other.

    Two cylinders: (1/N²Z) Σ_r Σ_{r′} a_r^{V−A} a_{r′}^A, r′ in r ⊗ fundamental. Area 0 is ⟨|tr L|²⟩/N².

    >>> round(polyakov_correlation(2, True, 4.0, 16), 6)
    0.250309
    """
    return _with_neighbours(colors, special, beta, volume, area, lambda _, d_next: (d_next > 0) / colors**2)


# The charge Q = Σ_P φ_P/2π of U(N) has φ = arg det P in (−π, π]. A shift of all weights multiplies a character by the
# determinant, χ_{μ+n} = e^{inφ} χ_μ, so with e^{ikφ} under the integral the coefficient of μ + n becomes c_μ(n − k),
#
#     c_μ(κ) = (1/2π) ∫ dφ e^{−iκφ} Σ_m c_{μ+m} e^{imφ} = Σ_m c_{μ+m} sinc(κ − m),    sinc(u) = sin(πu)/(πu),
#
# and Z(θ = 2πk) = Σ_μ Σ_n [c_μ(n − k)/d_μ]^V.


def charge_squared(colors: int, beta: float, volume: int) -> float:
    """⟨Q²⟩ of U(N), −∂² ln Z(θ)/∂θ² at θ = 0, for the integer charge Q = Σ_P arg det P/2π.

    The error is about 1e−16 of V; an exponentially smaller ⟨Q²⟩ (large β/V) is noise or 0.

    >>> round(charge_squared(2, 10.0, 256), 6), round(charge_squared(1, 2.0, 64), 6)
    (3.441137, 1.239299)
    """
    gap = _gaps(colors, beta, volume)
    sign = np.where(gap % 2, -1.0, 1.0)
    apart = np.where(gap == 0, 1, gap)
    # derivatives of sinc at whole numbers
    first = np.where(gap == 0, 0.0, sign / apart)
    second = np.where(gap == 0, -(np.pi**2) / 3, -2 * sign / apart**2)
    return _charge_variance(colors, beta, volume, first, second)


def sine_charge_squared(colors: int, beta: float, volume: int) -> float:
    """⟨Q_R²⟩ of U(N) for the real-valued charge Q_R = Σ_P Im det P/2π: det P shifts n by one.

    >>> round(sine_charge_squared(1, 2.0, 64), 6)
    0.565595
    """
    gap = _gaps(colors, beta, volume)
    first = ((gap == 1) * 1.0 - (gap == -1)) / 2
    return _charge_variance(colors, beta, volume, first, first @ first)


def _gaps(colors: int, beta: float, volume: int) -> Integers:
    _check(colors, False, beta, volume)
    shifts = np.arange(_weights(colors, beta).shape[1])
    return shifts[:, None] - shifts


def _charge_variance(colors: int, beta: float, volume: int, first: Array, second: Array) -> float:
    """⟨(Σ_P q(φ_P)/2π)²⟩, for matrices that make the coefficients of −iq and −q² times e^{S} from those of e^{S}."""
    _, a = _ratios(colors, False, beta)
    terms = a ** (volume - 1) * (a @ second) + (volume - 1) * a ** (volume - 2) * (a @ first) ** 2
    return max(0.0, -volume / (4 * math.pi**2) * float(np.sum(terms) / np.sum(a**volume)))


@lru_cache(maxsize=64)
def _trivial_density(colors: int, beta: float) -> tuple[Array, Array]:
    """Nodes φ in [0, π] and weights of the density ∝ Σ_m c_m cos(mφ) of μ = 0, the weights summing to one.

    Then c_0(κ) = 1 − 2⟨sin²(κφ/2)⟩. Beyond 16N/√β less than machine precision is left.
    """
    _, a = _ratios(colors, False, beta)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    phases = 0.5 * min(math.pi, 16 * colors / math.sqrt(beta)) * (1 + nodes)
    shifts = np.arange(a.shape[1]) - a.shape[1] // 2
    density = weights * (np.cos(np.outer(phases, shifts)) @ a[-1])
    return phases, density / np.sum(density)


@lru_cache(maxsize=64)
def _charge_probabilities(colors: int, beta: float, volume: int) -> Array:
    """P(Q) for Q = 0, 1, … up to where it vanishes, exactly (|Q| < V/2) or to machine precision."""
    half_width = math.ceil(10 * math.sqrt(charge_squared(colors, beta, volume))) + 8
    # The trapezoid rule of step 1/points in κ is exact if P(Q) = 0 for |Q| ≥ points/2: V, or less where V is large.
    points = min(volume, 2 * half_width + 1)
    _, a = _ratios(colors, False, beta)
    partition = np.sum(a**volume)
    shifts = np.arange(a.shape[1]) - a.shape[1] // 2
    a = a[volume * np.log(np.sum(a, axis=1)) > math.log(_TAIL * 1e-10)]  # |c_μ(κ)| is at most the sum
    phases, density = _trivial_density(colors, beta)
    folded = np.zeros(points)
    below, above = 0, 8
    while True:  # |κ| from below to above; the integrand falls, beyond all shifts as κ^(−V)
        j = np.arange(below * points, above * points)
        block = np.zeros(points)
        for part in np.array_split(j, 1 + j.size * max(a.shape[1], _NODES) // 1_000_000):
            for k in (part, -1 - part):
                power = (np.sinc(k[:, None] / points - shifts) @ a.T) ** volume
                # near 1 the power would magnify rounding V-fold
                slow = np.flatnonzero(np.abs(k) * phases[-1] < _NODES * points)
                d = 2 * np.sin(np.outer(k[slow] / points, phases) / 2) ** 2 @ density
                near = d < 0.5
                power[slow[near], -1] = np.exp(volume * np.log1p(-d[near]))
                block += np.bincount(k % points, weights=np.sum(power, axis=1), minlength=points)
        folded += block
        if np.max(np.abs(block)) < _TAIL * points * partition:
            break
        below, above = above, 2 * above
    charges = np.arange((points + 1) // 2)
    angles = (2 * math.pi / points) * (np.outer(charges, np.arange(points)) % points)
    p = np.maximum(np.cos(angles) @ folded / (points * partition), 0.0)
    p.flags.writeable = False
    return np.asarray(p, dtype=np.float64)


def charge_distribution(colors: int, beta: float, volume: int, charges: ArrayLike) -> Array:
    """Probabilities P(Q) of the integer charges given, for U(N): P(Q) = ∫_0^1 dk e^{−2πikQ} Z(2πk)/Z(0).

    The sum over n makes it an integral of [c_μ(κ)/d_μ]^V cos(2πκQ) over all real κ. The error is absolute, about 1e−14
    (1e−12 on the smallest lattices), so a P(Q) below that is noise or 0.

    >>> charge_distribution(2, 10.0, 256, [0, 1, -2]).round(6).tolist()
    [0.215099, 0.185991, 0.120247]
    """
    _check(colors, False, beta, volume)
    q = np.abs(np.asarray(charges, dtype=np.float64))
    if not np.all(q == np.rint(q)):
        raise ValueError("The charges must be whole numbers.")
    p = _charge_probabilities(colors, beta, volume)
    index = np.minimum(q, p.size).astype(np.int64)
    return np.asarray(np.append(p, 0.0)[index], dtype=np.float64)
