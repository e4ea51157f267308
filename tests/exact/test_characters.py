"""Exact results of U(N) and SU(N) against a table, closed forms, sum rules and integration by brute force."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from dlhmc.exact.characters import (
    charge_distribution,
    charge_squared,
    dimensions,
    log_partition_function,
    plaquette,
    polyakov_correlation,
    representations,
    wilson_loop,
)
from exact.plaquette_moments import mean_plaquette_squared, plaquette_squared

PRINTED = 0.51e-6  # half of the last of six digits
GROUPS = {"U(1)": (1, False), "U(2)": (2, False), "SU(2)": (2, True), "U(3)": (3, False), "SU(3)": (3, True)}


# ---------------------------------------------------------------- known values


@pytest.mark.parametrize(
    ("colors", "is_special", "beta", "side", "expected"),
    [
        *((2, True, *row) for row in [(1.8, 16, 0.399372), (2.2, 16, 0.464479), (2.7, 16, 0.532971)]),
        *((2, True, *row) for row in [(4, 16, 0.658047), (8, 16, 0.819249), (4, 4, 0.658185)]),
        *((3, True, *row) for row in [(4, 16, 0.279619), (6, 16, 0.422532), (8, 16, 0.535754)]),
        *((2, False, *row) for row in [(10, 16, 0.790753), (12, 16, 0.827762), (16, 16, 0.872331)]),
    ],
)
def test_table_of_plaquettes(colors, is_special, beta, side, expected):
    assert plaquette(colors, is_special, beta, side**2) == pytest.approx(expected, abs=PRINTED)


@pytest.mark.parametrize(("beta", "expected"), [(10, 3.441), (12, 2.683), (16, 1.879)])
def test_table_of_charges(beta, expected):
    assert charge_squared(2, beta, 256) == pytest.approx(expected, abs=0.51e-3)


@pytest.mark.parametrize("beta", [0.1, 4.0, 300.0, 5000.0])
def test_su2_in_closed_form(beta):
    """The coefficients of SU(2) are a_j ∝ I_{2j+1}(β), also where e^β overflows."""
    volume = 64**2
    a = special.ive(np.arange(1, 200 + int(12 * math.sqrt(beta))), beta) / special.ive(1, beta)
    d = np.arange(1, a.size + 1)
    # spin ½ makes the dimension larger by one, or smaller
    neighbours = (d + 1) * np.append(a[1:], 0) + (d - 1) * np.append(0, a[:-1])
    expected = np.sum(a ** (volume - 1) * neighbours / (2 * d)) / np.sum(a**volume)
    assert plaquette(2, True, beta, volume) == pytest.approx(expected, rel=1e-9)
    assert math.isfinite(log_partition_function(2, True, beta, volume))


def test_four_colours_are_near_the_strong_coupling_phase_of_infinitely_many():
    """Below the transition of D. J. Gross and E. Witten, Phys. Rev. D 21 (1980) 446, ⟨Re tr P⟩/N = β/2N² for N → ∞."""
    assert plaquette(4, False, 6.0, 16) == pytest.approx(6 / 32, rel=1e-3)


# ---------------------------------------------------------------- consistency

POINTS = list(itertools.product(GROUPS.values(), [(0.3, 4), (2.0, 6), (9.0, 16), (12.0, 256)]))


@pytest.mark.parametrize(("group", "point"), POINTS)
def test_plaquettes_are_derivatives_of_the_free_energy(group, point):
    beta, volume = point
    h = 3e-3 * beta
    f = np.array([log_partition_function(*group, beta + s * h, volume) for s in (-2, -1, 1, 2)])
    assert f @ [1, -8, 8, -1] / (12 * h * volume) == pytest.approx(plaquette(*group, beta, volume), rel=1e-8)
    # the average of all plaquettes varies less than one of them
    assert mean_plaquette_squared(*group, beta, volume) < plaquette_squared(*group, beta, volume) < 1


@pytest.mark.parametrize(("group", "point"), POINTS)
def test_loops(group, point):
    beta, volume = point
    loops = [wilson_loop(*group, beta, volume, area) for area in (0, 1, 2, volume // 2, volume)]
    assert loops[0] == pytest.approx(1, abs=1e-13)
    assert loops[1] == plaquette(*group, beta, volume)
    assert np.all(np.diff(loops[:4]) <= 0)
    pair = [polyakov_correlation(*group, beta, volume, area) for area in (0, 1, volume - 1, volume)]
    assert 1 / group[0] ** 2 <= pair[0] <= 1
    assert pair[:2] == pytest.approx(pair[:1:-1], rel=1e-10)  # both ways around the torus
    assert pair[1] <= pair[0]


@pytest.mark.parametrize("colors", [1, 2, 3])
@pytest.mark.parametrize(("beta", "volume"), [(0.5, 6), (3.0, 7), (16.0, 16), (12.0, 256)])
def test_sum_rules_of_the_charge(colors, beta, volume):
    charges = np.arange(-volume, volume + 1)
    p = charge_distribution(colors, beta, volume, charges)
    assert np.all(p >= 0)
    assert np.all(p[2 * np.abs(charges) >= volume] == 0)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert np.sum(charges**2 * p) == pytest.approx(charge_squared(colors, beta, volume), rel=1e-10, abs=1e-12)


def test_frozen_charge_is_zero_and_not_negative():
    assert 0 <= charge_squared(2, 200.0, 4) < 1e-12


# ---------------------------------------------------------------- brute force


NODES = np.polynomial.legendre.leggauss(100)


def eigenvalue_integrals(weights, beta, k):
    """∫ dU χ_λ(U)* e^{ik arg det U} e^{x Re tr(U − 1)} over U(2), by quadrature in both angles of Weyl's formula."""
    x = beta / 2
    phi = np.pi * NODES[0]  # the phase of the determinant, θ₁ + θ₂
    delta = np.pi * (np.arange(64) + 0.5) / 64  # (θ₁ − θ₂)/2
    spin = weights[:, 0] - weights[:, 1]
    character = np.sin((spin[:, None] + 1) * delta) / np.sin(delta)  # of the SU(2) part
    density = 2 * np.sin(delta) ** 2 / 64 * np.exp(2 * x * (np.cos(phi[:, None] / 2) * np.cos(delta) - 1))
    # δ ∈ [0, π] and φ ∈ (−π, π] are all of U(2)
    phase = np.cos((k - weights.sum(axis=1)[:, None] / 2) * phi)
    return np.einsum("rp,p,pd,rd->r", phase, NODES[1] / 2, density, character, optimize=True)


