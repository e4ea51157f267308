"""U(N) and SU(N): the exponential against SciPy, distances, projection and the Haar measure."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from dlhmc.geometry import UnitaryMatrices
from dlhmc.geometry.unitary import determinant
from dlhmc.testing.checks import evaluate
from unoptimised import unoptimised

GROUPS = [(1, False), (2, False), (2, True), (3, False), (3, True), (4, True)]
ALL = pytest.mark.parametrize(("colors", "special"), GROUPS)
# U(3) is U(2) and SU(3) where it matters.
MOST = pytest.mark.parametrize(("colors", "special"), [group for group in GROUPS if group != (3, False)])
LENGTHS = (0.0, 1e-9, 1e-5, 0.01, 0.05, 0.3, 1.0, 3.0)
SIDES = (7,)


def geometry_of(colors, special):
    return UnitaryMatrices(colors, special, SIDES)


def momenta(geometry, chains, seed=0):
    return np.random.default_rng(seed).normal(size=(*geometry.momentum_shape, chains))


def haar(geometry, chains, seed=0, dtype=jnp.float64):
    return evaluate(geometry.scatter, jax.random.key(seed), chains, jnp.dtype(dtype))


def matrices(x):
    """As NumPy's linear algebra has them: [*element, chain, N, N]."""
    return np.moveaxis(np.asarray(x), (0, 1), (-2, -1))


def dagger(m):
    return m.conj().swapaxes(-1, -2)


def algebra(geometry, v):
    """Σ_a v_a T_a of the generators, [*element, chain, N, N]."""
    return np.einsum("a...,aij->...ij", np.asarray(v, np.float64), geometry.generators())


def distance_from_group(x, special):
    u = matrices(x).astype(np.complex128)
    error = np.abs(u @ dagger(u) - np.eye(u.shape[-1])).max()
    return max(error, np.abs(np.linalg.det(u) - 1).max()) if special else error


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("dtype", "lengths", "tolerance"),
    [(np.float64, (*LENGTHS, 10.0, 30.0), 1e-12), (np.float32, LENGTHS, 2e-6)],
    ids=["double", "single"],
)
@ALL
def test_exponential(colors, special, dtype, lengths, tolerance):
    geometry = geometry_of(colors, special)
    x = haar(geometry, len(lengths)).astype(geometry.dtype(jnp.dtype(dtype)))
    d = (np.array(lengths) * momenta(geometry, len(lengths))).astype(dtype)
    wanted = expm(1j * algebra(geometry, d)) @ matrices(x).astype(np.complex128)
    found = matrices(evaluate(geometry.moved, x, jnp.asarray(d)))
    assert found.dtype == x.dtype
    # Rounding of d itself is magnified by its length.
    errors = np.abs(found - wanted).max(axis=(0, 2, 3)) / np.maximum(1, lengths)
    assert errors.max() < tolerance, errors


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@MOST
def test_too_long_displacements_are_never_silently_wrong(colors, special, dtype, x64):
    geometry = geometry_of(colors, special)
    lengths = np.append(np.geomspace(10, 1e30, 60), np.inf)
    d = jnp.asarray(lengths * momenta(geometry, len(lengths)), dtype)
    u = matrices(evaluate(geometry.moved, haar(geometry, len(lengths), dtype=dtype), d)).astype(np.complex128)
    error = np.abs(np.einsum("...ij,...kj->...ik", u, u.conj()) - np.eye(colors)).max(axis=(-2, -1))
    assert np.all(np.isnan(error) | (error < 1e-3))
    assert np.isnan(error[:, lengths > 1e7]).all()


@ALL
def test_generators(colors, special):
    geometry = geometry_of(colors, special)
    t = geometry.generators()
    assert len(t) == colors**2 - special == geometry.momentum_shape[0]
    np.testing.assert_array_equal(t, dagger(t))
    norm = 1.0 if colors == 1 else 0.5
    np.testing.assert_allclose(np.einsum("aij,bji->ab", t, t), norm * np.eye(len(t)), atol=1e-15)
    if special:
        np.testing.assert_allclose(np.trace(t, axis1=1, axis2=2), 0, atol=1e-15)


@ALL
def test_components(colors, special, x64):
    """Of any matrix, the part in the algebra."""
    geometry = geometry_of(colors, special)
    v = momenta(geometry, 2)
    hermitian = evaluate(geometry.hermitian, jnp.asarray(v))
    np.testing.assert_allclose(matrices(hermitian), algebra(geometry, v), atol=1e-14)
    generator = np.random.default_rng(1)
    m = generator.normal(size=(2, *geometry.shape, 2))
    m = m[0] + 1j * m[1]
    part = (m - np.conj(m.swapaxes(0, 1))) / 2j
    if special:
        part -= np.trace(part) / colors * np.eye(colors).reshape(colors, colors, 1, 1)
    found = evaluate(geometry.hermitian, evaluate(geometry.components, jnp.asarray(m)))
    np.testing.assert_allclose(found, part, atol=1e-14)


