"""U(1) with β cos x + β₂ cos 2x against its characters; what is known of the Wilson action is not said of another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc import HMC, U1, Cosine, GaugeField, Mixed, Plaquette, PlaquetteFunction, Target
from dlhmc.exact import characters as exact
from dlhmc.kernels.integrators import INTEGRATORS, integrate
from dlhmc.lattice.links import as_matrices
from dlhmc.targets.contract import known_functions
from dlhmc.targets.windows import stiffness
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


class Doubled(Plaquette):
    """Another action in a class derived from that of Wilson."""

    def terms(self, x):
        return 2 * super().terms(x)


@pytest.mark.parametrize("actions", [[Plaquette(6.0), Cosine(2.0)], [Doubled(6.0)], [Plaquette(6.0), Doubled(1.0)]])
def test_nothing_exact_is_said_of_another_action(actions):
    target = GaugeField("u1", (8, 8), actions)
    assert target.exact() == {}
    assert target.exact_draws() is None
    assert target.known.approximate_draws(target) is None
    assert target.known.slow_variance(target, "charge") is None


def test_what_is_exact_follows_the_coupling():
    """However it is put together, annealed or measured."""
    wanted = U1((8, 8), 6.0)
    same = GaugeField("u1", (8, 8), [Plaquette(1.5), Plaquette(1.5)], gamma=2.0)
    assert same.exact() == pytest.approx(wanted.exact(), rel=1e-6)
    more = Target(wanted.geometry, wanted.actions, lambda x: {"row": jnp.cos(x[0, :, 0]).mean(axis=0)}, wanted.known)
    assert more.exact() == wanted.exact()
    assert more.exact_draws() is not None


class Winding(PlaquetteFunction):
    """The same as `Mixed` as one function, with a force by autodiff."""

    def function(self, angles):
        return 6.0 * (1 - jnp.cos(angles)) + 2.0 * (1 - jnp.cos(2 * angles))


@pytest.mark.usefixtures("x64")
def test_force_and_curvature_of_any_function_of_plaquettes():
    target, mixed = GaugeField("u1", (4, 4), [Winding()]), Mixed((4, 4), 6.0, 2.0)
    x = jax.random.normal(jax.random.key(0), (*target.geometry.shape, 3))
    np.testing.assert_allclose(target.force(x), mixed.force(x), atol=1e-12)
    np.testing.assert_allclose(stiffness(target), stiffness(mixed), rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_angles_and_matrices_of_one_number_go_the_same_way():
    """A trajectory of HMC from the same place with the same momenta."""
    angles, matrices = (GaugeField("u1", (4, 6), [Plaquette(2.0)], matrices=flag) for flag in (False, True))
    x = angles.start(jax.random.key(0), "hot", 3, jnp.dtype(jnp.float64))
    v = angles.geometry.momentum(jax.random.key(1), x)
    ends = [
        integrate(target, INTEGRATORS["omelyan"], start, w, jnp.asarray(0.1), jnp.int32(20))[:2]
        for target, start, w in ((angles, x, v), (matrices, as_matrices(x), v[None]))
    ]
    np.testing.assert_allclose(as_matrices(ends[0][0]), ends[1][0], atol=1e-12)
    np.testing.assert_allclose(ends[0][1], ends[1][1][0], atol=1e-12)
    y, z = x, as_matrices(x)
    for name, value in angles.observables(y).items():
        np.testing.assert_allclose(matrices.observables(z)[name], value, atol=1e-12)
    for name, value in known_functions(angles, y).items():
        np.testing.assert_allclose(known_functions(matrices, z)[name], value, atol=1e-12)
