import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import dlhmc
from dlhmc import CPN, HMC
from dlhmc.actions.cpn import charge
from dlhmc.geometry.contract import sum_sites
from dlhmc.testing.checks import evaluate, example


def complex_vectors(x):
    """z[i, j, color, chain]."""
    x = np.asarray(x, np.float64)
    return x[:, :, 0] + 1j * x[:, :, 1]


@pytest.mark.usefixtures("x64")
def test_the_action_is_that_of_links_which_are_integrated_out():
    """Link by link, −log of the mean of e^{2βN (Re wλ − 1)} over the circle."""
    target = CPN(3, (4, 3), 0.7)
    x = example(target)
    z, stiffness = complex_vectors(x), 2 * 0.7 * 3
    wanted = 0.0
    for axis in (0, 1):
        sizes = np.abs(np.sum(np.conj(np.roll(z, -1, axis)) * z, axis=2))[..., 0]
        means = [
            quad(lambda a, r=r: np.exp(stiffness * (r * np.cos(a) - 1)) / np.pi, 0, np.pi, epsabs=1e-12)[0]
            for r in sizes.ravel()
        ]
        wanted -= np.sum(np.log(means))
    np.testing.assert_allclose(evaluate(target.action, x)[0], wanted, rtol=1e-10)


def instanton(side, colors=3, radius=1.7):
    """z ∝ (w − c, ρ, 0) around the middle, far from its rim all alike."""
    i, j = np.indices((side, side)) - (side - 1) / 2
    w = (i + 1j * j) * (1 + ((i**2 + j**2) / (0.3 * side) ** 2) ** 4)
    z = np.stack([w, np.full_like(w, radius), np.zeros_like(w)][:colors], axis=2)
    # One map around the rim: the first component is real and positive there.
    z = np.abs(w)[..., None] / np.where(w == 0, 1, w)[..., None] * z
    z /= np.linalg.norm(z, axis=2, keepdims=True)
    return jnp.asarray(np.stack([z.real, z.imag], axis=2)[..., None])


@pytest.mark.usefixtures("x64")
def test_the_charge_counts_windings():
    target = CPN(3, (12, 12), 0.8)
    x = instanton(12)
    assert abs(float(charge(x)[0])) == 1
    mirrored = x.at[:, :, 1].multiply(-1)
    assert float(charge(mirrored)[0]) == -float(charge(x)[0])
    assert float(charge(evaluate(target.start, jax.random.key(0), "cold", 1, jnp.dtype(jnp.float64)))[0]) == 0


@pytest.mark.usefixtures("x64")
def test_hot_charges_are_integers_before_they_are_rounded():
    z = complex_vectors(example(CPN(2, (5, 4), 0.8), chains=6))

    def product(a, b):
        return np.sum(np.conj(a) * b, axis=2)

    right, up = np.roll(z, -1, 0), np.roll(z, -1, 1)
    far = np.roll(right, -1, 1)
    angles = np.angle(product(z, right) * product(right, far) * product(far, z))
    angles += np.angle(product(z, far) * product(far, up) * product(up, z))
    charges = np.sum(angles, axis=(0, 1)) / (2 * np.pi)
    np.testing.assert_allclose(charges, np.round(charges), atol=1e-10)
    assert np.ptp(np.round(charges)) > 0
    target = CPN(2, (5, 4), 0.8)
    np.testing.assert_array_equal(charge(example(target, chains=6)), np.round(charges))


@pytest.mark.usefixtures("x64")
def test_trajectories_are_reversible():
    target = CPN(4, (4, 6), 0.9)
    x = example(target)
    v = evaluate(target.geometry.momentum, jax.random.key(4), x)
    trip = evaluate(HMC(target, 0.2, 10).round_trip, target, x, v)
    np.testing.assert_allclose(trip.x_back, x, atol=1e-12)
    np.testing.assert_allclose(trip.v_back, v, atol=1e-11)


# A new seed would fail each of these with probability 1e-4 or less.
@pytest.mark.statistical
def test_vectors_are_independent_without_a_coupling():
    """⟨|z̄·z′|²⟩ = 1/N, after trajectories that turn them."""
    target = CPN(5, (4, 4), 1e-6)
    kernel = HMC(target, 0.3, 5)

    @jax.jit
    def overlap(key):
        start, step = jax.random.split(key)
        state = kernel.init(target.start(start, "hot", 4000, jnp.dtype(jnp.float32)))
        x = kernel.step(step, state)[0].x
        z = jax.lax.complex(x[:, :, 0], x[:, :, 1])
        squares = jnp.abs(jnp.sum(jnp.conj(jnp.roll(z, -1, 0)) * z, axis=2)) ** 2
        return sum_sites(squares) / 16

    found = np.asarray(overlap(jax.random.key(1)), np.float64)
    assert abs(found.mean() - 1 / 5) < 4 * found.std() / np.sqrt(found.size)


@pytest.mark.statistical
def test_the_energy_is_that_of_strong_coupling():
    """⟨E⟩ = 1 − β + β³N/(N + 1) + …, links being independent to this order."""
    samples = dlhmc.sample(HMC(CPN(4, (6, 6), 0.1), 0.3, 6), trajectories=300, warmup=50, progress=False)
    energy = samples.mean("energy")
    assert abs(energy.value - 0.9008) < 4 * energy.error < 1e-3


@pytest.mark.statistical
def test_its_configurational_temperature_is_one():
    kernel = HMC(CPN(3, (4, 6), 0.8), 0.2, 6)
    summary = dlhmc.sample(kernel, trajectories=300, warmup=100, temperature_every=3, progress=False).summary()
    assert summary["alarms"] == []
    assert abs(summary["temperature"]["mean"] - 1) < 4 * summary["temperature"]["error"] < 0.1


@pytest.mark.slow
@pytest.mark.statistical
def test_energy_and_susceptibility_are_those_of_a_public_code():
    """N = 10, 32², β = 0.8: 0.33327(10) and 8.8e-4."""
    kernel = HMC(CPN(10, (32, 32), 0.8), 0.12, 10)
    summary = dlhmc.sample(kernel, chains=32, trajectories=3000, warmup=500, progress=False).summary()
    error = np.hypot(summary["energy"]["error"], 1e-4)
    assert abs(summary["energy"]["mean"] - 0.33327) < 4 * error
    assert summary["susceptibility"]["mean"] == pytest.approx(8.8e-4, rel=0.15)