@pytest.mark.parametrize("beta", [1.0, 8.0])
def test_coefficients_by_integration_over_eigenvalues(beta):
    weights, ratios = representations(2, False, beta)
    c = eigenvalue_integrals(weights, beta, 0.0)
    trivial = c[ratios == 1].item()
    np.testing.assert_allclose(ratios, c / trivial / dimensions(weights), rtol=0, atol=1e-12)
    log_z = 8 * (np.log(trivial) + beta) + np.log(np.sum(ratios**8))
    assert log_partition_function(2, False, beta, 8) == pytest.approx(log_z, rel=1e-12)


@pytest.mark.parametrize("beta", [1.0, 8.0])
def test_charge_by_integration_over_eigenvalues(beta):
    """P(Q) = ∫ dk e^{−2πikQ} Z(2πk)/Z(0): on 8 plaquettes |Q| < 4, so 8 values of k are enough."""
    weights = np.array([(spin + shift, shift) for spin in range(8) for shift in range(-20, 21)])
    z = [np.sum((eigenvalue_integrals(weights, beta, k) / dimensions(weights)) ** 8) for k in np.arange(8) / 8]
    p = np.fft.fft(z).real / (8 * z[0])
    np.testing.assert_allclose(charge_distribution(2, beta, 8, range(4)), p[:4], rtol=0, atol=1e-10)


def haar(generator, colors, is_special, shape):
    z = generator.normal(size=(*shape, colors, colors, 2)) @ [1, 1j]
    q, r = np.linalg.qr(z)
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    q = q * (diagonal / np.abs(diagonal))[..., None, :]
    return q / np.linalg.det(q)[..., None, None] ** (1 / colors) if is_special else q


SLOW = {"U(1)", "U(3)"}  # the same code as others


@pytest.mark.parametrize(
    "group", [pytest.param(g, id=n, marks=[pytest.mark.slow] if n in SLOW else []) for n, g in GROUPS.items()]
)
def test_all_links_of_a_tiny_lattice(group):
    """A 2×2 torus, its eight links drawn from the Haar measure and weighted with e^{−S}.

    One of these 40 numbers is off by more than 4 σ in about 0.3 % of all seeds.
    """
    colors, is_special = group
    beta, samples, sides = 1.6, 30_000, (2, 2)
    u = haar(np.random.default_rng(17), colors, is_special, (2, *sides, samples))

    def dagger(m):
        return m.conj().swapaxes(-1, -2)

    def trace(m):
        return np.trace(m, axis1=-2, axis2=-1) / colors

    p = u[0] @ np.roll(u[1], -1, 0) @ dagger(np.roll(u[0], -1, 1)) @ dagger(u[1])
    assert p.shape[:2] == sides
    local = trace(p).real
    weight = np.exp(beta * np.sum(local, axis=(0, 1)))
    # two sites along 0, one along 1
    double = (
        u[0] @ np.roll(u[0] @ np.roll(u[1], -1, 0), -1, 0) @ dagger(u[1] @ np.roll(u[0] @ np.roll(u[0], -1, 0), -1, 1))
    )
    polyakov = trace(u[1, :, 0] @ u[1, :, 1])
    charge = np.angle(np.linalg.det(p)).sum(axis=(0, 1)) / (2 * np.pi)
    args = (*group, beta, 4)
    mean = local.mean(axis=(0, 1))
    checks = [
        (mean, plaquette(*args)),
        (mean**2, mean_plaquette_squared(*args)),
        ((local**2).mean(axis=(0, 1)), plaquette_squared(*args)),
        (trace(double).real.mean(axis=(0, 1)), wilson_loop(*args, 2)),
        ((np.abs(polyakov) ** 2).mean(axis=0), polyakov_correlation(*args)),
        ((polyakov * np.roll(polyakov, 1, 0).conj()).real.mean(axis=0), polyakov_correlation(*args, 2)),
    ]
    if not is_special:
        checks.append((charge**2, charge_squared(colors, beta, 4)))
        checks += [(np.abs(charge - q) < 0.5, charge_distribution(colors, beta, 4, q)) for q in (0, 1)]
    for values, expected in checks:
        error = np.std(weight * (values - expected)) / (np.mean(weight) * math.sqrt(samples))
        assert abs(np.mean(weight * values) / np.mean(weight) - expected) < 4 * error + 1e-12
        assert error < 0.03


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "call",
    [
        lambda: plaquette(2, True, 0.0, 16),
        lambda: plaquette(2, True, math.inf, 16),
        lambda: plaquette(1, True, 2.0, 16),
        lambda: plaquette(2, True, 2.0, 2),
        lambda: wilson_loop(2, True, 2.0, 16, 17),
        lambda: polyakov_correlation(2, True, 2.0, 16, -1),
        lambda: charge_distribution(2, 2.0, 16, [0.5]),
    ],
)
def test_arguments_that_make_no_sense(call):
    with pytest.raises(ValueError, match=r"must|needs"):
        call()
