"""Exact draws of SU(2) and U(2) on the torus, held to the exact results."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.exact import characters as exact
from dlhmc.exact.splitting import TorusDraws, _heat_bath
from dlhmc.geometry.unitary import UnitaryMatrices
from dlhmc.testing.checks import evaluate  # the program that tests of kernels need anyway
from exact.plaquette_moments import mean_plaquette_squared, plaquette_squared


def dagger(u):
    return u.conj().swapaxes(-1, -2)


def normalised_trace(u):
    return np.trace(u, axis1=-2, axis2=-1) / 2


def polyakov(u, axis):
    """Loops around the lattice along an axis, by their place on the other one."""
    lines = np.moveaxis(u[axis], axis, 0)
    loop = lines[0]
    for line in lines[1:]:
        loop = loop @ line
    return normalised_trace(loop)


def measured(x):
    """Functions of the links whose means are known, with the arguments of the exact results."""
    u = np.moveaxis(np.asarray(x, np.complex128), (0, 1), (-2, -1))
    p = u[0] @ np.roll(u[1], -1, 0) @ dagger(np.roll(u[0], -1, 1)) @ dagger(u[1])
    local = normalised_trace(p).real
    along = u[0] @ np.roll(u[0], -1, 0)  # two links
    double = along @ np.roll(u[1], -2, 0) @ dagger(np.roll(along, -1, 1)) @ dagger(u[1])
    square = along @ np.roll(u[1], -2, 0) @ np.roll(u[1], (-2, -1), (0, 1))
    square = square @ dagger(u[1] @ np.roll(u[1], -1, 1) @ np.roll(along, -2, 1))
    loops = [polyakov(u, axis) for axis in (0, 1)]
    return {
        "plaquette": local.mean((0, 1)),
        # where rounding, the tree and its closing links would show
        "first": local[0, 0],
        "last": local[-1, -1],
        "corner": local[-1, 0],
        "plaquette_squared": (local**2).mean((0, 1)),
        "mean_plaquette_squared": local.mean((0, 1)) ** 2,
        "loop_2": normalised_trace(double).real.mean((0, 1)),
        "loop_4": normalised_trace(square).real.mean((0, 1)),
        "polyakov_0": (np.abs(loops[0]) ** 2).mean(0),
        "polyakov_1": (np.abs(loops[1]) ** 2).mean(0),
        "neighbours_1": (loops[1] * np.roll(loops[1], 1, 0).conj()).real.mean(0),
        "charge": np.angle(np.linalg.det(p)).sum((0, 1)) / (2 * np.pi),
    }


def expected(lattice, special, beta):
    arguments = (2, special, beta, lattice[0] * lattice[1])
    polyakov_squared = exact.polyakov_correlation(*arguments)
    return {
        **dict.fromkeys(("plaquette", "first", "last", "corner"), exact.plaquette(*arguments)),
        "plaquette_squared": plaquette_squared(*arguments),
        "mean_plaquette_squared": mean_plaquette_squared(*arguments),
        "loop_2": exact.wilson_loop(*arguments, 2),
        "loop_4": exact.wilson_loop(*arguments, 4),
        "polyakov_0": polyakov_squared,
        "polyakov_1": polyakov_squared,
        "neighbours_1": exact.polyakov_correlation(*arguments, lattice[1]),
    }


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("lattice", "special", "beta", "batches"),
    [
        ((4, 4), True, 6.0, 2),
        pytest.param((4, 4), False, 10.0, 4, marks=pytest.mark.slow),
        pytest.param((3, 5), False, 3.0, 1, marks=pytest.mark.slow),  # parts of unequal sizes
        pytest.param((6, 6), False, 16.0, 1, marks=pytest.mark.slow),
        ((4, 4), False, 160.0, 2),  # nearly frozen, and holonomies nearly commute
        pytest.param((2, 2), False, 40.0, 2, marks=pytest.mark.slow),
    ],
)
def test_exact_results(lattice, special, beta, batches):
    """All means within 4 σ: for exact draws, one of these 70 numbers is not in about 0.4 % of all seeds."""
    draws = TorusDraws.build(lattice, special, beta)
    found = [
        measured(evaluate(draws.draw, jax.random.key(seed), 5000, jnp.dtype(jnp.float32))) for seed in range(batches)
    ]
    values = {name: np.concatenate([batch[name] for batch in found]) for name in found[0]}
    wanted = expected(lattice, special, beta)
    charge = np.rint(values["charge"])
    assert np.max(np.abs(values["charge"] - charge)) < 1e-4
    if not special:
        volume = lattice[0] * lattice[1]
        wanted |= {"charge": 0.0, "charge_squared": exact.charge_squared(2, beta, volume)}
        values["charge_squared"] = charge**2
        for q in (0, 1, -1):
            wanted[f"P({q})"] = exact.charge_distribution(2, beta, volume, q).item()
            values[f"P({q})"] = charge == q
    for name, value in wanted.items():
        # 1e-4: no charge in all chains has no variance
        assert abs(np.mean(values[name]) - value) < 4 * np.std(values[name]) / math.sqrt(charge.size) + 1e-4, name


@pytest.mark.parametrize("special", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_links_are_of_the_group_and_every_chain_has_its_own_numbers(x64, special):
    draws = TorusDraws.build((3, 4), special, 5.0)
    few, many = (
        np.asarray(evaluate(draws.draw, jax.random.key(3), chains, jnp.dtype(jnp.float64))) for chains in (3, 5)
    )
    assert many.shape == (2, 2, 2, 3, 4, 5)
    assert many.dtype == np.complex128
    np.testing.assert_allclose(few, many[..., :3], atol=1e-9)
    assert not np.allclose(many[..., 0], many[..., 1])
    u = np.moveaxis(many, (0, 1), (-2, -1))
    np.testing.assert_allclose(u @ dagger(u), np.broadcast_to(np.eye(2), u.shape), atol=1e-13)
    determinant = np.linalg.det(u)
    assert (np.max(np.abs(determinant - 1)) < 1e-13) == special


@pytest.mark.parametrize("beta", [0.01, 40.0])  # at 0.01, couplings of large parts vanish
def test_plaquettes_have_the_product_that_they_were_split_from(beta):
    draws = TorusDraws.build((4, 4), False, beta)
    key = jax.random.key(0)
    product = UnitaryMatrices(2, False, ()).scatter(key, 50, jnp.dtype(jnp.float32))
    p = np.moveaxis(np.asarray(eqx.filter_jit(draws._plaquettes)(key, product)).reshape(2, 2, 16, 50), (0, 1), (2, 3))
    np.testing.assert_allclose(p @ dagger(p), np.broadcast_to(np.eye(2), p.shape), atol=1e-5)
    np.testing.assert_allclose(functools.reduce(np.matmul, p), np.moveaxis(product, 2, 0), atol=1e-4)


def test_single_links_are_uniform():
    """Gauge transformations leave nothing of the tree: every matrix element has |U|² uniform, every phase as well."""
    draws = TorusDraws.build((4, 4), False, 8.0)  # the program of the test above
    u = np.asarray(evaluate(draws.draw, jax.random.key(1), 5000, jnp.dtype(jnp.float32)))
    for value in (np.abs(u[0, 0]) ** 2, np.angle(u[0, 1]) / (2 * np.pi) + 0.5, np.angle(u[1, 1]) / (2 * np.pi) + 0.5):
        # 4.5 σ of a uniform variable, for each of 96 means
        assert np.max(np.abs(value.mean(axis=-1) - 0.5)) < 4.5 / math.sqrt(12 * 5000)


def test_the_heat_bath_never_accepts_with_more_than_certainty():
    """The bound on ln M that `_draw_phase` states."""
    generator = np.random.default_rng(0)
    shape = (40, 40, 250)
    x, y = (v[..., None] for v in np.meshgrid(*[np.geomspace(1e-3, 30, 40)] * 2, indexing="ij"))
    r = np.linalg.qr(generator.normal(size=(*shape, 2, 2, 2)) @ [1, 1j])[0]
    m = x * np.eye(2)[..., None, None, None] + y * np.moveaxis(r, (-2, -1), (0, 1))
    # proposals that would be accepted for sure, apart from the angle
    n = jnp.full((3, *shape), 1e-4, jnp.float32)
    u = jnp.stack([jnp.asarray(generator.uniform(size=shape), jnp.float32), jnp.full(shape, 0.5, jnp.float32)])
    _, log_accept = jax.jit(_heat_bath, static_argnums=0)(False, jnp.asarray(m, jnp.complex64), n, u)
    assert float(jnp.max(log_accept)) < 1e-4
