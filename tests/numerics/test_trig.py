import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.numerics import trig

pytestmark = pytest.mark.statistical

FUNCTIONS = [(trig.sin, np.sin), (trig.cos, np.cos)]


@pytest.mark.parametrize(("ours", "reference"), FUNCTIONS)
@pytest.mark.parametrize(("limit", "allowed"), [(8 * np.pi, 1.5e-7), (1e4, 2e-7)])
def test_absolute_error(ours, reference, limit, allowed):
    x = np.linspace(-limit, limit, 2_000_001, dtype=np.float32)
    x = np.concatenate([x, np.float32(np.pi / 2) * np.arange(-16, 17, dtype=np.float32)])
    error = np.abs(np.asarray(jax.jit(ours)(x), np.float64) - reference(x.astype(np.float64)))
    assert error.max() <= allowed


def test_sine_keeps_relative_precision_near_zero():
    x = np.float32([1e-30, 1e-8, 1e-4, 1e-2])
    np.testing.assert_allclose(trig.sin(x), np.sin(x.astype(np.float64)), rtol=2e-7)


def test_arctangent():
    x = np.concatenate([np.linspace(-9, 9, 1_000_001), np.geomspace(1e-30, 1e30, 10_001), [0.0, np.inf, -np.inf]])
    x = x.astype(np.float32)
    np.testing.assert_allclose(jax.jit(trig.atan)(x), np.arctan(x.astype(np.float64)), rtol=3e-7)
    assert np.isnan(trig.atan(jnp.float32(np.nan)))
    slope = jax.vmap(jax.grad(trig.atan))(x[:1000])
    np.testing.assert_allclose(slope, 1 / (1 + x[:1000].astype(np.float64) ** 2), rtol=3e-7)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_not_finite(value):
    for ours, _ in FUNCTIONS:
        assert not np.isfinite(ours(jnp.float32(value)))


def test_derivatives_have_their_exact_form():
    x = jnp.linspace(-9, 9, 101, dtype=jnp.float32)
    ones = jnp.ones_like(x)
    np.testing.assert_array_equal(jax.jvp(trig.sin, (x,), (ones,))[1], trig.cos(x))
    np.testing.assert_array_equal(jax.jvp(trig.cos, (x,), (ones,))[1], -trig.sin(x))
    second = jax.vmap(jax.grad(jax.grad(trig.sin)))(x)
    np.testing.assert_array_equal(second, -trig.sin(x))


@pytest.mark.usefixtures("x64")
def test_double_precision_is_that_of_the_library():
    x = jnp.linspace(-30, 30, 1001)
    assert trig.sin(x).dtype == jnp.float64
    np.testing.assert_array_equal(trig.sin(x), jnp.sin(x))
    np.testing.assert_array_equal(trig.cos(x), jnp.cos(x))
    np.testing.assert_array_equal(trig.atan(x), jnp.arctan(x))
