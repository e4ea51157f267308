"""Layers of U(1) on phases of U(N): the action that they see is that of the matrices, and faults are found."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc import DLHMC, UserError, build_trajectory, wilson
from dlhmc.geometry.unitary import adjoint, multiply
from dlhmc.lattice import loops
from dlhmc.lattice.links import as_matrices
from dlhmc.lattice.loops import plaquettes
from dlhmc.layers import Local, Palindrome, PlaquetteKick
from dlhmc.targets.windows import Windows, windowed
from dlhmc.testing import check_stationarity
from dlhmc.theories.gauge.architectures import LocalArchitecture
from dlhmc.theories.gauge.field import U1
from dlhmc.theories.gauge.phases import Fibre, OnPhases, _nearest_to_minus_one
from unoptimised import shaken, unoptimised

P_VALUE, BROKEN = 1e-3, 1e-6


def on_phases(target, size, block=3):
    settings = LocalArchitecture(2, 0.5, hidden=(6,), window=block, heads="phases")
    return shaken(unoptimised(lambda key: settings.build(target, key))(jax.random.key(0)), size, 1)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("group", ["u1", "u2", "u3"])
def test_a_window_is_one_of_angles(group):
    """Energies change as there, determinants turn by its angles, and what lies across keeps its momentum."""
    target, chains = wilson(group, (5, 4), 6.0, matrices=True), 3
    layers = on_phases(target, 0.4).inside
    x = unoptimised(lambda: target.start(jax.random.key(2), "hot", chains, jnp.float64))()
    momenta = unoptimised(lambda: target.geometry.momentum(jax.random.key(3), x))()
    windows = Windows.at_origin(target, 3, x)

    @unoptimised
    def differences():
        def of_window(window, x, v):
            fibre = Fibre.through(window, x)
            there, here = layers.forward(window, x, v), fibre.along(v)
            angles = layers.inside.forward(fibre.window, fibre.origin, here)
            action = window.action(there.x) - window.action(x)
            of_angles = fibre.window.action(angles.x) - fibre.window.action(fibre.origin)
            determinants = [loops.loop_determinants(windowed(window).embed(y))[0, :3, :3] for y in (x, there.x)]
            flux = plaquettes(windowed(fibre.window).embed(angles.x) - windowed(fibre.window).embed(fibre.origin))
            turned = determinants[1] - determinants[0] * as_matrices(flux[:3, :3])[0, 0]
            across = [v - fibre.direction() * fibre.along(v) for v in (v, there.v)]
            found = (action - of_angles, abs(turned), fibre.along(there.v) - angles.v, across[0] - across[1])
            found = (*found, there.log_jacobian - angles.log_jacobian, there.x - x)
            return [jnp.abs(part).max(axis=tuple(range(part.ndim - 1))) for part in found]

        return windows.each(of_window, windows.momenta(momenta), axis=-2)

    *found, moved = differences()
    for difference in found:
        np.testing.assert_allclose(difference, 0, atol=1e-11)
    assert np.min(moved) > 0.1


def test_the_phase_that_winds_is_the_one_nearest_to_minus_one():
    w = np.diag(np.exp(1j * np.array([0.3, 2.9, -2.0]))).astype(np.complex64)[..., None]
    np.testing.assert_allclose(np.abs(unoptimised(_nearest_to_minus_one)(w))[:, 0], [0, 1, 0], atol=1e-5)


def test_parameters_are_those_of_the_circle():
    """What was learned for angles serves on phases as it is."""
    of_angles = build_trajectory(U1((16, 16), 5.0), "local", hidden=(4,), window=4)
    of_phases = build_trajectory(wilson("u2", (16, 16), 10.0), "local", hidden=(4,), window=4)
    assert isinstance(of_phases.inside, OnPhases)
    assert eqx.tree_equal(of_angles.inside, of_phases.inside.inside)


def test_windows_on_phases_grow():
    target = wilson("u2", (9, 9), 10.0)
    small, large = (LocalArchitecture(2, 0.5, hidden=(4,), window=block, heads="phases") for block in (3, 5))
    trained = unoptimised(lambda key: small.build(target, key))(jax.random.key(0))
    wanted = eqx.filter_eval_shape(lambda: large.build(target, jax.random.key(0)))
    grown = large.grown(trained, target)
    assert jax.tree.map(jnp.shape, eqx.filter(grown, eqx.is_array)) == jax.tree.map(
        jnp.shape, eqx.filter(wanted, lambda leaf: hasattr(leaf, "shape"))
    )
    assert grown.block == 5
    windows = [stage.architecture.window for stage in dataclasses.replace(large, window=8).stages(target)]
    assert windows == [6, 8, 8]


@pytest.mark.parametrize("sides", [(3, 5), (5, 3), (3, 3)])
def test_windows_without_a_rim_are_refused_wherever_the_layers_come_from(sides):
    layers = on_phases(wilson("u2", (5, 5), 4.0), 0.1)
    kernel = DLHMC(wilson("u2", sides, 4.0), layers)
    x = kernel.target.start(jax.random.key(0), "hot", 2, jnp.dtype(jnp.float32))
    with pytest.raises(UserError, match=r"^A window of 3 cells on phases needs a lattice of 4 or more a side"):
        kernel.step(jax.random.key(1), kernel.init(x))


def test_groups_without_a_charge_have_no_phases():
    layers = on_phases(wilson("u2", (5, 5), 4.0), 0.1)
    kernel = DLHMC(wilson("su2", (5, 5), 4.0), layers)
    x = kernel.target.start(jax.random.key(0), "hot", 2, jnp.dtype(jnp.float32))
    with pytest.raises(TypeError, match=r"of U\(N\) in two dimensions"):
        kernel.step(jax.random.key(1), kernel.init(x))


@pytest.mark.parametrize(
    ("target", "settings", "sentence"),
    [
        (wilson("u2", (4, 5), 5.0), {"window": 4}, "^window 4 leaves no rim: give 3 or less\\.$"),
        (wilson("su2", (4, 4), 5.0), {"heads": "phases"}, "^heads phases is for U\\(N\\) .* in two dimensions\\.$"),
        (U1((4, 4), 5.0), {"heads": "phases"}, "^heads phases is for"),
    ],
)
def test_where_there_are_none(target, settings, sentence):
    with pytest.raises(UserError, match=sentence):
        build_trajectory(target, "local", **settings)


class OnOneSide(Fibre):
    """Links along the rows are turned from the left alone."""

    def rows_from_the_right(self, angles):
        return jnp.zeros_like(angles[0])


class FrameThatMoves(Fibre):
    """Carried from an eigenvector of the first plaquette."""

    @staticmethod
    def enclosed(links, block):
        there, back = loops.corners(links, (0, 1))
        return multiply(there, adjoint(back))[:, :, 0, 0]


class OfEachCell(eqx.Module):
    """W, t and s from the sine and the cosine of each phase."""

    def __call__(self, numbers):
        sine, cosine = numbers.reshape(2, -1, numbers.shape[-1])
        w, t = 0.5 * jnp.tanh(cosine), 0.9 * jnp.tanh(sine)
        return jnp.concatenate([w, t, 0.5 * jnp.tanh(cosine).mean(axis=0)[None]])


@pytest.mark.statistical
@pytest.mark.parametrize("fibre", [Fibre, OnOneSide, FrameThatMoves])
def test_faults_are_found(fibre):
    target = wilson("u2", (4, 5), 4.0)
    layers = Palindrome.start(lambda _: PlaquetteKick(OfEachCell()), jax.random.key(0), 2, 0.6)
    kernel = DLHMC(target, Local(OnPhases(layers, fibre), 3))
    found = check_stationarity(kernel, steps=10, chains=10_000, seed=2)
    assert found.p_value > P_VALUE if fibre is Fibre else found.p_value < BROKEN, found
