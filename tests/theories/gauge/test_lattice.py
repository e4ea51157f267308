"""Products of links along paths against matrices multiplied one by one, fields of known flux, and symmetries."""

import itertools
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.geometry import UnitaryMatrices
from dlhmc.geometry.contract import sum_sites
from dlhmc.geometry.unitary import adjoint, multiply, trace
from dlhmc.lattice import links, loops
from dlhmc.testing.checks import evaluate
from dlhmc.theories.gauge.field import improved, wilson
from dlhmc.theories.gauge.known import measure_loop, plaquette

pytestmark = pytest.mark.usefixtures("x64")
# All sides differ, so that axes cannot be exchanged unseen.
TARGETS = {"u2": (4, 3), "su3": (2, 3, 4)}
ALL = pytest.mark.parametrize("group", sorted(TARGETS))


def hot(group, sides=None, chains=2):
    target = wilson(group, sides or TARGETS[group], 3.0)
    return target, evaluate(target.start, jax.random.key(1), "hot", chains, jnp.dtype(jnp.float64))


def along(x, site, path):
    """The product of links of the first chain on a path of signed directions, +1 … +d and −1 … −d."""
    u = np.moveaxis(np.asarray(x)[..., 0], (0, 1), (-2, -1))
    site, product = np.array(site), np.eye(u.shape[-1])
    for step in path:
        mu = abs(step) - 1
        if step < 0:
            site[mu] = (site[mu] - 1) % u.shape[1 + mu]
        link = u[(mu, *site)]
        product = product @ (link if step > 0 else link.conj().T)
        if step > 0:
            site[mu] = (site[mu] + 1) % u.shape[1 + mu]
    return product


def loop(mu, nu, m=1, n=1):
    return [mu] * m + [nu] * n + [-mu] * m + [-nu] * n


def sites(target):
    return itertools.product(*map(range, target.geometry.elements[1:]))


@ALL
def test_loops(group):
    target, x = hot(group)
    colors = target.geometry.colors
    traces = evaluate(loops.loop_traces, x)
    np.testing.assert_allclose(evaluate(loops.loop_defects, x), 1 - traces, atol=1e-14)
    for plane, (mu, nu) in enumerate(loops.planes(len(target.geometry.elements[1:]))):
        for site in sites(target):
            expected = np.trace(along(x, site, loop(mu + 1, nu + 1))).real / colors
            assert traces[(plane, *site, 0)] == pytest.approx(expected, abs=1e-14)
    mu, nu = 0, len(target.geometry.elements[1:]) - 1
    found = evaluate(links.wilson_loop, x, (mu, nu), 3, 2)
    for site in sites(target):
        expected = np.trace(along(x, site, loop(mu + 1, nu + 1, 3, 2))).real / colors
        assert found[(*site, 0)] == pytest.approx(expected, abs=1e-14)
    for mu, found in enumerate(evaluate(links.polyakov_loops, x)):
        expected = (
            np.mean([np.trace(along(x, site, [mu + 1] * target.geometry.elements[1:][mu])) for site in sites(target)])
            / colors
        )
        assert found[0] == pytest.approx(expected, abs=1e-14)


@ALL
def test_wilson_loops_are_averaged_over_planes_and_orientations(group):
    target, x = hot(group)
    paths = [
        loop(mu + 1, nu + 1, *size)
        for mu, nu in loops.planes(len(target.geometry.elements[1:]))
        for size in ((1, 2), (2, 1))
    ]
    expected = np.mean([np.trace(along(x, site, path)).real for site in sites(target) for path in paths])
    assert evaluate(measure_loop, x, 1, 2)[0] == pytest.approx(expected / target.geometry.colors, abs=1e-14)
    assert evaluate(measure_loop, x, 1, 1)[0] == pytest.approx(float(evaluate(plaquette, x)[0]), abs=1e-14)


@ALL
def test_plaquettes_through_a_link(group):
    target, x = hot(group)
    found = evaluate(loops.loops_of_links, x)
    d = len(target.geometry.elements[1:])
    for site, mu in itertools.product(sites(target), range(d)):
        others = [sign * (nu + 1) for nu in range(d) if nu != mu for sign in (1, -1)]
        expected = sum(along(x, site, loop(mu + 1, nu)) for nu in others)
        np.testing.assert_allclose(found[(slice(None), slice(None), mu, *site, 0)], expected, atol=1e-13)


