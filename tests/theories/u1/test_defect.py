"""Defect layers and patch networks: bijections with the symmetry that lets one direction suffice, on any lattice."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dlhmc.kernels.integrators import INTEGRATORS, integrate
from dlhmc.models.model import Model, describe, save
from dlhmc.theories import registry
from dlhmc.theories.gauge import radial
from dlhmc.theories.u1 import defect
from dlhmc.theories.u1.flux import flux_potential
from dlhmc.theories.u1.links import curl, gauge_transform, plaquettes, translate
from dlhmc.theories.u1.loss import charge_loss
from dlhmc.theories.u1.wilson import U1
from dlhmc.training import Algorithm, Inputs, advance
from unoptimised import shaken, unoptimised

RADII = (0.0, 1.0, 2.0, 3.0)
KINDS = [("defect", 4), ("patch", 3)]


def architecture(network, number, step_size=0.1):
    own = {"hidden": (6,), "window": 3} if network == "patch" else {}
    kind = registry.architecture(network)
    return kind(leapfrog_steps=number, step_size=step_size, radii=RADII, hole=0.5, **own)


def build(network, number, step_size=0.1):
    return unoptimised(architecture(network, number, step_size).build)(U1((4, 6), 2.0), jax.random.key(0))


def random(trajectory, scale):
    return shaken(trajectory, scale, 3)


def trained(target, trajectory, steps=60):
    algorithm = Algorithm(target, {}, charge_loss, optax.adam(1e-2))
    x = target.exact_draws().draw(jax.random.key(1), 32, trajectory.shift.dtype)
    state = algorithm.begin(trajectory, x)
    inputs = Inputs(algorithm, jnp.uint32(3), jnp.int32(0), jnp.int32(steps))
    return advance(inputs, state, steps)[0].trajectory


def start(target, chains, dtype):
    x = target.start(jax.random.key(0), "hot", chains, dtype)
    return x, target.geometry.momentum(jax.random.key(1), chains, dtype)


forward = eqx.filter_jit(lambda trajectory, target, x, v: trajectory.forward(target, x, v))
inverse = eqx.filter_jit(lambda trajectory, target, x, v: trajectory.inverse(target, x, v))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("network", "number"), [KINDS[0], pytest.param(*KINDS[1], marks=pytest.mark.slow)])
def test_round_trip_and_palindrome_in_double_precision(network, number):
    target = U1((4, 6), 2.0)
    new = build(network, number)
    x, v = start(target, 3, jnp.float64)
    # One kind is trained, because compiling a training step takes long.
    taught = [trained(target, new)] if network == "patch" else []
    for trajectory in (new, random(new, 0.3), random(new, 1.0), *taught):
        middle = forward(trajectory, target, x, v)
        end = inverse(trajectory, target, middle.x, middle.v)
        size = max(1.0, float(jnp.abs(middle.v).max()), float(jnp.abs(middle.x).max())) ** 2
        np.testing.assert_allclose(end.x, x, atol=1e-12 * size)
        np.testing.assert_allclose(end.v, v, atol=1e-12 * size)
        np.testing.assert_allclose(middle.log_jacobian, 0, atol=1e-12 * size)
        # F⁻¹ = CR∘F∘CR, with CR: (x, v) → (−x, v).
        back, mirrored = inverse(trajectory, target, x, v), forward(trajectory, target, -x, v)
        np.testing.assert_allclose(back.x, -mirrored.x, atol=1e-11 * size)
        np.testing.assert_allclose(back.v, mirrored.v, atol=1e-11 * size)


@pytest.mark.parametrize(("network", "number"), KINDS)
def test_round_trip_in_single_precision(network, number):
    target = U1((4, 6), 2.0)
    trajectory = random(build(network, number), 0.3)
    x, v = start(target, 8, jnp.float32)
    middle = forward(trajectory, target, x, v)
    end = inverse(trajectory, target, middle.x, middle.v)
    np.testing.assert_allclose(end.x, x, atol=1e-4)
    np.testing.assert_allclose(end.v, v, atol=1e-4)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize(("network", "number"), [("defect", 2), ("patch", 3)])
def test_log_jacobian_is_that_of_autodiff(network, number, even, monkeypatch):
    """It is 0 for a palindrome; with s mirrored the wrong way it is not, and must still be right."""
    if even:
        monkeypatch.setattr(
            defect, "mirrored_odd", lambda half, n: jnp.concatenate([half, half[: n - len(half)][::-1]])
        )
        number = 3
    target = U1((3, 2), 1.7)
    trajectory = random(build(network, number, 0.3), 0.3)
    x, v = start(target, 1, jnp.float64)
    size = x.size
    for direction in ("forward", "inverse"):

        def flat(z, direction=direction):
            phase = getattr(trajectory, direction)(target, z[:size].reshape(x.shape), z[size:].reshape(x.shape))
            return jnp.concatenate([phase.x.ravel(), phase.v.ravel()]), phase.log_jacobian[0]

        z = jnp.concatenate([x.ravel(), v.ravel()])
        jacobian, found = jax.jit(jax.jacfwd(flat, has_aux=True))(z)
        _, expected = np.linalg.slogdet(np.asarray(jacobian))
        assert abs(float(found) - expected) <= 1e-10
        assert (abs(expected) > 1e-2) == even


@pytest.mark.usefixtures("x64")
def test_a_closed_defect_without_drive_is_hmc():
    target, number = U1((4, 6), 2.0), 5
    new = build("defect", number, 0.1)
    whole = np.where(np.arange(number // 2 + 1) == 0, 0.5, 1.0)[:, None] / radial.inverse_sqrt_multiplicity(RADII)
    trajectory = eqx.tree_at(lambda f: (f.weight, f.shift), new, (jnp.asarray(whole), jnp.zeros_like(new.shift)))
    x, v = start(target, 3, jnp.float64)
    there = forward(trajectory, target, x, v)
    hmc = integrate(target, INTEGRATORS["leapfrog"], x, v, jnp.asarray(0.1), jnp.int32(number))
    np.testing.assert_allclose(there.x, hmc[0], atol=1e-12)
    np.testing.assert_allclose(there.v, hmc[1], atol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("network", ["defect", "patch"])
def test_gauge_equivariance(network):
    target = U1((4, 6), 2.0)
    trajectory = random(build(network, 3), 0.3)
    x, v = start(target, 3, jnp.float64)
    alpha = jax.random.normal(jax.random.key(4), x.shape[1:])
    there = forward(trajectory, target, gauge_transform(x, alpha), v)
    expected = forward(trajectory, target, x, v)
    np.testing.assert_allclose(there.x, gauge_transform(expected.x, alpha), atol=1e-11)
    np.testing.assert_allclose(there.v, expected.v, atol=1e-11)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("network", ["defect", "patch"])
def test_the_defect_may_be_anywhere(network):
    """Moving the defect is moving the configuration the other way."""
    target = U1((4, 6), 2.0)
    trajectory = random(build(network, 3), 0.3)
    x, v = start(target, 3, jnp.float64)
    place = jnp.array([3, 4])
    there = eqx.filter_jit(trajectory._forward)(target, translate(x, place), translate(v, place), place)
    expected = forward(trajectory, target, x, v)
    np.testing.assert_allclose(there.x, translate(expected.x, place), atol=1e-12)
    np.testing.assert_allclose(there.v, translate(expected.v, place), atol=1e-12)


def test_parameters_fit_every_lattice(tmp_path):
    described = describe(architecture("patch", 2), {"name": "u1"}, symmetric=False)
    save(tmp_path / "model.npz", build("patch", 2), described)
    for lattice in ((8, 8), (32, 32), (24, 12)):
        target = U1(lattice, 7.0)
        loaded = Model.open(str(tmp_path / "model.npz")).trajectory(target)
        x, v = start(target, 2, jnp.float32)
        assert np.all(np.isfinite(forward(loaded, target, x, v).x))


@pytest.mark.usefixtures("x64")
def test_the_drive_moves_one_unit_of_flux():
    radii = radial.default_radii(8.0)
    hats = radial.basis(radii, radial.plaquette_distances((24, 24), (0, 0))[0])
    flux = plaquettes(curl(jnp.asarray(np.tensordot(flux_potential(radii), hats, axes=1))[..., None]))[..., 0]
    assert abs(float(flux.sum())) < 1e-10
    assert abs(abs(float(flux[0, 0])) - 2 * np.pi) < 0.2
    assert float(jnp.abs(flux).at[0, 0].set(0).max()) < 0.3
