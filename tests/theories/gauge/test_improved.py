"""Plaquettes with rectangles: against integration over all links, in motion, and what is not known about them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlhmc
from dlhmc import HMC, GaugeField, HeatBath, Plaquette, Rectangle, UserError, build_trajectory, improved, wilson
from dlhmc.run.describe import describe_target, target_in_words
from dlhmc.spec.kernels import build_kernel
from dlhmc.spec.sampling import SamplerSettings
from dlhmc.testing.checks import evaluate
from dlhmc.testing.target import TARGET_CHECKS
from dlhmc.theories import registry
from dlhmc.theories.gauge.groups import RECTANGLES
from dlhmc.theories.gauge.known import wilson_coupling

GROUPS = {"u1": (3, 4), "u2": (3, 4), "su2": (2, 3, 4), "su3": (2, 3, 2, 3), "su4": (3, 3)}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("group", GROUPS)
def test_force_is_the_gradient(group):
    target = improved(group, GROUPS[group], 3.0, "iwasaki")
    x = evaluate(target.start, jax.random.key(0), "hot", 2, jnp.dtype(jnp.float64))
    for check in ("force", "finite differences", "symmetries"):
        assert list(TARGET_CHECKS[check](target, x)) == []


@pytest.mark.usefixtures("x64")
def test_classical_limit():
    """Of a smooth field rectangles have eight times the action of plaquettes: c₀ + 8c₁ = 1 keeps the limit."""
    side, field = 64, 1e-3
    i, _ = np.indices((side, side))
    # x_1(n) = f·(L/2π)·sin(2π n_0/L): the plaquette is f·cos, up to artefacts.
    x = np.stack([np.zeros((side, side)), field * side / (2 * np.pi) * np.sin(2 * np.pi * i / side)])
    links = jnp.asarray(np.exp(1j * x))[None, None, ..., None]
    plain = float(evaluate(wilson("u1", (side, side), 1.0, matrices=True).action, links)[0])
    for c1 in RECTANGLES.values():
        found = float(evaluate(improved("u1", (side, side), 1.0, c1).action, links)[0])
        assert found == pytest.approx(plain, rel=0.03)
    # The tree-level action has no artefacts of order a², which the others have.
    continuum = 0.25 * field**2 * side**2
    better = float(evaluate(improved("u1", (side, side), 1.0, "symanzik").action, links)[0])
    assert abs(better / continuum - 1) < 1e-4 < abs(plain / continuum - 1)


def by_integration(sides, beta, c1):
    """⟨Re P⟩ and ⟨Q²⟩ of U(1) by sums over all plaquette angles: rectangles are pairs of neighbours."""
    nodes = 20
    grid = 2 * np.pi * np.arange(nodes) / nodes
    volume = int(np.prod(sides))
    free = np.stack(np.meshgrid(*[grid] * (volume - 1), indexing="ij"))
    p = np.concatenate([free, -free.sum(axis=0, keepdims=True)]).reshape(*sides, -1)
    pairs = [p + np.roll(p, -1, axis=axis) for axis in range(2)]
    action = (1 - 8 * c1) * (1 - np.cos(p)).sum(axis=(0, 1))
    action += c1 * sum((1 - np.cos(pair)).sum(axis=(0, 1)) for pair in pairs)
    weight = np.exp(-beta * action)
    weight /= weight.sum()
    sine = np.sin(p).sum(axis=(0, 1)) / (2 * np.pi)
    return {"plaquette": np.sum(weight * np.cos(p).mean(axis=(0, 1))), "sine_charge": np.sum(weight * sine**2)}


@pytest.mark.statistical
@pytest.mark.parametrize(("action", "integrator"), [("iwasaki", "leapfrog"), ("symanzik", "omelyan")])
def test_exact_integration_of_a_tiny_lattice(action, integrator):
    sides, beta, chains = (2, 3), 0.8, 1000
    target = improved("u1", sides, beta, action)
    wanted = by_integration(sides, beta, RECTANGLES[action])
    found = averages(HMC(target, 0.25, 4, integrator=integrator), target.observables, chains, 120)
    for name, power in (("plaquette", 1), ("sine_charge", 2)):
        of_chains = (found[name] ** power)[20:].mean(axis=0)
        error = of_chains.std() / np.sqrt(chains)
        assert abs(of_chains.mean() - wanted[name]) < 4 * error
        assert error < 0.04 * wanted[name]


def averages(kernel, observables, chains, trajectories):
    """All values of observables."""
    target = kernel.target

    @jax.jit
    def run(key):
        x = target.start(key, "hot", chains, jnp.dtype(jnp.float32))

        def step(state, key):
            state, _ = kernel.step(key, state)
            return state, observables(state.x)

        return jax.lax.scan(step, kernel.init(x), jax.random.split(key, trajectories))[1]

    return jax.tree.map(lambda part: np.asarray(part, np.float64), run(jax.random.key(0)))


@pytest.mark.statistical
@pytest.mark.parametrize(("group", "sides", "c1"), [("su2", (3, 4), -0.331), ("su3", (2, 3), -1 / 12)])
def test_configurational_temperature(group, sides, c1):
    """⟨|∇S|²⟩ = ⟨ΔS⟩ for the right action alone; ΔS along a direction of random signs."""
    target, chains = improved(group, sides, 1.5, c1), 500
    shape = (*target.geometry.momentum_shape, chains)
    signs = jnp.asarray(np.random.default_rng(0).choice([-1.0, 1.0], shape), jnp.float32)

    def excess(x):
        def force(t):
            return target.force(target.geometry.moved(x, t * signs))

        value, derivative = jax.jvp(force, (jnp.zeros(()),), (jnp.ones(()),))
        return jnp.sum((value**2 - signs * derivative).reshape(-1, chains), axis=0), jnp.sum(
            value.reshape(-1, chains) ** 2
        )

    difference, square = averages(HMC(target, 0.15, 6), excess, chains, 50)
    of_chains = difference[10:].mean(axis=0)
    error = of_chains.std() / np.sqrt(chains)
    assert abs(of_chains.mean()) < 4 * error
    assert error < 0.02 * square[10:].mean() / chains


# What is known about the Wilson action.


class Halved(Plaquette):
    """Another action in a class derived from that of Wilson."""

    def terms(self, x):
        return 0.5 * super().terms(x)


def others():
    halved = GaugeField("u2", (4, 4), [Halved(2.0)])
    both = GaugeField("u2", (4, 4), [Plaquette(2.0), Halved(2.0)])
    return {"rectangles": improved("u2", (4, 4), 2.0, -0.1), "derived": halved, "beside it": both}


@pytest.mark.parametrize("name", ["rectangles", "derived", "beside it"])
def test_what_belongs_to_wilson_is_not_offered_to_others(name):
    target = others()[name]
    assert wilson_coupling(target) is None
    assert target.exact() == {}
    assert target.exact_draws() is None
    assert target.known.approximate_draws(target) is None
    assert target.known.slow_variance(target, "charge") is None
    with pytest.raises(TypeError, match="made for the Wilson action"):
        HeatBath(target)
    with pytest.raises(UserError, match="with the action wilson alone"):
        build_kernel(SamplerSettings(kernel="heatbath"), target, 0.1)
    with pytest.raises(UserError, match="is for U\\(N\\)"):
        build_trajectory(target, "local", window=2, heads="phases")


def test_two_plaquette_actions_are_one():
    target = GaugeField("su2", (4, 4), [Plaquette(1.0), Plaquette(0.5)])
    assert float(wilson_coupling(target)) == 1.5
    assert target.exact() == wilson("su2", (4, 4), 1.5).exact()


@pytest.mark.parametrize("action", [*RECTANGLES, -0.25])
@pytest.mark.parametrize(("theory", "sides"), [("su3", (4, 4, 4, 4)), ("u1", (4, 4)), ("u1", (4, 4, 4))])
def test_settings_say_the_action(theory, sides, action):
    settings = registry.theory(theory).settings(lattice=sides, beta=2.6, action=action)
    assert settings.build().geometry.shape
    assert (str(action).removeprefix("-") in settings.label) == (action != "wilson")


def test_the_numbers_of_actions_stand_in_the_records_of_runs():
    target = GaugeField("su2", (4, 4), [Plaquette(1.0), Rectangle(-0.3)])
    described = describe_target(target)
    assert (described["plaquette_coefficient"], described["rectangle_coefficient"]) == (1.0, -0.3)


def test_titles_name_actions_other_than_wilson():
    settings = registry.theory("su3").settings
    plain, *titles = (
        target_in_words(settings((4, 4, 4, 4), 2.6, action).describe()) for action in ("wilson", -0.2, "iwasaki")
    )
    assert plain == "su3  4×4×4×4  β = 2.6"
    assert titles == [f"{plain}  action = -0.2", f"{plain}  action = iwasaki"]


@pytest.mark.usefixtures("x64")
def test_energy_is_conserved():
    """To second order."""
    target = improved("su3", (2, 2, 3), 5.0, "dbw2")
    kernels = [HMC(target, step, round(0.2 / step)) for step in (0.02, 0.01)]
    x = evaluate(target.start, jax.random.key(0), "hot", 4, jnp.dtype(jnp.float64))
    violations = [
        np.abs(evaluate(lambda x, kernel=kernel: kernel.step(jax.random.key(1), kernel.init(x))[1].energy_change, x))
        for kernel in kernels
    ]
    assert violations[0].mean() / violations[1].mean() > 3


def test_networks_in_windows_sample_it():
    """A random network is exact: it is accepted by the action with rectangles."""
    target = improved("u2", (4, 4), 4.0, "symanzik")
    trajectory = build_trajectory(target, "local", window=2, hidden=(2,))
    kernel = dlhmc.DLHMC(target, trajectory)
    x = evaluate(target.start, jax.random.key(0), "cold", 3, jnp.dtype(jnp.float32))
    _, info = evaluate(lambda x: kernel.step(jax.random.key(1), kernel.init(x)), x)
    assert np.all(np.asarray(info.acceptance) > 0)
