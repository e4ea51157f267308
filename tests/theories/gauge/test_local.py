"""Local layers: HMC before training, exact with any weights, and the same for every gauge."""

import dataclasses
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dlhmc import DLHMC, HMC, U1, wilson
from dlhmc.models.model import Model
from dlhmc.plans.training import TrainPlan
from dlhmc.testing import check_stationarity
from dlhmc.theories.gauge import lattice, local, radial, tiles
from dlhmc.theories.gauge.architectures import LocalArchitecture
from dlhmc.theories.gauge.local import Local
from dlhmc.theories.gauge.radial import link_distances
from dlhmc.theories.u1.links import instanton
from dlhmc.training import Algorithm, train
from dlhmc.training.loss import Transition, leaving_loss
from unoptimised import shaken, unoptimised

TARGETS = {
    "u1": lambda: U1((4, 6), 2.5),
    "u2": lambda: wilson("u2", (4, 4), 6.0),
    "su3": lambda: wilson("su3", (2, 2, 3), 5.0),
}


RADII = (0.0, 1.0, 2.0)


def built(target, number, radii=RADII, window=0.0, step_size=0.1, free=False):
    shape = {"leapfrog_steps": number, "degree": 3, "radii": radii, "window": window, "free": free}
    architecture = LocalArchitecture(step_size=step_size, **shape)
    return unoptimised(architecture.completed(target).build)(target, jax.random.key(0))


def disturbed(trajectory, size=0.2, seed=1):
    return shaken(trajectory, size, seed)


def phase_of(target, chains=2):
    dtype = jnp.dtype(jnp.result_type(float))
    x = target.start(jax.random.key(2), "hot", chains, dtype)
    return x, target.geometry.momentum(jax.random.key(3), chains, dtype)


def forward(trajectory, target, x, v):
    return unoptimised(lambda *phase: trajectory.forward(target, *phase))(x, v)


@pytest.mark.parametrize(
    ("name", "number", "free"),
    [("u1", 4, False), ("u1", 5, True), ("u2", 4, False), pytest.param("su3", 3, False, marks=pytest.mark.slow)],
)
def test_before_training_they_are_hmc(name, number, free, x64):
    target = TARGETS[name]()
    x, v = phase_of(target)
    end = forward(built(target, number, free=free), target, x, v)
    x_hmc, v_hmc, _ = unoptimised(lambda *phase: HMC(target, 0.1, number)._integrate(target, *phase))(x, v)
    np.testing.assert_allclose(end.x, x_hmc, atol=1e-13)
    np.testing.assert_allclose(end.v, v_hmc, atol=1e-12)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n == "su3" else n for n in TARGETS])
def test_only_links_in_the_window_move(name, x64):
    target = TARGETS[name]()
    x, v = phase_of(target)
    end = forward(disturbed(built(target, 3, window=1.2)), target, x, v)
    far = np.asarray(link_distances(target.sides, (0,) * len(target.sides))) > 1.2
    x_moved = np.abs(np.asarray(end.x - x)).reshape(-1, *far.shape, 2).max(axis=(0, -1))
    v_moved = np.abs(np.asarray(end.v - v)).reshape(-1, *far.shape, 2).max(axis=(0, -1))
    assert not x_moved[far].any()
    assert not v_moved[far].any()
    assert x_moved[~far].all()


def test_places_are_drawn_anew():
    """Each of the 24 plaquettes is the middle of some trajectory."""
    target = U1((4, 6), 2.5)
    trajectory = built(target, 2, window=0.6)
    x = jnp.zeros((2, 4, 6, 1))
    v = target.geometry.momentum(jax.random.key(3), 1, x.dtype)
    propose = jax.jit(lambda key: trajectory.propose(key, target, x, v).x)
    keys = jax.random.split(jax.random.key(1), 300)
    assert len({np.asarray(propose(key) != 0).tobytes() for key in keys}) == 24


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "free"), [("u1", False), pytest.param("u2", False, marks=pytest.mark.slow), ("u1", True)]
)
def test_they_are_exact_with_any_weights(name, free):
    """p below 1e-3 and a pull above 3.3 once in a thousand seeds each."""
    target = {"u1": lambda: U1((4, 4), 2.0), "u2": lambda: wilson("u2", (4, 4), 4.0)}[name]()
    kernel = DLHMC(target, disturbed(built(target, 4, window=2.1, free=free), 0.1))
    # The numbers of chains are those of other tests, which draw with the same programs.
    found = check_stationarity(kernel, steps=4, chains=10_000 if name == "u1" else 5000)
    assert found.p_value > 1e-3
    assert abs(found.weight_pull) < 3.3
    assert 0.1 < found.acceptance < 0.99


class OneWay(Local):
    """Heats and does not cool."""

    def _run(self, target, x, v, place, numbers=None, *, record):
        end, phases = super()._run(target, x, v, place, numbers, record=record)
        return end._replace(v=1.1 * end.v), phases


class Unmirrored(Local):
    """The second half is not the mirror image of the first."""

    def _parameters(self, dtype, unit):
        kick, drift = super()._parameters(dtype, unit)
        return kick._replace(constant=kick.constant.at[-1].add(1.0)), drift


class OneDirection(Local):
    """Free layers that never go back."""

    def _propose(self, key, target, x, v, *where):
        return self._run(target, x, v, *where, record=False)[0]


class Unpaid(Local):
    """Free layers without their Jacobian."""

    def _propose(self, key, target, x, v, *where):
        end = super()._propose(key, target, x, v, *where)
        return end._replace(log_jacobian=jnp.zeros_like(end.log_jacobian))