@ALL
def test_rectangles(group):
    """Of all pairs of directions, the long side first; and those through a link, which is in one of six places."""
    target, x = hot(group)
    d, colors = len(target.geometry.elements[1:]), target.geometry.colors
    traces = evaluate(partial(loops.loop_traces, length=2), x)
    np.testing.assert_allclose(evaluate(partial(loops.loop_defects, length=2), x), 1 - traces, atol=1e-14)
    phases = evaluate(lambda x: trace(loops.loops(x, 2)).imag, x)
    determinants = evaluate(partial(loops.loop_determinants, length=2), x)
    found = evaluate(partial(loops.loops_of_links, length=2), x)
    pairs = list(itertools.permutations(range(d), 2))
    for site, (shape, (mu, nu)) in itertools.product(sites(target), enumerate(pairs)):
        product = along(x, site, loop(mu + 1, nu + 1, 2, 1))
        at = (shape, *site, 0)
        found_trace = complex(traces[at], phases[at] / colors)
        np.testing.assert_allclose(found_trace, np.trace(product) / colors, atol=1e-13)
        np.testing.assert_allclose(determinants[at], np.linalg.det(product), atol=1e-13)
    for site, mu in itertools.product(sites(target), range(d)):
        a = mu + 1
        others = [sign * (nu + 1) for nu in range(d) if nu != mu for sign in (1, -1)]
        paths = [path for b in others for path in ([a, a, b, -a, -a, -b], [a, b, -a, -a, -b, a], [a, b, b, -a, -b, -b])]
        expected = sum(along(x, site, path) for path in paths)
        np.testing.assert_allclose(found[(slice(None), slice(None), mu, *site, 0)], expected, atol=1e-13)


@pytest.mark.parametrize("length", [1, 2])
@ALL
def test_loops_with_weights(group, length):
    """They give the force of an action in which each loop has a coupling of its own."""
    target, x = hot(group)
    geometry = target.geometry
    weights = jax.random.normal(jax.random.key(3), evaluate(partial(loops.loop_defects, length=length), x).shape)

    def action(x):
        return sum_sites(weights * loops.loop_defects(x, length))

    through = evaluate(lambda x, weights: loops.loops_of_links(x, length, weights), x, weights)
    force = geometry.components(through) * geometry.norm / target.geometry.colors
    np.testing.assert_allclose(force, evaluate(geometry.gradient, action, x), atol=1e-13)


@pytest.mark.parametrize("c1", [0, -0.331])
@ALL
def test_force_with_weights_and_pushes(group, c1):
    """The gradient of Σ w S and of Σ t q: along the unit matrix with the second weights, where there are two."""
    target, x = hot(group)
    if c1:
        target = improved(group, target.geometry.elements[1:], 3.0, c1)
    geometry, (number, pushed) = target.geometry, target.actions[0].heads(target.geometry)
    shapes = [each.shape for each in evaluate(target.terms, x).value]
    ends = np.cumsum([shape[0] for shape in shapes])[:-1]
    shape = (sum(shape[0] for shape in shapes), *shapes[0][1:])
    weights = jax.random.normal(jax.random.key(3), (number, *shape))
    pushes = jax.random.normal(jax.random.key(6), (pushed, *shape))
    given = list(zip(target.actions, jnp.split(weights, ends, axis=1), jnp.split(pushes, ends, axis=1), strict=True))
    found = sum(np.asarray(evaluate(action.pushed_force, geometry, x, w, t)) for action, w, t in given)

    def terms(x):
        return jnp.concatenate(target.terms(x).value)

    def force(weights):
        return evaluate(target.geometry.gradient, lambda x: sum_sites(weights * terms(x)), x)

    def push(pushes):
        return evaluate(target.geometry.gradient, lambda x: sum_sites(pushes * angles(x)), x)

    def angles(x):
        """One that has the phase of the determinant as density of its charge: its push is the curl of t."""
        found = [loops.loop_determinants(x, length) for length in (1, 2)[: len(target.actions)]]
        determinants = jnp.concatenate(found)
        return jnp.arctan2(determinants.imag, determinants.real)

    split = -1 if number == 2 else len(found)
    pushed = push(pushes[0]) if pushed else jnp.zeros_like(found)
    np.testing.assert_allclose(found[:split], force(weights[0])[:split], atol=1e-12)
    along_one = force(weights[-1])[split:]
    scale = np.sum(pushed[split:] * (found[split:] - along_one)) / max(np.sum(pushed[split:] ** 2), 1e-300)
    np.testing.assert_allclose(found[split:] - along_one, scale * pushed[split:], atol=1e-12)
    assert (scale > 0.1) == bool(len(pushes))


@ALL
@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("name", ["loops_of_links", "loop_traces", "loop_defects"])
def test_derivatives_take_all_shapes_at_once(group, name, length):
    """They are those of the shapes in turn: central differences along one direction, and the transpose by a product."""
    _, x = hot(group)
    function = partial(getattr(loops, name), length=length)
    direction = jax.lax.complex(*jax.random.normal(jax.random.key(4), (2, *x.shape)))
    step = 1e-5
    ahead, back = (evaluate(function, x + sign * step * direction) for sign in (1, -1))
    expected = (np.asarray(ahead) - np.asarray(back)) / (2 * step)
    value, tangent = evaluate(lambda x: jax.jvp(function, (x,), (direction,)), x)
    np.testing.assert_allclose(value, evaluate(function, x), atol=1e-13)
    np.testing.assert_allclose(tangent, expected, atol=1e-7)
    cotangent = np.random.default_rng(5).normal(size=value.shape).astype(value.dtype)
    gradient = evaluate(lambda x: jax.vjp(function, x)[1](jnp.asarray(cotangent))[0], x)
    assert float(jnp.sum(gradient * direction).real) == pytest.approx(np.sum(cotangent * expected).real, abs=1e-6)


