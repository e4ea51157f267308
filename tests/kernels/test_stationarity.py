"""Every kernel leaves exact configurations exactly stationary, and broken ones do not."""

import math

import jax
import jax.numpy as jnp
import pytest

from dlhmc.geometry.contract import sum_sites
from dlhmc.kernels import HMC, Exact, Info, State
from dlhmc.kernels.integrators import INTEGRATORS, integrate
from dlhmc.kernels.metropolis import select
from dlhmc.numerics import rng
from dlhmc.testing import check_stationarity
from dlhmc.theories.gauge.field import U1
from dlhmc.theories.u1.hits import InstantonHits

pytestmark = pytest.mark.statistical

# An exact kernel fails each χ² with probability 1e-3 and each weight test with 3e-3, at a new seed.
P_VALUE = 1e-3
# A broken kernel must be beyond any doubt.
BROKEN = 1e-9


def unit(target):
    """A step size with an acceptance that depends little on lattice and coupling."""
    return 1.2 / float(target.actions[0].coefficient) ** 0.5 / math.prod(target.geometry.elements[1:]) ** 0.25


def hmc(target, step_size, steps=5, integrator="leapfrog"):
    return HMC(target, step_size, steps, INTEGRATORS[integrator])


# Of one lattice, so that kernels are compiled once for both couplings.
TARGETS = {
    "6x4 beta 1": lambda: U1((6, 4), 1.0),
    "6x4 beta 3": lambda: U1((6, 4), 3.0),
    "8x8 beta 5": lambda: U1((8, 8), 5.0),
}
# Step sizes are large on purpose: acceptances of a half or so make accept/reject matter.
KERNELS = {
    "leapfrog": lambda target: hmc(target, unit(target)),
    "one leapfrog step": lambda target: hmc(target, unit(target), 1),
    "omelyan": lambda target: hmc(target, 1.7 * unit(target), 3, "omelyan"),
    "hits": lambda target: InstantonHits(hmc(target, unit(target)), 2),
    "exact": lambda target: Exact(target, target.exact_draws()),
    "exact with hits": lambda target: InstantonHits(Exact(target, target.exact_draws()), 1),
}
QUICK = ("hits",)


# The largest lattice takes longest to compile, and finds no more.
ALL = [
    pytest.param(target, kernel, marks=pytest.mark.slow if target == "8x8 beta 5" and kernel not in QUICK else ())
    for target in TARGETS
    for kernel in KERNELS
]


@pytest.mark.parametrize(("target", "kernel"), ALL)
def test_exact_configurations_stay_exact(kernel, target):
    result = check_stationarity(KERNELS[kernel](TARGETS[target]()), seed=1)
    assert result.p_value > P_VALUE, result
    assert abs(result.weight_pull) < 3, result
    assert kernel.startswith("exact") or 0.3 < result.acceptance < 0.95, result


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "kernel", ["leapfrog", *(pytest.param(name, marks=pytest.mark.slow) for name in ("hits", "exact"))]
)
def test_in_double_precision(kernel):
    result = check_stationarity(KERNELS[kernel](TARGETS["6x4 beta 3"]()), seed=2)
    assert result.p_value > P_VALUE, result


def test_annealed_target():
    target = U1((6, 4), 4.0, gamma=0.5)
    result = check_stationarity(hmc(target, 0.4), seed=3)
    assert result.p_value > P_VALUE, result


class Faulty(HMC):
    """HMC with faults that are numbers, so that one program has all of them; without arguments it has none."""

    power: jax.Array
    kinetic: jax.Array
    stale: jax.Array

    def __init__(self, target, *, power=1.0, kinetic=1.0, stale=False):
        super().__init__(target, unit(target), 5)
        self.power, self.kinetic, self.stale = jnp.float32(power), jnp.float32(kinetic), jnp.asarray(stale)

    def step(self, key, state):
        momentum_key, accept_key = jax.random.split(key)
        momentum_key = jnp.where(self.stale, jax.random.key(123), momentum_key)
        x, geometry = state.x, self.target.geometry
        v = geometry.momentum(momentum_key, x)
        x_new, v_new, _ = integrate(self.target, self.integrator, x, v, self.step_size, self.steps)
        kinetic = sum_sites(geometry.local_kinetic(v_new)) - sum_sites(geometry.local_kinetic(v))
        change = self.target.action(x_new) - self.target.action(x) + self.kinetic * kinetic
        accepted = rng.uniform(accept_key, change.shape, change.dtype) < jnp.exp(-self.power * change)
        info = Info(jnp.minimum(1, jnp.exp(-change)), accepted, change, jnp.zeros_like(accepted))
        return State.at(self.target, select(accepted, x_new, x)), info


FAULTS = {
    "the momentum is never refreshed": {"stale": True},
    "the sign of the exponent": {"power": -1.0},
    "always accepts": {"power": 0.0},
    "the wrong temperature": {"power": 0.8},
    "no kinetic energy in the exponent": {"kinetic": 0.0},
}


def check_faulty(**fault):
    return check_stationarity(Faulty(TARGETS["6x4 beta 3"](), **fault), steps=20, seed=4)


def test_the_scaffold_of_the_broken_kernels_is_sound():
    assert check_faulty().p_value > P_VALUE


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_kernels_are_found_out(fault):
    result = check_faulty(**FAULTS[fault])
    assert result.p_value < BROKEN, result
