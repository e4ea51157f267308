"""U(1) with β cos x + β₂ cos 2x against its characters; what is known of the Wilson action is not said of another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc import HMC, U1, Mixed
from dlhmc.exact import characters as exact
from dlhmc.testing import check_target


def expected(beta, beta2, volume):
    """⟨cos x_P⟩ and ⟨Q²⟩ from the characters c_n = ∫ e^{−s(x)} cos(nx): Z = Σ_n c_n^V."""
    x = np.linspace(-np.pi, np.pi, 20_001)
    weight = np.exp(beta * np.cos(x) + beta2 * np.cos(2 * x) - beta - abs(beta2))
    n = np.arange(-40, 41)

    def integral(function):
        return np.trapezoid(weight * function, x, axis=-1)

    c = integral(np.cos(np.outer(n, x)))
    cosine = integral(np.cos(x) * np.cos(np.outer(n, x)))
    first, second = (integral(x**k * f(np.outer(n, x))) for k, f in ((1, np.sin), (2, np.cos)))
    z = np.sum(c**volume)
    charge = volume * np.sum(c ** (volume - 1) * second - (volume - 1) * c ** (volume - 2) * first**2)
    return {
        "plaquette": np.sum(c ** (volume - 1) * cosine) / z,
        "charge_squared": charge / z / (4 * np.pi**2),
    }


def test_characters_are_those_of_wilson_without_the_second_term():
    found = expected(2.0, 0.0, 16)
    assert found["plaquette"] == pytest.approx(exact.plaquette(1, False, 2.0, 16), abs=1e-10)
    assert found["charge_squared"] == pytest.approx(exact.charge_squared(1, 2.0, 16), abs=1e-7)


@pytest.mark.usefixtures("x64")
def test_contract():
    check_target(Mixed((4, 3), 2.0, -0.3))


@pytest.mark.statistical
@pytest.mark.parametrize(("beta", "beta2"), [(2.0, -0.3), (1.0, 0.6)])
def test_hmc_gives_what_characters_say(beta, beta2):
    target, chains, volume = Mixed((4, 4), beta, beta2), 2000, 16
    kernel = HMC(target, 0.25, 4)

    @jax.jit
    def run(key):
        x = target.start(jax.random.key(1), "hot", chains, jnp.dtype(jnp.float32))

        def step(state, key):
            state, info = kernel.step(key, state)
            found = target.observables(state.x)
            return state, (found["plaquette"], found["charge"] ** 2, info.acceptance)

        return jax.lax.scan(step, kernel.init(x), jax.random.split(key, 300))[1]

    plaquette, charge_squared, acceptance = (np.asarray(part, np.float64)[100:] for part in run(jax.random.key(0)))
    assert acceptance.mean() > 0.7
    for name, found in (("plaquette", plaquette), ("charge_squared", charge_squared)):
        of_chains = found.mean(axis=0)
        error = of_chains.std() / np.sqrt(chains)
        assert abs(of_chains.mean() - expected(beta, beta2, volume)[name]) < 4 * error
        assert error < 0.02 * of_chains.mean()


class Derived(U1):
    """Another action in a class derived from that of Wilson."""

    def plaquette_action(self, angles):
        return super().plaquette_action(angles) + 2 * (1 - jnp.cos(2 * angles))


class Elsewhere(U1):
    def local_action(self, x):
        return 0.5 * super().local_action(x)


@pytest.mark.parametrize("kind", [Derived, Elsewhere])
def test_nothing_exact_is_said_of_another_action(kind):
    target = kind((8, 8), 6.0)
    assert target.exact() == {}
    assert target.exact_draws() is None
    assert target.approximate_draws() is None
    assert target.slow_variance("charge") is None
    assert U1((8, 8), 6.0).exact()


@pytest.mark.usefixtures("x64")
def test_force_of_another_plaquette_action_is_its_own():
    target, mixed = Derived((4, 4), 6.0), Mixed((4, 4), 6.0, 2.0)
    x = jax.random.normal(jax.random.key(0), (*target.shape, 3))
    np.testing.assert_allclose(target.force(x), mixed.force(x), atol=1e-12)
    np.testing.assert_allclose(target.stiffness(), mixed.stiffness(), rtol=1e-12)


class Rows(U1):
    """More is measured; the action is the same."""

    def observables(self, x):
        return super().observables(x) | {"row": jnp.cos(x[0, :, 0]).mean(axis=0)}


def test_a_class_that_measures_more_keeps_what_is_exact():
    assert Rows((8, 8), 6.0).exact() == U1((8, 8), 6.0).exact()
    assert Rows((8, 8), 6.0).exact_draws() is not None
