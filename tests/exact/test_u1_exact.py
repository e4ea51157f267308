"""The exact results against a table, against sum rules and against integration by brute force."""

import functools
import itertools
import math

import numpy as np
import pytest

from dlhmc.exact import characters

plaquette = functools.partial(characters.plaquette, 1, False)
wilson_loop = functools.partial(characters.wilson_loop, 1, False)
log_partition_function = functools.partial(characters.log_partition_function, 1, False)
charge_squared = functools.partial(characters.charge_squared, 1)
sine_charge_squared = functools.partial(characters.sine_charge_squared, 1)
charge_distribution = functools.partial(characters.charge_distribution, 1)

TABLE = [  # β, then ⟨cos⟩, ⟨Q_Z²⟩, ⟨Q_R²⟩ at 8×8 and at 16×16
    (1, 0.44638997, 2.600719, 0.723660, 0.44638997, 10.402876, 2.894641),
    (2, 0.69777466, 1.239299, 0.565595, 0.69777466, 4.957196, 2.262379),
    (3, 0.80998555, 0.707843, 0.437668, 0.80998529, 2.831565, 1.750798),
    (4, 0.86353004, 0.482016, 0.348893, 0.86352261, 1.933879, 1.399890),
    (5, 0.89342125, 0.360717, 0.283578, 0.89338314, 1.473487, 1.158639),
    (6, 0.91245491, 0.279201, 0.230359, 0.91235930, 1.194701, 0.986041),
    (7, 0.92570036, 0.217111, 0.184886, 0.92553221, 1.006414, 0.857381),
]
PRINTED = 0.51e-6  # half of the last of six digits


# ---------------------------------------------------------------- known values


@pytest.mark.parametrize("row", TABLE)
def test_table(row):
    beta, *values = row
    for volume, (cos, q_z2, q_r2) in zip((64, 256), (values[:3], values[3:]), strict=True):
        assert plaquette(beta, volume) == pytest.approx(cos, abs=0.51e-8)
        assert charge_squared(beta, volume) == pytest.approx(q_z2, abs=PRINTED)
        assert sine_charge_squared(beta, volume) == pytest.approx(q_r2, abs=PRINTED)


def test_charge_distribution_values():
    expected = [0.397711, 0.241951, 0.054499, 0.004551, 0.000141]
    np.testing.assert_allclose(charge_distribution(7, 256, range(5)), expected, rtol=0, atol=PRINTED)
    expected = [0.784589, 0.107423, 0.000283]
    np.testing.assert_allclose(charge_distribution(7, 64, range(3)), expected, rtol=0, atol=PRINTED)


@pytest.mark.parametrize(
    ("side", "beta", "expected", "last_digit"),
    [
        (8, 1.75, 1.47234, 1e-5),
        (16, 7, 1.00641, 1e-5),
        (32, 28, 0.943587, 1e-6),
        (64, 112, 0.930541, 1e-6),
        (128, 448, 0.927401, 1e-6),
    ],
)
def test_constant_physics(side, beta, expected, last_digit):
    assert charge_squared(beta, side**2) == pytest.approx(expected, abs=0.51 * last_digit)


# ---------------------------------------------------------------- consistency

GRID = [
    *itertools.product((1e-3, 0.5, 5.0, 18.0, 26.5, 50.0), (4, 5, 64, 255, 4096)),
    (28.0, 1024),
    (448.0, 16384),
    (500.0, 16384),
    (1.0, 16384),
]


@pytest.mark.parametrize(("beta", "volume"), GRID)
def test_charge_distribution_sum_rules(beta, volume):
    charges = np.arange(-volume, volume + 1)
    p = charge_distribution(beta, volume, charges)
    q2 = charge_squared(beta, volume)
    assert np.all(p >= 0)
    assert np.all(p[2 * np.abs(charges) >= volume] == 0)  # |Σ x| < πV
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.sum(charges**2 * p) == pytest.approx(q2, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("beta", "volume"), [(0.3, 4), (2.0, 16), (7.0, 64), (100.0, 1024), (448.0, 16384)])
def test_plaquette_is_the_derivative_of_the_free_energy(beta, volume):
    h = 1e-3 * beta
    f = [log_partition_function(beta + s * h, volume) for s in (-2, -1, 1, 2)]
    derivative = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
    assert derivative / volume == pytest.approx(plaquette(beta, volume), rel=1e-9)