@pytest.mark.statistical
@pytest.mark.parametrize(
    "broken",
    [OneWay, Unmirrored, OneDirection, pytest.param(Unpaid, marks=pytest.mark.slow)],
    ids=lambda it: it.__name__,
)
def test_broken_trajectories_are_found(broken):
    target, free = U1((4, 4), 2.0), broken in (OneDirection, Unpaid)
    whole = built(target, 4, window=2.1, step_size=0.3, free=free)
    whole = disturbed(whole, 0.1) if free else whole
    arguments = {field.name: getattr(whole, field.name) for field in dataclasses.fields(whole)}
    found = check_stationarity(DLHMC(target, broken(**arguments)), steps=4, chains=4000)
    assert found.p_value < 1e-6 or abs(found.weight_pull) > 5


@pytest.mark.parametrize("name", ["u2", pytest.param("su3", marks=pytest.mark.slow)])
def test_gauge_transformations_commute_with_them(name, x64):
    target = TARGETS[name]()
    trajectory = disturbed(built(target, 3))
    x, v = phase_of(target)
    geometry = target.geometry
    g = type(geometry)(geometry.colors, geometry.special, target.sides).haar(jax.random.key(4), 2, v.dtype)

    def transformed(x, v):
        y, m = lattice.gauge_transform(x, geometry.hermitian(v), g)
        return y, geometry.components(1j * m)

    there = forward(trajectory, target, *transformed(x, v))
    end = forward(trajectory, target, x, v)
    x_end, v_end = transformed(end.x, end.v)
    np.testing.assert_allclose(there.x, x_end, atol=1e-12)
    np.testing.assert_allclose(there.v, v_end, atol=1e-11)


def test_parameters_serve_on_every_lattice(x64):
    small, large = U1((4, 4), 2.5), U1((6, 8), 2.5)
    trajectory = disturbed(built(small, 3))
    x, v = phase_of(large)
    end = forward(trajectory, large, x, v)
    back = unoptimised(lambda *phase: trajectory.inverse(large, *phase))(end.x, end.v)
    np.testing.assert_allclose(back.v, v, atol=1e-11)


def test_only_what_leaves_its_sector_counts():
    target = U1((4, 4), 2.0)
    x = jnp.zeros((2, 4, 4, 4))
    # A flux of 2π/16 through every plaquette has the charge one; the second chain stays, the third moves a little, and
    # the last one leaves but is never accepted.
    one = instanton((4, 4), x.dtype)
    there = jnp.concatenate([one, x[..., :1], x[..., :1].at[0, 0, 0].set(0.3), one], axis=-1)
    acceptance = jnp.asarray([0.25, 0.25, 0.25, 0.0])
    loss, slope = jax.vjp(lambda a: leaving_loss(target, Transition(x, x, there, x, a)), acceptance)
    moved = float(target.sine_charge(there)[0])
    assert 0.9 < moved < 1
    np.testing.assert_allclose(loss, [-0.5 * moved**2, 0, 0, 0], rtol=1e-6, atol=1e-12)
    assert np.isfinite(slope(jnp.ones(4))[0]).all()
    two = leaving_loss(target, Transition(x, x, 2 * there, x, acceptance))
    np.testing.assert_allclose(two[0], -0.5, rtol=1e-6)
    with pytest.raises(TypeError, match="no sectors"):
        leaving_loss(TARGETS["su3"](), Transition(*phase_of(TARGETS["su3"]()) * 2, jnp.ones(2)))


@pytest.mark.parametrize(("name", "loss"), [("u1", "leaving"), ("u2", "leaving"), ("su3", "jump")])
def test_the_loss_that_suits_them(name, loss):
    """What leaves its sector counts where there are sectors; other layers keep their own loss."""
    assert TrainPlan.from_table({"target": name, "network": "local"}).objective.loss == loss
    assert TrainPlan.from_table({"target": "u1", "network": "defect"}).objective.loss == "charge"


def test_they_are_told_nothing():
    """Neither layers nor tiles know charges, sectors or instantons: where to go comes from the loss."""
    for module in (local, radial, tiles):
        code = inspect.getsource(module).lower()
        assert not any(word in code for word in ("charge", "sector", "instanton", "flux", "theories.u1"))


@pytest.mark.slow
def test_without_a_barrier_they_stay_close_to_hmc():
    """Where the charge moves anyhow, the loss that made the shipped model heat and drive has nothing to teach."""
    target = U1((4, 4), 0.5)
    new = built(target, 4, radii=(0.0, 1.5, 3.0), window=1.7, step_size=0.6)
    x = target.exact_draws().draw(jax.random.key(1), 256, jnp.dtype(jnp.float32))
    state, records = train(Algorithm(target, {}, leaving_loss, optax.adam(3e-3)), new, x, steps=300)
    assert records["tunnelling_rate"][:20].mean() > 0.5
    assert records["acceptance"][-50:].mean() > 0.85
    taught, shipped = (parts(layers) for layers in (state.trajectory, Model.open("u1-local-b7").trajectory(target)))
    # Measured: 0.02 and 0.8 for the scale, 0.13 and 1.5 for the weight.
    for name, limit in (("scale", 0.1), ("constant", 0.4)):
        assert np.abs(getattr(taught, name)).max() < limit < 0.5 * np.abs(getattr(shipped, name)).max()


def parts(layers):
    return layers._parameters(jnp.dtype(jnp.float32), jnp.ones(()))[0]
