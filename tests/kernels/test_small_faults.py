"""Faults of kernels too small to show in a stationarity test: each is looked for where it is largest."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlhmc
from dlhmc.theories.gauge.known import charge
from unoptimised import unoptimised

pytestmark = pytest.mark.statistical

draw = eqx.filter_jit(lambda draws, key, chains: draws.draw(key, chains, jnp.dtype(jnp.float32)))
step = eqx.filter_jit(lambda kernel, key, state: kernel.step(key, state))


def flat(x):
    """A density that is the same everywhere."""
    return 0 * x[0]


FLAT = dlhmc.LogDensity(flat, dim=1)


def test_the_step_size_stays_as_it_is_after_the_warm_up():
    """Where nothing pulls, a trajectory goes as far as its step size says, whatever came before."""
    amount = {"chains": 4, "trajectories": 60, "warmup": 20, "seed": 5, "start": "cold", "progress": False}

    def paths(kernel, **more):
        samples = dlhmc.sample(kernel, **amount, **more)
        return np.diff(samples.data["x0"].values), samples.data.attrs["step_size"]

    tuned, step_size = paths(dlhmc.HMC(FLAT, 0.1, 1), tune=0.8)
    fixed, _ = paths(dlhmc.HMC(FLAT, step_size, 1))
    assert step_size > 0.2
    # The positions, from which the paths are taken, are of order 100 and rounded to 1e-5.
    np.testing.assert_allclose(tuned, fixed, rtol=1e-3, atol=1e-3)


def test_a_hit_is_accepted_with_the_right_probability():
    """From the cold field either sign costs ΔS = βV(1 − cos 2π/V), here 1."""
    target = dlhmc.U1((2, 2), 0.25)
    chains = 400_000
    kernel = dlhmc.InstantonHits(dlhmc.HMC(target, 1e-6, 1), 1)
    x = target.start(jax.random.key(0), "cold", chains, jnp.float32)
    state, _ = step(kernel, jax.random.key(1), kernel.init(x))
    accepted = np.count_nonzero(np.asarray(charge(state.x)))
    # Binomial: 4 σ fails at a new seed with probability 6e-5; 3 % less in ΔS is 15 σ away.
    p = np.exp(-1)
    assert abs(accepted - p * chains) < 4 * np.sqrt(p * (1 - p) * chains)


def test_exact_draws_are_alike_at_every_site():
    """Also at the one that closes the torus, for which there is a rejection of its own."""
    target, chains = dlhmc.U1((2, 2), 2.0), 600_000
    x = np.asarray(draw(target.exact_draws(), jax.random.key(2), chains), np.float64)
    cosine = np.cos(x[0] + np.roll(x[1], -1, axis=0) - np.roll(x[0], -1, axis=1) - x[1])
    errors = cosine.std(axis=-1) / np.sqrt(chains)
    # Four means of bounded numbers: one of them is off by 4.5 σ with probability 3e-5; 2 % less in β there is 9 σ.
    assert np.all(np.abs(cosine.mean(axis=-1) - target.exact()["plaquette"]) < 4.5 * errors)


def dense(target, **more):
    return unoptimised(dlhmc.build_trajectory)(target, "dense", layers=2, hidden=(1,), **more)


@pytest.mark.parametrize("kind", ["hmc", "dlhmc"])
def test_large_lattices_keep_the_digits_of_the_energy_change(kind):
    """Steps this short conserve the energy to 1e-4; the energy itself is 5e4, which float32 rounds to 4e-3."""
    target, size = dlhmc.U1((128, 128), 2.0), 1e-3
    layers = dense(target, step_size=size, rule=dlhmc.Shift())
    kernel = dlhmc.HMC(target, size, 2) if kind == "hmc" else dlhmc.DLHMC(target, layers)
    few = {"chains": 4, "trajectories": 4, "warmup": 0, "start": "hot", "progress": False, "temperature_every": 0}
    change = dlhmc.sample(kernel, **few).data["energy_change"].values
    assert np.abs(change).max() < 1e-3


def test_links_of_learned_trajectories_stay_wrapped():
    target = dlhmc.U1((2, 2), 0.5)
    kernel = dlhmc.DLHMC(target, dense(target, step_size=0.8))
    few = {"chains": 64, "trajectories": 20, "warmup": 0, "start": "hot", "progress": False}
    samples = dlhmc.sample(kernel, keep_configurations=20, **few)
    assert samples.acceptance > 0.3
    # π as float32 has it, and as rounding makes it.
    assert np.abs(samples.data["configurations"].values).max() < np.pi + 1e-5


@pytest.mark.parametrize("chains", [2000, 2001])
def test_half_of_the_chains_go_back(chains):
    """In pairs if their number is even, which is another program."""
    target = dlhmc.Gaussian(np.ones(2))
    trajectory = dense(target, step_size=0.3)
    x, v = np.random.default_rng(0).normal(size=(2, 2, chains)).astype(np.float32)

    @eqx.filter_jit
    def ends(trajectory, key):
        return trajectory.propose(key, target, x, v).x, trajectory.forward(target, x, v).x

    proposed, there = ends(trajectory, jax.random.key(2))
    forward = np.count_nonzero(np.abs(proposed - there).max(axis=0) < 1e-4)
    # Binomial: 4 σ fails at a new seed with probability 6e-5.
    assert abs(forward - chains / 2) < 4 * np.sqrt(chains / 4)
