"""The Dirac operator against its definition, site by site, and the solver against dense algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.fermions.dirac import Dirac
from dlhmc.fermions.solver import conjugate_gradient
from unoptimised import unoptimised

GAMMA = (np.array([[0, 1], [1, 0]]), np.array([[0, -1j], [1j, 0]]))
SIDES = [(4, 4), (2, 6), (6, 4)]


def links(sides, seed=0, dtype=np.float64):
    return jnp.asarray(np.random.default_rng(seed).uniform(-np.pi, np.pi, (2, *sides, 2)), dtype)


def dirac_at(x, mass):
    return unoptimised(Dirac.at)(x, jnp.asarray(mass))


def by_definition(x, mass):
    """D of one configuration as a matrix on sites and spins."""
    rows, times = x.shape[1:]
    matrix = (mass + 2) * np.eye(2 * rows * times, dtype=complex)
    for i, t in np.ndindex(rows, times):
        for direction, (j, u) in enumerate((((i + 1) % rows, t), (i, (t + 1) % times))):
            sign = -1 if direction == 1 and t == times - 1 else 1
            here, there = (slice(2 * (k * times + s), 2 * (k * times + s) + 2) for k, s in ((i, t), (j, u)))
            link = sign * np.exp(1j * x[direction, i, t])
            matrix[here, there] -= 0.5 * (np.eye(2) - GAMMA[direction]) * link
            matrix[there, here] -= 0.5 * (np.eye(2) + GAMMA[direction]) * np.conj(link)
    return matrix


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("sides", SIDES)
def test_determinant(sides):
    """The even sites have it all: any sign, link or boundary out of place would change it."""
    x = links(sides)
    found = unoptimised(lambda x: Dirac.at(x, jnp.asarray(-0.1)).log_determinant())(x)
    expected = [np.linalg.slogdet(by_definition(np.asarray(x)[..., chain], -0.1)) for chain in range(2)]
    np.testing.assert_allclose(found, [logarithm for _, logarithm in expected], rtol=1e-12)
    # With an even number of flavours no sign could show; there is none.
    np.testing.assert_allclose([sign for sign, _ in expected], 1, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_adjoint():
    dirac = dirac_at(links((4, 6)), 0.1)
    one, other = map(np.asarray, spinors(dirac))
    found = unoptimised(lambda d, one, other: (d.matrix(), d.apply(other), d.adjoint(one)))(dirac, one, other)
    matrix, applied, adjoint = map(np.asarray, found)
    np.testing.assert_allclose(np.vdot(one, applied), np.vdot(adjoint, other), rtol=1e-12)
    product = np.einsum("cij,jc->ic", matrix, other.reshape(-1, 2))
    np.testing.assert_allclose(product, applied.reshape(-1, 2), atol=1e-12)


def spinors(dirac):
    numbers = np.random.default_rng(3).normal(size=(2, 2, *dirac.even.shape))
    return jnp.asarray(numbers[0] + 1j * numbers[1], dirac.even.dtype)


@pytest.mark.parametrize(("double", "tolerance"), [(False, 1e-6), (True, 1e-12)])
def test_solver(double, tolerance):
    with jax.enable_x64(double):
        dirac = dirac_at(links((4, 4), 1, np.float64 if double else np.float32), -0.1)
        b = spinors(dirac)[0]
        solve = unoptimised(
            lambda b: conjugate_gradient(lambda p: dirac.apply(dirac.adjoint(p)), b, 0.1 * tolerance, 500)
        )
        found = solve(b)
        matrix = np.asarray(unoptimised(lambda d: d.matrix())(dirac), np.complex128)
        square = matrix @ np.conj(np.swapaxes(matrix, 1, 2))
        expected = np.linalg.solve(square, np.moveaxis(np.asarray(b, np.complex128).reshape(-1, 2), 1, 0)[..., None])
        size = np.abs(expected).max()
        np.testing.assert_allclose(
            np.moveaxis(np.asarray(found.x).reshape(-1, 2), 1, 0), expected[..., 0], atol=tolerance * size
        )
        assert found.converged.all()


@pytest.mark.usefixtures("x64")
def test_chains_do_not_see_each_other_and_failure_is_told():
    dirac = dirac_at(links((4, 4), 1), -0.1)
    b = spinors(dirac)[0]

    @unoptimised
    def solve(links, b, residual, most):
        there = Dirac(*links)
        return conjugate_gradient(lambda p: there.apply(there.adjoint(p)), b, residual, most)

    both = solve(tuple(dirac), b, 1e-8, 500)
    first = solve((dirac.even[..., :1], dirac.odd[..., :1], dirac.diagonal), b[..., :1], 1e-8, 500)
    np.testing.assert_allclose(both.x[..., :1], first.x, atol=1e-13)
    assert not solve(tuple(dirac), b, 1e-8, 3).converged.any()
