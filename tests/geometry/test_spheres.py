import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.geometry import Spheres
from dlhmc.testing.checks import evaluate

SPACE = Spheres((3, 2), (2, 4))


def phase_space(scale=1.0, chains=5):
    x = SPACE.project(jax.random.normal(jax.random.key(0), (*SPACE.shape, chains)))
    return x, scale * SPACE.momentum(jax.random.key(1), x)


def lengths(a):
    return np.asarray(jnp.sum(a * a, axis=(2, 3)))


@pytest.mark.usefixtures("x64")
def test_geodesics_are_great_circles():
    x, v = phase_space()
    there, carried = evaluate(SPACE.drift, x, v, v)
    np.testing.assert_allclose(lengths(there), 1, rtol=1e-13)
    np.testing.assert_allclose(SPACE.dot(there, carried), 0, atol=1e-13)
    angle = np.sqrt(lengths(v))
    np.testing.assert_allclose(SPACE.dot(x, there)[:, :, 0, 0], np.cos(angle), atol=1e-13)
    around = 2 * np.pi / jnp.asarray(angle)[:, :, None, None] * v
    np.testing.assert_allclose(SPACE.moved(x, around), x, atol=1e-13)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-9])
def test_parallel_transport_keeps_lengths_and_angles(scale):
    x, displacement = phase_space(scale)
    _, v = phase_space()
    w = SPACE.momentum(jax.random.key(3), x)
    there, v_there = evaluate(SPACE.drift, x, v, displacement)
    _, w_there = evaluate(SPACE.drift, x, w, displacement)
    np.testing.assert_allclose(SPACE.dot(v_there, w_there), SPACE.dot(v, w), atol=1e-12)
    np.testing.assert_allclose(SPACE.dot(there, w_there), 0, atol=1e-13)
    _, back = evaluate(SPACE.drift, x, displacement, displacement)
    x_back, w_back = evaluate(SPACE.drift, there, w_there, -back)
    np.testing.assert_allclose(x_back, x, atol=1e-13)
    np.testing.assert_allclose(w_back, w, atol=1e-12)


@pytest.mark.statistical
def test_momenta_fill_the_tangent_space():
    """A new seed would fail with probability 3e-5."""
    space = Spheres((1,), (3,))
    x = jnp.broadcast_to(jnp.asarray([2.0, -1.0, 2.0], jnp.float32)[None, :, None] / 3, (1, 3, 100_000))
    v = np.asarray(space.momentum(jax.random.key(2), x), np.float64)[0]
    direction = np.asarray(x[0, :, 0], np.float64)
    covariance = np.cov(v)
    np.testing.assert_allclose(covariance, np.eye(3) - np.outer(direction, direction), atol=0.025)