@pytest.mark.parametrize(("beta", "volume"), [(0.3, 16), (2.0, 64), (30.0, 64), (448.0, 16384)])
def test_wilson_loops(beta, volume):
    loops = [wilson_loop(beta, volume, area) for area in range(0, volume + 1, volume // 16)]
    assert loops[0] == 1.0
    np.testing.assert_allclose(loops, loops[::-1], rtol=1e-9)  # a loop bounds both its sides
    assert np.all(np.diff(loops[:9]) < 0)
    assert wilson_loop(beta, volume, 1) == plaquette(beta, volume)


def test_weakest_coupling_on_the_largest_lattice():
    beta, volume = 500.0, 128**2
    assert plaquette(beta, volume) == pytest.approx(1 - 1 / (2 * beta), abs=1e-6)
    assert math.isfinite(log_partition_function(beta, volume))
    assert 0 < sine_charge_squared(beta, volume) < charge_squared(beta, volume)
    # near the continuum P(Q) is a discrete Gaussian of exponent 2π²β/V, up to O(1/β)
    q = np.arange(-20, 21)
    gauss = np.exp(-2 * np.pi**2 * beta / volume * q**2)
    gauss /= gauss.sum()
    assert charge_squared(beta, volume) == pytest.approx(np.sum(q**2 * gauss), rel=3 / beta)
    np.testing.assert_allclose(charge_distribution(beta, volume, q), gauss, rtol=0, atol=1 / beta)


def test_frozen_charge_is_zero_and_not_negative():
    assert 0 <= charge_squared(500.0, 4) < 1e-14
    np.testing.assert_allclose(charge_distribution(500.0, 4, [0, 1]), [1, 0], atol=1e-12)


# ---------------------------------------------------------------- strong coupling


@pytest.mark.parametrize("volume", [4, 5, 64, 16384])
def test_strong_coupling(volume):
    beta = 1e-4
    assert plaquette(beta, volume) == pytest.approx(beta / 2, rel=1e-7)
    # ⟨x²⟩ = π²/3 − 2β + ..., and the closure constraint costs nothing at this order for V > 3
    assert charge_squared(beta, volume) == pytest.approx(volume / 12 * (1 - 6 * beta / np.pi**2), rel=1e-6)
    assert sine_charge_squared(beta, volume) == pytest.approx(volume / (8 * np.pi**2), rel=1e-6)
    assert log_partition_function(beta, volume) == pytest.approx(volume * beta**2 / 4, rel=1e-6)


@pytest.mark.parametrize("volume", [4, 5, 6, 7, 8, 12])
def test_charges_of_uniform_plaquettes(volume):
    """At β → 0, P(Q) is the density of the sum of V uniform numbers in [0, 1] at V/2 + Q (Irwin and Hall).

    For even V these are Eulerian numbers over (V − 1)!, for instance 1, 4, 1 over 3! on 2×2.
    """
    charges = np.arange(-volume // 2, volume // 2 + 1)
    p = charge_distribution(1e-12, volume, charges)
    np.testing.assert_allclose(p, [irwin_hall(volume, volume / 2 + q) for q in charges], rtol=0, atol=1e-11)


def irwin_hall(n, s):
    terms = ((-1) ** j * math.comb(n, j) * max(s - j, 0.0) ** (n - 1) for j in range(n + 1))
    return math.fsum(terms) / math.factorial(n - 1)


# ---------------------------------------------------------------- brute force on 2×2


@pytest.mark.parametrize("beta", [0.5, 2.0, 5.0])
def test_integral_over_plaquettes(beta):
    """Three free plaquettes on a periodic grid, the fourth closes the torus: exponentially accurate."""
    grid = 2 * np.pi * np.arange(64) / 64
    a, b, c = np.meshgrid(grid, grid, grid, indexing="ij", sparse=True)
    d = -(a + b + c)
    w = np.exp(beta * (np.cos(a) + np.cos(b) + np.cos(c) + np.cos(d)))
    z = np.mean(w)

    def mean(f):
        return np.mean(w * f) / z

    assert log_partition_function(beta, 4) == pytest.approx(np.log(z), abs=1e-12)
    assert plaquette(beta, 4) == pytest.approx(mean(np.cos(a)), abs=1e-12)
    assert plaquette(beta, 4) == pytest.approx(mean(np.cos(d)), abs=1e-12)
    assert wilson_loop(beta, 4, 2) == pytest.approx(mean(np.cos(a + b)), abs=1e-12)
    assert wilson_loop(beta, 4, 3) == pytest.approx(mean(np.cos(a + b + c)), abs=1e-12)
    q_r = (np.sin(a) + np.sin(b) + np.sin(c) + np.sin(d)) / (2 * np.pi)
    assert sine_charge_squared(beta, 4) == pytest.approx(mean(q_r**2), abs=1e-12)


@pytest.mark.parametrize("beta", [1e-3, 0.5, 2.0, 5.0])
def test_topological_charge_by_integration(beta):
    """Q = 1 on 2×2 is the simplex u_i ≥ 0, Σ u_i ≤ 2π of u = π − x: smooth in there, so Gauss–Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    nodes, weights = (nodes + 1) / 2, weights / 2
    r, s, t = np.meshgrid(nodes, nodes, nodes, indexing="ij")
    jacobian = (2 * np.pi) ** 3 * r**2 * s  # Duffy's map of the cube onto the simplex
    measure = np.einsum("i,j,k->ijk", weights, weights, weights) * jacobian
    u1, u2, u3 = (2 * np.pi * f for f in (r * (1 - s), r * s * (1 - t), r * s * t))
    # x_i = π − u_i and x_4 = 2π − (x_1 + x_2 + x_3) = u_1 + u_2 + u_3 − π
    weight = np.exp(-beta * (np.cos(u1) + np.cos(u2) + np.cos(u3) + np.cos(u1 + u2 + u3)))
    charged = np.sum(measure * weight) / (2 * np.pi) ** 3 / math.exp(log_partition_function(beta, 4))
    expected = [0, charged, 1 - 2 * charged, charged, 0]
    np.testing.assert_allclose(charge_distribution(beta, 4, range(-2, 3)), expected, rtol=0, atol=1e-12)
    assert charge_squared(beta, 4) == pytest.approx(2 * charged, abs=1e-12)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_integral_over_links(beta):
    """All eight links of 2×2, three fixed on a maximal tree, five on a periodic grid of 16 points each."""
    angle = 2 * np.pi * np.arange(16) / 16
    free = np.meshgrid(*[angle] * 5, indexing="ij", sparse=True)
    theta = dict.fromkeys(itertools.product((0, 1), repeat=3), 0.0)  # keys (μ, x, t)
    tree = [(0, 0, 0), (1, 0, 0), (1, 1, 0)]
    theta.update(zip([link for link in theta if link not in tree], free, strict=True))

    def p(x, t):
        right, up = theta[1, (x + 1) % 2, t], theta[0, x, (t + 1) % 2]
        return theta[0, x, t] + right - up - theta[1, x, t]

    w = np.exp(beta * sum(np.cos(p(x, t)) for x, t in itertools.product((0, 1), repeat=2)))
    z = np.mean(w)
    tolerance = 1e-12 if beta < 1 else 1e-8  # aliasing: a link sees e^{2β cos}, whose 16th mode is I_16(2β)
    assert log_partition_function(beta, 4) == pytest.approx(np.log(z), abs=tolerance)
    for x, t in itertools.product((0, 1), repeat=2):
        assert plaquette(beta, 4) == pytest.approx(np.mean(w * np.cos(p(x, t))) / z, abs=tolerance)
    for pair in (p(0, 0) + p(1, 0), p(0, 1) + p(0, 0), p(0, 1) + p(1, 1)):
        assert wilson_loop(beta, 4, 2) == pytest.approx(np.mean(w * np.cos(pair)) / z, abs=tolerance)


# ---------------------------------------------------------------- input

FUNCTIONS = [
    plaquette,
    charge_squared,
    sine_charge_squared,
    log_partition_function,
    lambda beta, volume: wilson_loop(beta, volume, 1),
    lambda beta, volume: charge_distribution(beta, volume, [0]),
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_bad_coupling_or_volume(function):
    for beta in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="beta must be positive"):
            function(beta, 64)
    for volume in (0, -4, 3, 4.5, math.nan):
        with pytest.raises(ValueError, match="volume must be"):
            function(1.0, volume)


def test_bad_area_or_charge():
    for area in (-1, 65, 0.5):
        with pytest.raises(ValueError, match="area must be"):
            wilson_loop(1.0, 64, area)
    with pytest.raises(ValueError, match="whole numbers"):
        charge_distribution(1.0, 64, [0.5])


def test_charge_distribution_keeps_the_shape():
    assert charge_distribution(1.0, 64, 0).shape == ()
    assert charge_distribution(1.0, 64, [[0, 1], [2, 1000]]).shape == (2, 2)
