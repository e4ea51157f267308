"""The Wilson flow, of all groups by the same code; in two dimensions U(1) has an exact equation to be held against."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from dlhmc.lattice.links import as_matrices
from dlhmc.theories.contract import Occasional
from dlhmc.theories.gauge.field import U1, wilson
from dlhmc.theories.gauge.flow import flow, measure
from dlhmc.theories.gauge.known import charge, measure_loop, plaquette
from unoptimised import unoptimised

LATTICE = (4, 3)
TIMES = (0.5, 1.0, 1.5, 2.0)


@pytest.fixture(scope="module")
def angles():
    """Rough fields, of which some have a charge."""
    return np.random.default_rng(5).normal(0.0, 0.6, (2, *LATTICE, 3)) + charged()


def charged():
    """Links with all plaquettes alike and the charges 0, 1 and −1."""
    (width, height), x = LATTICE, np.zeros((2, *LATTICE, 3))
    i, j = np.indices(LATTICE)
    x[1] = (2 * np.pi * i / (width * height))[..., None] * [0, 1, -1]
    x[0] = np.where(i == width - 1, -2 * np.pi * j / height, 0.0)[..., None] * [0, 1, -1]
    return x


def plaquettes_of(x):
    return x[0] + np.roll(x[1], -1, axis=0) - np.roll(x[0], -1, axis=1) - x[1]


def by_scipy(x):
    """ẋ = −2 ∂/∂x Σ_P (1 − cos x_P), by a solver that knows nothing of groups: links [time, μ, i, j, chain]."""

    def velocity(_, flat):
        sine = np.sin(plaquettes_of(flat.reshape(x.shape)))
        force = np.stack([sine - np.roll(sine, 1, axis=1), np.roll(sine, 1, axis=0) - sine])
        return -2 * force.ravel()

    found = solve_ivp(velocity, (0, TIMES[-1]), x.ravel(), t_eval=TIMES, rtol=1e-10, atol=1e-10)
    return found.y.T.reshape(-1, *x.shape)


@pytest.mark.usefixtures("x64")
def test_angles_and_matrices_follow_the_same_equation(angles):
    wanted = by_scipy(angles)
    target, x = U1(LATTICE, 2.0), jnp.asarray(angles)
    links, measured = jax.jit(
        lambda y: flow(y, wilson("u1", LATTICE, 2.0, matrices=True).geometry, jnp.asarray(TIMES), 1e-6)
    )(as_matrices(x))
    np.testing.assert_allclose(links[0, 0], np.exp(1j * wanted[-1]), atol=1e-5)
    defects = 1 - np.cos(np.array([plaquettes_of(y) for y in wanted]))
    energy = 2 * defects.mean(axis=(1, 2))
    squared = np.square(TIMES)[:, None]
    np.testing.assert_allclose(measured.energy_plaquette, squared * energy, atol=1e-5)
    assert np.all(np.diff(energy, axis=0) < 0)
    # As observables of a run: angles, in the precision of a run.
    observables = Occasional(flow_time=TIMES[-1], flow_points=len(TIMES), flow_tolerance=1e-6, loops=2)
    found = jax.jit(lambda y: observables.observables(target)(y))(x)
    np.testing.assert_allclose(found["flow_energy_plaquette"], squared * energy, atol=1e-5)
    np.testing.assert_allclose(found["flow_energy"], measured.energy, atol=1e-12)
    np.testing.assert_allclose(found["bare_energy_plaquette"], 2 * (1 - np.cos(plaquettes_of(angles))).mean((0, 1)))
    sine = np.sin(plaquettes_of(angles))
    strength = (sum(np.roll(sine, shift, axis=(0, 1)) for shift in np.ndindex(2, 2)) / 4) ** 2
    np.testing.assert_allclose(found["bare_energy"], strength.mean((0, 1)))
    np.testing.assert_allclose(found["wilson_loops"][0, 0], plaquette(x))
    loops = measure_loop(x, 1, 2), measure_loop(x, 2, 1)
    np.testing.assert_allclose(found["wilson_loops"][1, 0], np.mean(loops, axis=0))
    assert Occasional().observables(target) is None


@pytest.mark.usefixtures("x64")
def test_the_flow_keeps_the_charge_and_ends_at_its_smallest_action(angles):
    target, x = U1(LATTICE, 2.0), jnp.asarray(0.3 * (angles - charged()) + charged())
    assert charge(x).tolist() == [0, 1, -1]
    observables = Occasional(flow_time=60.0, flow_points=4).observables(target)
    links, _ = flow(as_matrices(x), observables.geometry, jnp.asarray(observables.times))
    smooth = jnp.angle(links[0, 0])
    assert charge(smooth).tolist() == [0, 1, -1]
    # An instanton has the same plaquette e^{2πiQ/V} everywhere.
    np.testing.assert_allclose(
        plaquette(smooth), np.cos(2 * np.pi * np.array([0, 1, -1]) / math.prod(target.geometry.elements[1:])), atol=1e-6
    )


def clover(x, mu, nu):
    """The Hermitian, traceless part of the mean of the four plaquettes at each site; links are x[μ][*site, N, N]."""

    def walk(*steps):
        """The product of links along a path, backwards through those whose direction is given as ~μ."""
        place, product = np.zeros(len(x), int), np.eye(x.shape[-1])
        for step in steps:
            direction = step if step >= 0 else ~step
            place[direction] -= step < 0
            link = np.roll(x[direction], tuple(-place), axis=tuple(range(len(x))))
            product = product @ (link if step >= 0 else link.conj().swapaxes(-1, -2))
            place[direction] += step >= 0
        return product

    mean = sum(walk(a, b, ~a, ~b) for a, b in ((mu, nu), (nu, ~mu), (~mu, ~nu), (~nu, mu))) / 4
    f = (mean - mean.conj().swapaxes(-1, -2)) / 2j
    return f - np.trace(f, axis1=-2, axis2=-1)[..., None, None] / x.shape[-1] * np.eye(x.shape[-1])


@pytest.mark.usefixtures("x64")
def test_energy_and_charge_are_those_of_the_clover():
    """E = ½ Σ_{μν} tr F_μν² for each site and Q = Σ ε_{μνρσ} tr F_μν F_ρσ/32π², by their definition."""
    target = wilson("su3", (3, 3, 3, 3), 6.0)
    numbers = np.random.default_rng(0).normal(size=(2, 4, 3, 3, 3, 3, 3, 3))
    links = np.linalg.qr(numbers[0] + 1j * numbers[1])[0]
    links /= np.linalg.det(links)[..., None, None] ** (1 / 3)
    x = np.moveaxis(links, (-2, -1), (0, 1))[..., None]
    found = unoptimised(lambda x: measure(x, jnp.float64(1), target.geometry))(x)
    f = {(mu, nu): clover(links, mu, nu) for mu, nu in itertools.permutations(range(4), 2)}
    energy = sum(np.einsum("...ij,...ji", part, part).real.mean() for part in f.values()) / 2
    signs = {order: np.linalg.det(np.eye(4)[list(order)]) for order in itertools.permutations(range(4))}
    charge = sum(s * np.einsum("...ij,...ji", f[o[:2]], f[o[2:]]).real.sum() for o, s in signs.items())
    np.testing.assert_allclose(found.energy, energy, rtol=1e-12)
    np.testing.assert_allclose(found.charge, charge / (32 * np.pi**2), rtol=1e-10)
