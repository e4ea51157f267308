import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlhmc.exact import characters
from dlhmc.geometry.torus import wrap_angle
from dlhmc.lattice.links import gauge_transform, instanton, polyakov_loops, reflect, rotate, translate, transpose
from dlhmc.lattice.loops import plaquettes
from dlhmc.lattice.tree import from_plaquettes
from dlhmc.targets import energy_change
from dlhmc.theories.gauge.field import U1
from dlhmc.theories.gauge.known import charge, measure_loop, sine_charge

sides = st.integers(2, 5)


def hot(lattice, chains=2, seed=0):
    return np.random.default_rng(seed).uniform(-np.pi, np.pi, (2, *lattice, chains))


def test_plaquette_orientation_link_by_link():
    lattice = (3, 4)
    x = np.asarray(U1(lattice, 1.0).start(jax.random.key(0), "hot", 1, jnp.float32))[..., 0]
    p = np.asarray(plaquettes(jnp.asarray(x)[..., None]))[..., 0]
    for i in range(3):
        for j in range(4):
            right, up = (i + 1) % 3, (j + 1) % 4
            assert p[i, j] == pytest.approx(x[0, i, j] + x[1, right, j] - x[0, i, up] - x[1, i, j], abs=1e-5)


@pytest.mark.usefixtures("x64")
def test_charges_as_in_the_paper():
    x = np.asarray(hot((4, 5)), np.float64)
    p = np.asarray(plaquettes(jnp.asarray(x)), np.float64)
    floor = p - 2 * np.pi * np.floor((p + np.pi) / (2 * np.pi))
    np.testing.assert_allclose(charge(x), floor.sum((0, 1)) / (2 * np.pi), atol=1e-5)
    np.testing.assert_allclose(sine_charge(x), np.sin(p).sum((0, 1)) / (2 * np.pi), atol=1e-5)


@pytest.mark.usefixtures("x64")
@settings(deadline=None, max_examples=8, derandomize=True)
@given(sides, sides, st.integers(0, 100))
def test_charge_is_an_integer_before_rounding(lx, lt, seed):
    x = hot((lx, lt), seed=seed)
    total = np.asarray(jax.jit(lambda x: jnp.sum(wrap_angle(plaquettes(x)), axis=(0, 1)))(x)) / (2 * np.pi)
    np.testing.assert_allclose(total, np.round(total), atol=1e-10)


@pytest.mark.usefixtures("x64")
@settings(deadline=None, max_examples=8, derandomize=True)
@given(sides, sides, st.integers(0, 100))
def test_links_from_plaquettes(lx, lt, seed):
    @jax.jit
    def there_and_back(x, holonomies):
        wanted = plaquettes(x)
        links = from_plaquettes(wanted, holonomies)
        return links, wrap_angle(plaquettes(links) - wanted)

    holonomies = np.asarray([[0.3, -2.0], [1.0, 0.7]])
    x, difference = there_and_back(hot((lx, lt), seed=seed), holonomies)
    np.testing.assert_allclose(difference, 0, atol=1e-12)
    np.testing.assert_allclose(np.sum(x[0][:, 0], axis=0), holonomies[0], atol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("lattice", [(2, 2), (4, 4), (3, 8)])
def test_instanton(lattice):
    volume = lattice[0] * lattice[1]
    field = instanton(lattice, jnp.float64)
    np.testing.assert_allclose(wrap_angle(plaquettes(field)), 2 * np.pi / volume, atol=1e-12)
    assert charge(field).tolist() == [1.0]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 1), (1, 3), (2, 2)])
