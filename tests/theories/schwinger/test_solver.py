"""Conjugate gradients on diagonal matrices, where everything is known without a Dirac operator."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.fermions.solver import conjugate_gradient, solve
from unoptimised import unoptimised

RESIDUAL, SIZE = 0.05, 12
DIAGONAL = np.linspace(1, 20, SIZE)[:, None] + 0j


pytestmark = pytest.mark.usefixtures("x64")

# Right-hand sides that are easy, so that one iteration is enough but not exact, hard, small and zero.
HARD = np.exp(2j * np.arange(SIZE))
EASY = np.eye(SIZE)[3] * (1 - 2j) + 0.01 * HARD
B = np.stack([EASY, HARD, 1e-4 * (np.eye(SIZE)[5] + np.eye(SIZE)[9]), 0 * EASY], axis=1)


@unoptimised
def solutions(b, most):
    return conjugate_gradient(lambda x: DIAGONAL * x, b, RESIDUAL, most)


def distances(x):
    return np.linalg.norm(B - DIAGONAL * x, axis=0)


def test_each_chain_is_solved_to_its_own_residual_and_then_left_alone():
    x, iterations, converged = solutions(jnp.asarray(B), jnp.int32(100))
    assert converged.all()
    assert np.all(distances(x) <= RESIDUAL * np.linalg.norm(B, axis=0))
    assert iterations[1] > 3
    np.testing.assert_array_equal(iterations[jnp.asarray([0, 2, 3])], [1, 2, 0])
    for chain in range(4):
        alone, own, _ = solutions(jnp.asarray(B[:, [chain] * 4]), jnp.int32(100))
        np.testing.assert_allclose(alone[:, 0], x[:, chain], rtol=1e-12, atol=1e-15)
        assert own[0] == iterations[chain]


def test_what_did_not_converge_is_told():
    """Exactly those chains whose residual is still too large, after any number of iterations."""
    for most in range(8):
        x, iterations, converged = map(np.asarray, solutions(jnp.asarray(B), jnp.int32(most)))
        np.testing.assert_array_equal(converged, distances(x) <= RESIDUAL * np.linalg.norm(B, axis=0))
        assert iterations.max() <= most
        assert np.all(converged | (iterations == most))


def test_solutions_have_derivatives():
    """Of the matrix and of the right-hand side: x = b/a, dx = db/a − b da/a²."""
    numbers = np.random.default_rng(0).uniform(1, 3, (4, 5, 2))
    a, b, da, db = jnp.asarray(numbers + 0j)

    def solution(a, b):
        return solve(lambda x: a * x, b, 1e-12, 100).x

    x, dx = unoptimised(lambda *at: jax.jvp(solution, at[:2], at[2:]))(a, b, da, db)
    np.testing.assert_allclose(x, b / a, rtol=1e-10)
    np.testing.assert_allclose(dx, db / a - b * da / a**2, rtol=1e-9)
