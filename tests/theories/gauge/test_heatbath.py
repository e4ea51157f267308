"""Heat bath and HMC against exact results in two dimensions, and the heat bath of one link against its integral."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlhmc
from dlhmc.actions import Plaquette
from dlhmc.errors import UserError
from dlhmc.exact import characters as exact
from dlhmc.geometry import UnitaryMatrices
from dlhmc.geometry.unitary import multiply, trace_of_product
from dlhmc.kernels import HMC
from dlhmc.lattice import loops
from dlhmc.spec.kernels import build_kernel
from dlhmc.spec.sampling import SamplerSettings
from dlhmc.targets.contract import known_functions
from dlhmc.testing import check_stationarity
from dlhmc.testing.checks import evaluate
from dlhmc.testing.stationarity import p_value_of_means
from dlhmc.theories.gauge import heatbath
from dlhmc.theories.gauge.field import GaugeField, wilson
from dlhmc.theories.gauge.heatbath import HeatBath
from exact.plaquette_moments import plaquette_squared
from unoptimised import unoptimised

# An exact kernel fails each test with this probability, at a new seed.
P_VALUE = 1e-3
KERNELS = {
    "hmc": lambda target: HMC(target, 0.35, 3),
    "heat bath": lambda target: HeatBath(target, 1),
}


class DrawnAngles(eqx.Module):
    """Exact links of U(1) from exact angles."""

    angles: eqx.Module

    def draw(self, key, chains, dtype):
        x = self.angles.draw(key, chains, dtype)
        return jax.lax.complex(jnp.cos(x), jnp.sin(x))[None, None]


def planar(group, sides, beta):
    """U(1) the general way, with the exact draws of the fast one."""
    if group != "u1":
        return wilson(group, sides, beta)
    draws = DrawnAngles(dlhmc.U1(sides, beta).exact_draws())
    target = GaugeField("u1", sides, [Plaquette(beta)], matrices=True)
    known = dataclasses.replace(target.known, exact_draws=lambda target: draws)
    return GaugeField("u1", sides, [Plaquette(beta)], matrices=True, known=known)


# What takes long to compile and finds no more than others.
def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("group", "sides", "beta", "kernel"),
    [
        slow("u1", (4, 6), 2.0, "hmc"),
        slow("u1", (4, 6), 2.0, "heat bath"),
        slow("su2", (4, 4), 3.0, "hmc"),
        slow("su2", (4, 4), 3.0, "heat bath"),
        ("u2", (4, 4), 6.0, "hmc"),
        ("u2", (4, 4), 6.0, "heat bath"),
    ],
)
def test_exact_configurations_stay_exact(group, sides, beta, kernel):
    result = check_stationarity(KERNELS[kernel](planar(group, sides, beta)), steps=5, chains=5000, seed=1)
    assert result.p_value > P_VALUE, result
    assert abs(result.weight_pull) < 3.3, result
    assert kernel != "hmc" or 0.5 < result.acceptance < 0.95, result


@eqx.filter_jit
def walk(kernel, x, steps):
    def body(i, state):
        return kernel.step(jax.random.fold_in(jax.random.key(7), i), state)[0]

    return jax.lax.fori_loop(0, steps, body, kernel.init(x)).x


def p_value_after(kernel, steps, chains=1500):
    """Of the means of independent chains from a hot start, with the covariance that they have themselves."""
    target = kernel.target
    x = evaluate(target.start, jax.random.key(1), "hot", chains, jnp.dtype(jnp.float32))
    functions = evaluate(known_functions, target, walk(kernel, x, jnp.int32(steps)))
    deviations = np.stack([np.asarray(functions[name], np.float64) - value for name, value in target.exact().items()])
    return p_value_of_means(deviations, deviations)


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["hmc", "heat bath"])
def test_su3_reaches_the_exact_values(kernel):
    """Where a hot start is forgotten: what is left of it falls by a factor of two or more in each step."""
    assert p_value_after(KERNELS[kernel](wilson("su3", (4, 2), 5.0)), 40) > P_VALUE


def moments_of_one_link(group, factors, chains=5000, updates=8, seed=0):
    """Means and errors of p = Re tr(U·V)/N and p² for links with the staples s·V, for each factor s.

    A link for which all attempts are rejected stays: after so many updates from a hot start, none is left.
    """
    kernel = HeatBath(wilson(group, (2, 2), 1.0, matrices=True))
    geometry = UnitaryMatrices(kernel.target.geometry.colors, kernel.target.geometry.special, (len(factors),))
    u, v = (evaluate(geometry.scatter, jax.random.key(seed + i), chains, jnp.dtype(jnp.float32)) for i in (1, 2))
    mask = jnp.ones((len(factors), 1), bool)
    scale = jnp.asarray(factors, jnp.complex64)[:, None]

    @jax.jit
    def run(u, v):
        def body(i, u):
            return kernel._updated(u, scale * v, jnp.float32(1), mask, jax.random.fold_in(jax.random.key(seed), i))

        u = jax.lax.fori_loop(0, updates, body, u)
        p = trace_of_product(u, v).real / geometry.colors
        return u, jnp.stack([p, p * p])

    u, values = run(u, v)
    assert np.abs(evaluate(geometry.project, u) - u).max() < 1e-5
    values = np.asarray(values, np.float64)
    return values.mean(axis=-1), values.std(axis=-1) / np.sqrt(chains)


# Both ways to draw an SU(2) matrix, and where they meet: alpha = 2s for one of SU(2), less for the others.
FACTORS = (0.05, 0.5, 0.8, 0.9, 2.0, 8.0)


@pytest.mark.statistical
@pytest.mark.parametrize("group", ["u1", "su2", slow("u2"), "su3"])
def test_heat_bath_of_one_link(group):
    """Of 12 numbers, one is beyond 4.5 σ with probability 8e-5; exact values are those of one plaquette, V → ∞."""
    target = wilson(group, (2, 2), 1.0, matrices=True)
    means, errors = moments_of_one_link(group, FACTORS)
    couplings = [(target.geometry.colors, target.geometry.special, target.geometry.colors * s, 10**6) for s in FACTORS]
    wanted = [[f(*coupling) for coupling in couplings] for f in (exact.plaquette, plaquette_squared)]
    assert np.all(np.abs(means - wanted) < 4.5 * errors), (means - wanted) / errors


def test_the_phase_does_not_depend_on_the_subgroups():
    """Where the action says next to nothing, det U and |tr U| of a new link are independent: 6 σ, once in 1e9 seeds."""
    kernel, chains = HeatBath(wilson("u2", (2, 2), 1.0)), 4000
    one = np.broadcast_to(np.eye(2, dtype=np.complex64)[..., None, None], (2, 2, 1, chains))
    update = unoptimised(lambda u, key: kernel._updated(u, u, jnp.float32(1e-3), jnp.ones((1, 1), bool), key))
    u = np.asarray(update(one, jax.random.key(1)))[:, :, 0].transpose(2, 0, 1)
    phases, sizes = np.linalg.det(u), np.abs(np.trace(u, axis1=1, axis2=2)) ** 2
    correlations = [np.corrcoef(part, sizes)[0, 1] for part in (phases.real, phases.imag)]
    assert np.abs(correlations).max() < 6 / np.sqrt(chains)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("group", "sides"), [("u2", (4, 2)), ("su3", (2, 2, 4))])
def test_overrelaxation_keeps_the_action(group, sides):
    target = wilson(group, sides, 3.0, matrices=True)
    kernel = HeatBath(target)
    x = evaluate(target.start, jax.random.key(1), "hot", 2, jnp.dtype(jnp.float64))
    y = jax.jit(lambda x: kernel._sweep(x, None))(x)
    np.testing.assert_allclose(evaluate(target.action, y), evaluate(target.action, x), rtol=1e-13)
    assert np.abs(y - x).max(axis=(0, 1)).min() > 1e-3  # every link has moved
    np.testing.assert_allclose(evaluate(target.geometry.project, y), y, atol=1e-13)


def test_overrelaxation_of_a_subgroup_undoes_itself(x64):
    """And it is as far away as the action allows: the matrix beyond the maximum of the action."""
    generator = np.random.default_rng(1)
    a, b, z = (jnp.asarray(generator.normal(size=9) + 1j * generator.normal(size=9)) for _ in range(3))
    g = heatbath._reflection(a, b)
    turned = heatbath._times(g, (a, b))
    # tr of ((a, b), (−b*, a*)) is 2 Re a
    np.testing.assert_allclose(turned[0].real, a.real, atol=1e-14)
    np.testing.assert_allclose(turned[0].imag, -a.imag, atol=1e-14)
    back = heatbath._times(heatbath._reflection(*turned), g)
    np.testing.assert_allclose(back[0], 1, atol=1e-14)
    np.testing.assert_allclose(back[1], 0, atol=1e-14)
    phase = heatbath._mirror_phase(z)
    np.testing.assert_allclose(phase * z, np.conj(z), atol=1e-14)
    np.testing.assert_allclose(heatbath._mirror_phase(phase * z) * phase, 1, atol=1e-14)


@pytest.mark.parametrize(("group", "sides"), [("u1", (4, 2)), ("su2", (2, 4, 2)), ("su3", (2, 2, 2, 4))])
def test_links_that_are_drawn_together_do_not_see_each_other(group, sides, x64):
    target = wilson(group, sides, 2.0, matrices=True)
    x, y = (evaluate(target.start, jax.random.key(seed), "hot", 1, jnp.dtype(jnp.float64)) for seed in (1, 2))
    masks = heatbath._parities(sides)
    assert masks.sum(axis=0).min() == masks.sum(axis=0).max() == 1
    through = evaluate(loops.loops_of_links, x)
    for mu in range(len(target.geometry.elements[1:])):
        staples = evaluate(heatbath.staple_sum, x, mu)
        np.testing.assert_allclose(multiply(x[:, :, mu], staples), through[:, :, mu], atol=1e-13)
        for mask in masks:
            changed = x.at[:, :, mu].set(jnp.where(mask[..., None], y[:, :, mu], x[:, :, mu]))
            after = evaluate(heatbath.staple_sum, changed, mu)
            np.testing.assert_allclose(after[:, :, mask], staples[:, :, mask], atol=1e-13)
            assert np.abs(after - staples).max() > 0.1


@pytest.mark.slow
def test_a_sweep_touches_every_link_and_chain_by_itself():
    target = wilson("su2", (4, 2), 2.0)
    kernel = HeatBath(target, 0)
    x = evaluate(target.start, jax.random.key(1), "hot", 3, jnp.dtype(jnp.float32))
    step = eqx.filter_jit(lambda x: kernel.step(jax.random.key(2), kernel.init(x))[0].x)
    together, first = step(x), step(x[..., :2])
    np.testing.assert_allclose(together[..., :2], first, atol=1e-5)
    moved = np.abs(together - x).max(axis=(0, 1))
    assert (moved > 1e-3).mean() > 0.9


def test_lattices_without_a_checkerboard_are_refused():
    target = wilson("su2", (4, 3), 2.0)
    with pytest.raises(ValueError, match=r"needs a lattice with even sides, not \(4, 3\)"):
        HeatBath(target)
    with pytest.raises(UserError, match="even sides"):
        build_kernel(SamplerSettings(kernel="heatbath"), target, 0.1)
    with pytest.raises(TypeError, match="the Wilson action"):
        HeatBath(dlhmc.U1((4, 4), 2.0))