def flux(sides, q):
    """Angles with the plaquette 2πq/V everywhere, modulo 2π."""
    i, j = np.indices(sides)
    omega = 2 * np.pi * q / np.prod(sides)
    return np.stack([np.where(i == sides[0] - 1, -omega * sides[0] * j, 0), omega * i])


@pytest.mark.parametrize("fluxes", [(1, 0), (2, 1), (1, -1), (-2, 0)])
def test_fields_of_known_charge(fluxes):
    """Constant abelian fields in U(2), the same after a gauge transformation."""
    target, x = hot("u2", (5, 6))
    angles = np.stack([flux(target.geometry.elements[1:], q) for q in fluxes])
    field = np.zeros(x.shape, complex)
    for color in range(2):
        field[color, color] = np.exp(1j * angles[color])[..., None]
    field = evaluate(
        target.known.symmetries(target)["gauge transformation"].apply, jax.random.key(4), jnp.asarray(field)
    )
    omega = 2 * np.pi * np.array(fluxes) / math.prod(target.geometry.elements[1:])
    charge = sum(fluxes)
    found = evaluate(target.observables, field)
    assert found["plaquette"][0] == pytest.approx(np.mean(np.cos(omega)), abs=1e-13)
    assert found["charge"].tolist() == [charge, charge]
    assert found["sine_charge"][0] == pytest.approx(
        math.prod(target.geometry.elements[1:]) * np.sin(sum(omega)) / (2 * np.pi), abs=1e-12
    )
    assert evaluate(measure_loop, field, 2, 3)[0] == pytest.approx(np.mean(np.cos(6 * omega)), abs=1e-13)
    action = 3.0 * math.prod(target.geometry.elements[1:]) * np.mean(1 - np.cos(omega))
    assert evaluate(target.action, field)[0] == pytest.approx(action, abs=1e-10)


@ALL
def test_centre(group):
    """Polyakov loops, and nothing else, are multiplied by the phase."""
    target, x = hot(group)
    phases = 2 * np.pi * np.arange(1, len(target.geometry.elements[1:]) + 1) / target.geometry.colors
    y = np.array(x)
    for mu, phase in enumerate(phases):
        # Links that leave n_μ = 0.
        y[(slice(None), slice(None), mu, *[0 if axis == mu else slice(None) for axis in range(len(phases))])] *= np.exp(
            1j * phase
        )
    np.testing.assert_allclose(evaluate(loops.loop_traces, y), evaluate(loops.loop_traces, x), atol=1e-14)
    turned = np.exp(1j * phases)[:, None] * evaluate(links.polyakov_loops, x)
    np.testing.assert_allclose(evaluate(links.polyakov_loops, y), turned, atol=1e-14)


@ALL
def test_reflections(group):
    """Of every plaquette, seen from its other end; twice is once and back."""
    target, x = hot(group)
    for axis, side in enumerate(target.geometry.elements[1:]):
        y = evaluate(partial(links.reflect, axis=axis), x)
        assert np.abs(y - x).max() > 0.1
        np.testing.assert_allclose(evaluate(partial(links.reflect, axis=axis), y), x, atol=1e-13)
        for site, nu in itertools.product(sites(target), range(len(target.geometry.elements[1:]))):
            if nu != axis:
                mirrored = tuple(-n % side if other == axis else n for other, n in enumerate(site))
                there = along(y, mirrored, loop(-axis - 1, nu + 1))
                np.testing.assert_allclose(there, along(x, site, loop(axis + 1, nu + 1)), atol=1e-13)


@ALL
def test_gauge_transformations(group):
    """The action does not change, the force is transformed as momenta are."""
    target, x = hot(group)
    geometry = target.geometry
    g = UnitaryMatrices(target.geometry.colors, target.geometry.special, target.geometry.elements[1:])
    g = evaluate(g.scatter, jax.random.key(5), 2, jnp.dtype(jnp.float64))
    y, force = evaluate(links.gauge_transform, x, g), geometry.hermitian(evaluate(target.force, x))
    g = g[:, :, None]
    force = multiply(multiply(g, force), adjoint(g))
    np.testing.assert_allclose(evaluate(target.action, y), evaluate(target.action, x), rtol=1e-13)
    np.testing.assert_allclose(evaluate(target.force, y), geometry.components(1j * force), atol=1e-12)
