"""Weighted layers: HMC before training, and what dense networks can go on from."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc import DLHMC, HMC, U1, Gaussian, UserError, cli, train
from dlhmc.errors import ExitCode
from dlhmc.models.dense import DenseArchitecture
from dlhmc.testing import check_stationarity
from dlhmc.theories.gauge.radial import link_distances
from dlhmc.theories.u1.architectures import WeightedArchitecture
from dlhmc.theories.u1.links import plaquettes
from dlhmc.theories.u1.weighted import Weighted
from unoptimised import shaken, unoptimised

RADII, WINDOW = (0.0, 1.5, 2.5), 1.9
TARGET = U1((6, 8), 2.0)


def new(number, window=WINDOW):
    return Weighted.start(number, 0.3, RADII, window)


def phase():
    x = TARGET.start(jax.random.key(1), "hot", 3, jnp.dtype(jnp.float64))
    return x, TARGET.geometry.momentum(jax.random.key(2), 3, jnp.dtype(jnp.float64))


def test_they_are_refused_without_symmetries(capsys, tmp_path):
    """They would leave most links as they are for ever."""
    words = ["train", "--network", "weighted", "--lattice", "4", "4", "--steps", "2", "--out", str(tmp_path / "run")]
    assert cli.run(words) is ExitCode.BAD_INPUT
    assert "acts at one place only: turn --symmetric on" in capsys.readouterr().err
    with pytest.raises(UserError, match="turn symmetric on"):
        train(TARGET, "weighted", steps=2)


@pytest.mark.usefixtures("x64")
def test_before_training_they_are_hmc():
    x, v = phase()
    end = unoptimised(new(3, np.inf).forward)(TARGET, x, v)
    x_hmc, v_hmc, _ = unoptimised(lambda *ends: HMC(TARGET, 0.3 / 2**0.5, 3)._integrate(TARGET, *ends))(x, v)
    np.testing.assert_allclose(end.x, x_hmc, atol=1e-12)
    np.testing.assert_allclose(end.v, v_hmc, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_what_is_read_of_the_force_are_the_forces_of_plaquettes():
    """But for their mean, which no link feels."""

    @unoptimised
    def compared(x):
        steps = new(1).steps(TARGET)
        read = jnp.einsum("umij,mijc->uc", steps.read, TARGET.force(x))
        flow = TARGET.plaquette_force(plaquettes(x))
        return read, (flow - flow.mean(axis=(0, 1)))[0, :3]

    read, flow = compared(phase()[0])
    assert read.shape[0] == 21
    np.testing.assert_allclose(read[:3], flow, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_only_links_in_the_window_move():
    x, v = phase()
    end = unoptimised(shaken(new(4), 0.2, 3).forward)(TARGET, x, v)
    far = np.asarray(link_distances(TARGET.lattice, (0, 0))) > WINDOW
    for before, after in ((x, end.x), (v, end.v)):
        moved = np.abs(np.asarray(after - before)).max(axis=-1)
        assert not moved[far].any()
        assert moved[~far].all()


def grown(target, trained, hidden):
    architecture = DenseArchitecture(leapfrog_steps=len(trained), hidden=hidden).completed(target)
    return architecture.grown(target, architecture.build(target, jax.random.key(0)), trained)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("number", "hidden"), [(3, (44, 42)), pytest.param(4, (44, 50, 42), marks=pytest.mark.slow)])
def test_dense_networks_take_them_over(number, hidden):
    """The same trajectory, but for links that should stay where they are and move by 1e-5 of a step."""

    @unoptimised
    def ends(trained, x, v):
        return [layers.forward(TARGET, x, v) for layers in (trained, grown(TARGET, trained, hidden), new(number))]

    ours, theirs, plain = ends(shaken(new(number), 0.3, 1), *phase())
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(other, one, atol=3e-4)
    assert float(np.abs(ours.x - plain.x).max()) > 0.1  # otherwise nothing was taken over


def test_dense_networks_that_are_too_small_are_refused():
    with pytest.raises(UserError, match="need 42 units"):
        eqx.filter_eval_shape(grown, TARGET, new(4), (50, 41))


def test_they_are_for_plaquettes():
    assert not WeightedArchitecture.suits(Gaussian([1.0]))


@pytest.mark.statistical
@pytest.mark.slow
def test_exact_configurations_stay_exact_under_what_dense_networks_have_taken_over():
    """p below 1e-3 and a pull above 3.3 once in a thousand seeds each."""
    target = U1((4, 4), 2.0)
    trained = shaken(Weighted.start(3, 0.4, (0.0, 1.0, 2.0), 1.7), 0.15, 1)
    kernel = DLHMC(target, unoptimised(lambda layers: grown(target, layers, (30,)))(trained), symmetric=True)
    found = check_stationarity(kernel, steps=6, seed=1)
    assert found.p_value > 1e-3
    assert abs(found.weight_pull) < 3.3
    assert 0.2 < found.acceptance < 0.99