def test_wilson_loops(m, n):
    lattice = (4, 5)
    x = jnp.asarray(hot(lattice))
    loop = measure_loop(x, m, n)

    # A loop is the product of the plaquettes inside it; both orientations count.
    def expected(m, n):
        inside = sum(jnp.roll(plaquettes(x), (-i, -j), axis=(0, 1)) for i in range(m) for j in range(n))
        return jnp.cos(inside).mean(axis=(0, 1))

    np.testing.assert_allclose(loop, (expected(m, n) + expected(n, m)) / 2, atol=1e-12)
    alpha = jax.random.normal(jax.random.key(3), (*lattice, 2))
    np.testing.assert_allclose(measure_loop(gauge_transform(x, alpha), m, n), loop, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_polyakov_loops_are_gauge_invariant_and_see_the_holonomy():
    lattice = (4, 5)
    x = jnp.asarray(hot(lattice))
    alpha = jax.random.normal(jax.random.key(3), (*lattice, 2))
    np.testing.assert_allclose(polyakov_loops(gauge_transform(x, alpha)), polyakov_loops(x), atol=1e-12)
    flat = from_plaquettes(jnp.zeros((*lattice, 1)), jnp.asarray([[0.4], [1.1]]))
    expected = np.exp([[0.4j], [1.1j]])
    np.testing.assert_allclose(polyakov_loops(flat), expected, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_symmetries_form_their_group():
    x = jnp.asarray(hot((4, 4)))
    four = x
    for _ in range(4):
        four = rotate(four)
    np.testing.assert_allclose(four, x)
    for involution in (transpose, lambda y: reflect(y, 0), lambda y: reflect(y, 1)):
        np.testing.assert_allclose(involution(involution(x)), x)
    np.testing.assert_allclose(rotate(rotate(x)), reflect(reflect(x, 0), 1))
    moved = translate(x, jnp.asarray([1, 3]))
    np.testing.assert_array_equal(moved[:, 1, 3], x[:, 0, 0])


@pytest.mark.usefixtures("x64")
def test_annealing_factor_scales_the_action():
    x = hot((4, 4))
    half, full = U1((4, 4), 3.0, gamma=0.5), U1((4, 4), 3.0)
    np.testing.assert_allclose(half.action(x), 0.5 * full.action(x))
    np.testing.assert_allclose(half.force(x), 0.5 * full.force(x))
    assert half.exact() == U1((4, 4), 1.5).exact()


@pytest.mark.statistical
@pytest.mark.parametrize("side", [16, pytest.param(64, marks=pytest.mark.slow)])
def test_energy_change_in_single_precision(side):
    """Float32 ΔH against float64 on the same numbers, as accept/reject sees it."""
    beta = 7.0 * (side / 16) ** 2
    with jax.enable_x64(True):
        exact = U1((side, side), beta)
        draw = jax.jit(lambda draws, key: draws.draw(key, 16, jnp.float64))
        x = draw(exact.exact_draws(), jax.random.key(1))
        v = exact.geometry.momentum(jax.random.key(2), x)
        # A proposal whose every term differs by as much as after a long trajectory.
        y = draw(exact.exact_draws(), jax.random.key(3))
        w = exact.geometry.momentum(jax.random.key(4), x)
        single = [np.asarray(a, np.float32) for a in (x, v, y, w)]
        double = [jnp.asarray(a, jnp.float64) for a in single]
        reference = np.asarray(energy_change(exact, (double[0], double[1]), (double[2], double[3])))
    x, v, y, w = map(jnp.asarray, single)
    measured = np.asarray(energy_change(U1((side, side), beta), (x, v), (y, w)), np.float64)
    assert measured.dtype == np.float64
    error = np.abs(measured - reference).max()
    # Differences of whole sums would be off by 1e-3 at 64×64, which is 0.1 % in the acceptance.
    assert error < 5e-4, error


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("lattice", "beta"),
    [
        ((8, 8), 2.0),
        pytest.param((16, 16), 7.0, marks=pytest.mark.slow),
        pytest.param((12, 6), 4.0, marks=pytest.mark.slow),
        pytest.param((4, 4), 0.3, marks=pytest.mark.slow),
    ],
)
def test_exact_draws_have_the_exact_charge_distribution(lattice, beta):
    target = U1(lattice, beta)
    chains = 10_000
    areas = ((1, 1), (2, 2), (1, 3))

    @jax.jit
    def drawn(draws, key):
        x = draws.draw(key, chains, jnp.float32)
        loops = [measure_loop(x, m, n) for m, n in areas]
        return jnp.abs(x).max(), charge(x), loops, polyakov_loops(x)

    largest, charges, loops, polyakov = jax.tree.map(np.asarray, drawn(target.exact_draws(), jax.random.key(8)))
    assert largest <= np.pi + 1e-6
    values = np.arange(-8, 9)
    expected = chains * characters.charge_distribution(1, beta, math.prod(target.geometry.elements[1:]), values)
    seen = np.array([(charges == q).sum() for q in values])
    enough = expected > 10
    chi2 = ((seen - expected)[enough] ** 2 / expected[enough]).sum()
    # χ² with about ten degrees of freedom: above 32 with probability 4e-4 at a new seed, for each of four cases.
    assert chi2 < 32
    # Loops of several areas and Polyakov loops, which vanish: 3.5 σ each.
    for (m, n), loop in zip(areas, (loop.astype(np.float64) for loop in loops), strict=True):
        exact = characters.wilson_loop(1, False, beta, math.prod(target.geometry.elements[1:]), m * n)
        assert abs(loop.mean() - exact) < 3.5 * loop.std() / np.sqrt(chains)
    polyakov = np.stack([polyakov.real, polyakov.imag]).astype(np.float64)
    assert np.all(np.abs(polyakov.mean(-1)) < 4 * polyakov.std(-1) / np.sqrt(chains))
