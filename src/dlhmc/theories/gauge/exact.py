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
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ive

__all__ = [
    "charge_distribution",
    "charge_squared",
    "dimensions",
    "log_partition_function",
    "mean_plaquette_squared",
    "plaquette",
    "plaquette_squared",
    "polyakov_correlation",
    "representations",
    "wilson_loop",
]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_SMALLEST = 1e-20  # a_r/a_0 of representations that are left out
_TAIL = 1e-15  # what the truncated sum over k may leave out, relative to the whole


def check(colors: int, special: bool, beta: float, volume: int) -> None:
    """Refuse what is no group, no coupling or no lattice."""
    if not isinstance(colors, (int, np.integer)) or colors < 1 + special:
        raise ValueError(f"U(N) needs N ≥ 1 and SU(N) N ≥ 2 colours as an integer, not {colors}.")
    if not 0.0 < beta < math.inf:
        raise ValueError(f"The coupling beta must be positive and finite, not {beta}.")
    if not isinstance(volume, (int, np.integer)) or volume < 4:
        raise ValueError(f"The volume must be Lx·Lt as an integer, with both sides at least 2, not {volume}.")


def _check_area(volume: int, area: int) -> None:
    if not isinstance(area, (int, np.integer)) or not 0 <= area <= volume:
        raise ValueError(f"The area must be a whole number from 0 to the volume {volume}, not {area}.")


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
def _coefficients(colors: int, special: bool, beta: float, step: tuple[int, ...] | None = None) -> Array:
    """d_r a_r/a_0 of all λ, or of all λ + step: [μ, n] for U(N); [μ, 1] for SU(N), where n is summed over."""
    weights = _weights(colors, beta)

    def unscaled(weights: Integers) -> Array:
        c = _determinants(beta / colors, weights)
        return c.sum(axis=1, keepdims=True) if special else c

    # μ = 0 is the last one, n = 0 in the middle
    trivial = unscaled(weights[-1:])
    c = unscaled(weights if step is None else weights + np.array(step)) / trivial[0, trivial.shape[1] // 2]
    c.flags.writeable = False
    return c


def _ratios(colors: int, special: bool, beta: float) -> tuple[Array, Array]:
    """d_r and a_r/a_0, as `_coefficients` has them."""
    d = dimensions(_weights(colors, beta))
    if special:
        d = d[:, :1]
    return d, np.maximum(_coefficients(colors, special, beta), 0.0) / d


def representations(colors: int, special: bool, beta: float) -> tuple[Integers, Array]:
    """Highest weights [r, j] and a_r/a_0 [r] of all representations that matter.

    >>> weights, ratios = representations(2, True, 4.0)
    >>> weights[-2:].tolist(), ratios[-2:].round(6).tolist()
    ([[1, 0], [0, 0]], [0.658047, 1.0])
    """
    check(colors, special, beta, 4)
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
    check(colors, special, beta, volume)
    _, a = _ratios(colors, special, beta)
    x = beta / colors
    trivial = _determinants(x, _weights(colors, beta)[-1])
    c0 = float(trivial.sum() if special else trivial[trivial.size // 2])
    log_a0 = math.log(c0) + colors * (x + math.log(ive(0, x)))
    return volume * log_a0 + math.log(np.sum(a**volume))


def _unit(colors: int, i: int, sign: int = 1) -> Integers:
    return sign * np.eye(colors, dtype=np.int64)[i]


def _fundamental(colors: int, special: bool, beta: float) -> tuple[Array, Array]:
    """d and a/a_0 of all r′ in r ⊗ fundamental, [i, …r]: λ + e_i, each once; d = 0 where that is no highest weight."""
    weights = _weights(colors, beta)
    d, a = [], []
    for i in range(colors):
        step = _unit(colors, i)
        d.append(dimensions(weights + step)[:, : 1 if special else None])
        c = np.maximum(_coefficients(colors, special, beta, tuple(step.tolist())), 0.0)
        a.append(np.where(d[-1] > 0, c, 0.0) / np.maximum(d[-1], 1.0))
    return np.stack(d), np.stack(a)


def wilson_loop(colors: int, special: bool, beta: float, volume: int, area: int) -> float:
    """Contractible Wilson loop ⟨Re tr W⟩/N around `area` plaquettes, in the fundamental representation.

    A disc in a torus with a hole: (1/Z) Σ_r Σ_{r′} d_{r′}/(N d_r) a_r^{V−A} a_{r′}^A, r′ in r ⊗ fundamental.

    >>> round(wilson_loop(2, False, 10.0, 256, 4), 6)
    0.390989
    """
    check(colors, special, beta, volume)
    _check_area(volume, area)
    d, a = _ratios(colors, special, beta)
    d_next, a_next = _fundamental(colors, special, beta)
    numerator = np.sum(d_next / (colors * d) * a ** (volume - area) * a_next**area)
    return float(numerator / np.sum(a**volume))


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
    check(colors, special, beta, volume)
    _check_area(volume, area)
    _, a = _ratios(colors, special, beta)
    d_next, a_next = _fundamental(colors, special, beta)
    numerator = np.sum((d_next > 0) * a ** (volume - area) * a_next**area)
    return float(numerator / np.sum(a**volume)) / colors**2


def _derivatives(colors: int, special: bool, beta: float) -> tuple[Array, Array]:
    """∂a_r/∂β and ∂²a_r/∂β², in units of a_0: I_n′ = (I_{n−1} + I_{n+1})/2 in every column of the determinant."""
    d, _ = _ratios(colors, special, beta)
    units = [_unit(colors, i, sign) for i in range(colors) for sign in (-1, 1)]

    def total(steps: list[Integers]) -> Array:
        return np.asarray(sum(_coefficients(colors, special, beta, tuple(step.tolist())) for step in steps))

    first = total(units) / (2 * colors * d)
    second = total([one + other for one in units for other in units]) / ((2 * colors) ** 2 * d)
    return first, second


def plaquette_squared(colors: int, special: bool, beta: float, volume: int) -> float:
    """⟨(Re tr P/N)²⟩ of one plaquette, Σ_r a_r^(V−1) ∂²a_r/∂β² / Z.

    >>> round(plaquette_squared(2, True, 4.0, 16), 6)
    0.506593
    """
    check(colors, special, beta, volume)
    _, a = _ratios(colors, special, beta)
    _, second = _derivatives(colors, special, beta)
    return float(np.sum(a ** (volume - 1) * second) / np.sum(a**volume))


def mean_plaquette_squared(colors: int, special: bool, beta: float, volume: int) -> float:
    """⟨p²⟩ of the plaquette p = Σ_P Re tr P/(NV) averaged over the lattice, ∂²Z/∂β² / (V²Z).

    >>> round(mean_plaquette_squared(2, True, 4.0, 16), 6)
    0.437809
    """
    check(colors, special, beta, volume)
    _, a = _ratios(colors, special, beta)
    first, second = _derivatives(colors, special, beta)
    terms = a ** (volume - 1) * second + (volume - 1) * a ** (volume - 2) * first**2
    return float(np.sum(terms) / np.sum(a**volume)) / volume


# The charge Q = Σ_P φ_P/2π of U(N) has φ = arg det P in (−π, π]. A shift of all weights multiplies a character by the
# determinant, χ_{μ+n} = e^{inφ} χ_μ, so with e^{ikφ} under the integral the coefficient of μ + n becomes c_μ(n − k),
#
#     c_μ(κ) = (1/2π) ∫ dφ e^{−iκφ} Σ_m c_{μ+m} e^{imφ} = Σ_m c_{μ+m} sinc(κ − m),    sinc(u) = sin(πu)/(πu),
#
# and Z(θ = 2πk) = Σ_μ Σ_n [c_μ(n − k)/d_μ]^V.


def charge_squared(colors: int, beta: float, volume: int) -> float:
    """⟨Q²⟩ of U(N), −∂² ln Z(θ)/∂θ² at θ = 0, for the integer charge Q = Σ_P arg det P/2π.

    The error is about 1e−14 of V; an exponentially smaller ⟨Q²⟩ (large β/V) is noise or 0.

    >>> round(charge_squared(2, 10.0, 256), 6)
    3.441137
    """
    check(colors, False, beta, volume)
    _, a = _ratios(colors, False, beta)
    shifts = np.arange(a.shape[1])
    gap = shifts[:, None] - shifts
    sign = np.where(gap % 2, -1.0, 1.0)
    apart = np.where(gap == 0, 1, gap)
    # derivatives of sinc at whole numbers
    first = a @ np.where(gap == 0, 0.0, sign / apart)
    second = a @ np.where(gap == 0, -(np.pi**2) / 3, -2 * sign / apart**2)
    terms = a ** (volume - 1) * second + (volume - 1) * a ** (volume - 2) * first**2
    return max(0.0, -volume / (4 * math.pi**2) * float(np.sum(terms) / np.sum(a**volume)))


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
    folded = np.zeros(points)
    below, above = 0, int(shifts[-1]) + 8
    while True:  # |κ| from below to above; beyond all shifts the integrand falls as κ^(−V)
        j = np.arange(below * points, above * points)
        block = np.zeros(points)
        for part in np.array_split(j, 1 + j.size * a.shape[1] // 1_000_000):
            for k in (part, -1 - part):
                power = np.sum((np.sinc(k[:, None] / points - shifts) @ a.T) ** volume, axis=1)
                block += np.bincount(k % points, weights=power, minlength=points)
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
    check(colors, False, beta, volume)
    q = np.abs(np.asarray(charges, dtype=np.float64))
    if not np.all(q == np.rint(q)):
        raise ValueError("The charges must be whole numbers.")
    p = _charge_probabilities(colors, beta, volume)
    index = np.minimum(q, p.size).astype(np.int64)
    return np.asarray(np.append(p, 0.0)[index], dtype=np.float64)
