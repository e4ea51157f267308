"""Local layers: HMC before training, exact with any weights, and the same for every gauge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc import DLHMC, HMC, U1, wilson
from dlhmc.testing import check_stationarity, check_trajectory
from dlhmc.theories.gauge import lattice
from dlhmc.theories.gauge.architectures import LocalArchitecture
from dlhmc.theories.gauge.local import Local
from dlhmc.theories.u1.links import instanton
from dlhmc.training.loss import Transition, leaving_loss
from unoptimised import shaken, unoptimised

TARGETS = {
    "u1": lambda: U1((4, 6), 2.5),
    "u2": lambda: wilson("u2", (4, 4), 6.0),
    "su3": lambda: wilson("su3", (2, 2, 3), 5.0),
}


def built(target, number, degree=3):
    architecture = LocalArchitecture(leapfrog_steps=number, step_size=0.1, degree=degree)
    return unoptimised(architecture.completed(target).build)(target, jax.random.key(0))


def disturbed(trajectory, size=0.2, seed=1):
    return shaken(trajectory, size, seed)


def phase_of(target, chains=2):
    dtype = jnp.dtype(jnp.result_type(float))
    x = target.start(jax.random.key(2), "hot", chains, dtype)
    return x, target.geometry.momentum(jax.random.key(3), chains, dtype)


@pytest.mark.parametrize("number", [4, 5])
@pytest.mark.parametrize("name", TARGETS)
def test_before_training_they_are_hmc(name, number, x64):
    target = TARGETS[name]()
    x, v = phase_of(target)
    end = built(target, number).forward(target, x, v)
    x_hmc, v_hmc = HMC(target, 0.1, number)._integrate(target, x, v)
    np.testing.assert_allclose(end.x, x_hmc, atol=1e-13)
    np.testing.assert_allclose(end.v, v_hmc, atol=1e-12)


@pytest.mark.parametrize(("name", "number"), [("u1", 3), ("u1", 4), ("u2", 2)])
def test_trajectories_are_bijections_with_the_right_jacobian(name, number):
    target = {"u1": lambda: U1((2, 3), 2.5), "u2": lambda: wilson("u2", (2, 2), 6.0)}[name]()
    with jax.enable_x64(True):
        check_trajectory(disturbed(built(target, number)), target)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["u1", "u2"])
def test_they_are_exact_with_any_weights(name):
    """p below 1e-3 and a pull above 3.3 once in a thousand seeds each."""
    target = {"u1": lambda: U1((4, 4), 2.0), "u2": lambda: wilson("u2", (4, 4), 4.0)}[name]()
    kernel = DLHMC(target, disturbed(built(target, 4), 0.1))
    # The numbers of chains are those of other tests, which draw with the same programs.
    found = check_stationarity(kernel, steps=4, chains=10_000 if name == "u1" else 5000)
    assert found.p_value > 1e-3
    assert abs(found.weight_pull) < 3.3
    assert 0.1 < found.acceptance < 0.99


class OneWay(Local):
    """Heats and does not cool: no palindrome."""

    def _run(self, target, x, v, *, record):
        end, phases = super()._run(target, x, v, record=record)
        return end._replace(v=1.1 * end.v), phases


@pytest.mark.statistical
def test_a_trajectory_that_is_no_palindrome_is_found():
    target = U1((4, 4), 2.0)
    trajectory = built(target, 4)
    broken = OneWay(trajectory.weight, trajectory.constant, trajectory.scale, trajectory.log_step, trajectory.number)
    found = check_stationarity(DLHMC(target, broken), steps=4)
    assert found.p_value < 1e-6 or abs(found.weight_pull) > 5


def test_gauge_transformations_commute_with_them(x64):
    target = TARGETS["su3"]()
    trajectory = disturbed(built(target, 3))
    x, v = phase_of(target)
    geometry = target.geometry
    g = type(geometry)(geometry.colors, geometry.special, target.sides).haar(jax.random.key(4), 2, v.dtype)

    def transformed(x, v):
        y, m = lattice.gauge_transform(x, geometry.hermitian(v), g)
        return y, geometry.components(1j * m)

    there = trajectory.forward(target, *transformed(x, v))
    end = trajectory.forward(target, x, v)
    x_end, v_end = transformed(end.x, end.v)
    np.testing.assert_allclose(there.x, x_end, atol=1e-12)
    np.testing.assert_allclose(there.v, v_end, atol=1e-11)


def test_parameters_serve_on_every_lattice(x64):
    small, large = U1((4, 4), 2.5), U1((6, 8), 2.5)
    trajectory = disturbed(built(small, 3))
    x, v = phase_of(large)
    end = trajectory.forward(large, x, v)
    back = trajectory.inverse(large, end.x, end.v)
    np.testing.assert_allclose(back.v, v, atol=1e-11)


def test_only_what_leaves_its_sector_counts():
    target = U1((4, 4), 2.0)
    x = jnp.zeros((2, 4, 4, 3))
    # A flux of 2π/16 through every plaquette has the charge one; the second chain stays, the third moves a little.
    there = jnp.concatenate([instanton((4, 4), x.dtype), x[..., :1], x[..., :1].at[0, 0, 0].set(0.3)], axis=-1)
    loss = leaving_loss(target, Transition(x, x, there, x, jnp.full(3, 0.5)))
    moved = float(target.sine_charge(there)[0])
    np.testing.assert_allclose(loss, [-0.5 * moved**2, 0, 0], rtol=1e-6)
    assert moved > 0.9
    with pytest.raises(TypeError, match="no sectors"):
        leaving_loss(TARGETS["su3"](), Transition(*phase_of(TARGETS["su3"]()) * 2, jnp.ones(2)))