@MOST
def test_difference_is_the_shortest_way(colors, special, x64):
    """Brute force finds none that is shorter, also where the phases of SU(N) wind around the circle."""
    geometry = geometry_of(colors, special)
    start, other = haar(geometry, 20, 1), haar(geometry, 20, 2)
    # Phases that add up to 2π, between vectors of the Haar measure.
    shares = np.random.default_rng(3).dirichlet(np.full(colors, 5.0), (*SIDES, 10))
    vectors = matrices(other)[:, :10]
    winding = vectors * np.exp(2j * np.pi * shares)[..., None, :] @ dagger(vectors) @ matrices(start)[:, :10]
    end = other.at[..., :10].set(np.moveaxis(winding, (-2, -1), (0, 1)))
    d = evaluate(geometry.difference, start, end)
    assert np.abs(evaluate(geometry.moved, start, d) - end).max() < 1e-12
    quotient = matrices(end) @ dagger(matrices(start))
    phases = np.angle(np.linalg.eigvals(quotient))
    turns = 2 * np.pi * np.array(list(itertools.product((-1, 0, 1), repeat=colors)))
    ways = phases[..., None, :] + turns
    lengths = np.sum(ways**2, axis=-1)
    if special:
        lengths = np.where(np.abs(ways.sum(axis=-1)) > 1, np.inf, lengths)
        assert colors == 2 or np.any(np.abs(phases.sum(axis=-1)) > 1)
    found = np.sum(np.asarray(d) ** 2, axis=0) * geometry.norm
    np.testing.assert_allclose(found, lengths.min(axis=-1), rtol=1e-10, atol=1e-20)


# Rounding in single precision: 3.1e-6 for N = 4 is the largest that was seen, with jaxlib 0.12.
@MOST
@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 5e-6), ("float64", 1e-13)])
def test_difference_of_neighbours(colors, special, dtype, rounding):
    with jax.enable_x64(dtype == "float64"):
        geometry = geometry_of(colors, special)
        d = jnp.asarray(0.1 * momenta(geometry, 3), dtype)
        x = haar(geometry, 3, dtype=jnp.dtype(dtype))
        found = evaluate(geometry.difference, x, evaluate(geometry.moved, x, d))
        assert np.abs(found - d).max() < rounding
        assert np.abs(evaluate(geometry.difference, x, x)).max() < rounding


def test_difference_has_a_derivative_where_eigenvalues_meet(x64):
    geometry = UnitaryMatrices(2, False, ())
    x, d = haar(geometry, 2), jnp.asarray(momenta(geometry, 2))

    @unoptimised
    def derivative(x, d):
        return jax.jvp(lambda d: geometry.difference(x, geometry.moved(x, d)), (jnp.zeros_like(d),), (d,))[1]

    np.testing.assert_allclose(derivative(x, d), d, atol=1e-12)


@pytest.mark.parametrize("colors", [1, 2, 3])
def test_the_centre_is_along_the_unit_matrix(colors):
    t = np.ones((*SIDES, 1), np.float32)
    found = matrices(evaluate(geometry_of(colors, False).hermitian, geometry_of(colors, False).central(t)))
    length = 1 if colors == 1 else np.sqrt(0.5 / colors)
    np.testing.assert_allclose(found, np.broadcast_to(length * np.eye(colors), found.shape), atol=1e-6)


@MOST
def test_projection(colors, special, x64):
    """It keeps matrices of the group, and brings back those beside it: to second order in the distance."""
    geometry = geometry_of(colors, special)
    x = haar(geometry, 3)
    assert distance_from_group(x, special) < 1e-13
    assert np.abs(evaluate(geometry.project, x) - x).max() < 1e-14
    generator = np.random.default_rng(1)
    noise = generator.normal(size=(2, *x.shape))
    beside = x + 1e-5 * (noise[0] + 1j * noise[1])
    assert distance_from_group(beside, special) > 1e-6
    back = evaluate(geometry.project, beside)
    assert distance_from_group(back, special) < 1e-8
    assert np.abs(back - x).max() < 1e-4


@MOST
def test_haar_measure(colors, special):
    """Moments of characters; for each of these 43 numbers 4 σ fails at a new seed with probability 6e-5."""
    geometry = UnitaryMatrices(colors, special, ())
    u = matrices(haar(geometry, 20_000, 3, jnp.float32)).astype(np.complex128)
    assert distance_from_group(haar(geometry, 100, 3, jnp.float32), special) < 2e-6
    trace = np.trace(u, axis1=1, axis2=2)
    fourth = {1: 1, 2: 2}.get(colors, 2)
    moments = {
        "tr": (trace.real, 0),
        "|tr|²": (np.abs(trace) ** 2, 1),
        "|tr|⁴": (np.abs(trace) ** 4, fourth),
        "tr²": ((trace**2).real, 1 if (colors, special) == (2, True) else 0),
        "tr³": ((trace**3).real, 1 if (colors, special) == (3, True) else 0),
        "one entry": (np.abs(u[:, 0, -1]) ** 2, 1 / colors),
        # It would be normal for rows that are not orthogonal.
        "its square": (np.abs(u[:, -1, 0]) ** 4, 2 / (colors * (colors + 1))),
        "det": (np.linalg.det(u).real, 1 if special else 0),
    }
    for name, (values, expected) in moments.items():
        assert abs(values.mean() - expected) < 4 * values.std() / np.sqrt(len(values)) + 1e-6, name


@pytest.mark.parametrize("colors", [1, 2, 3, 4, 5])
def test_determinant(colors, x64):
    generator = np.random.default_rng(1)
    m = generator.normal(size=(colors, colors, 3, 2)) + 1j * generator.normal(size=(colors, colors, 3, 2))
    np.testing.assert_allclose(jax.jit(determinant)(m), np.linalg.det(matrices(m)), rtol=1e-12)
