"""Every kernel leaves exact configurations exactly stationary, and broken ones do not."""

import jax
import jax.numpy as jnp
import pytest

from dlhmc.kernels import HMC, Exact, State
from dlhmc.kernels.integrators import INTEGRATORS, integrate
from dlhmc.kernels.metropolis import select
from dlhmc.numerics import rng
from dlhmc.targets import energy_change
from dlhmc.testing import check_stationarity
from dlhmc.theories.u1.hits import InstantonHits
from dlhmc.theories.u1.wilson import U1

pytestmark = pytest.mark.statistical

# An exact kernel fails each χ² with probability 1e-3 and each weight test with 3e-3, at a new seed.
P_VALUE = 1e-3
# A broken kernel must be beyond any doubt.
BROKEN = 1e-9


def unit(target):
    """A step size with an acceptance that depends little on lattice and coupling."""
    return 1.2 / float(target.beta) ** 0.5 / target.volume**0.25


def hmc(target, step_size, steps=5, integrator="leapfrog"):
    return HMC(target, step_size, steps, INTEGRATORS[integrator])


TARGETS = {
    "4x4 beta 1": lambda: U1((4, 4), 1.0),
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
    target = U1((4, 6), 4.0, gamma=0.5)
    result = check_stationarity(hmc(target, 0.4), seed=3)
    assert result.p_value > P_VALUE, result


class StaleMomentum(HMC):
    """Never refreshes the momentum."""

    def step(self, key, state):
        x = state.x
        v = self.target.geometry.momentum(jax.random.key(123), x.shape[-1], x.dtype)
        x_new, v_new, _ = integrate(self.target, self.integrator, x, v, self.step_size, self.steps)
        change = energy_change(self.target, (x, v), (x_new, v_new))
        _, info = super().step(key, state)
        accepted = rng.uniform(key, change.shape, change.dtype) < jnp.exp(-change)
        return State(select(accepted, x_new, x)), info


class Decides(HMC):
    """HMC with an accept/reject of its own."""

    def accepts(self, u, change):
        raise NotImplementedError

    def step(self, key, state):
        momentum_key, accept_key = jax.random.split(key)
        v = self.target.geometry.momentum(momentum_key, state.x.shape[-1], state.x.dtype)
        x, w, _ = integrate(self.target, self.integrator, state.x, v, self.step_size, self.steps)
        change = energy_change(self.target, (state.x, v), (x, w))
        accepted = self.accepts(rng.uniform(accept_key, change.shape, change.dtype), change)
        _, info = super().step(key, state)
        return State(select(accepted, x, state.x)), info


class RightDecision(Decides):
    """Not broken: shows that the scaffold of the broken ones is sound."""

    def accepts(self, u, change):
        return u < jnp.exp(-change)


class FlippedSign(Decides):
    def accepts(self, u, change):
        return u < jnp.exp(change)


class AlwaysAccepts(Decides):
    def accepts(self, u, change):
        return u <= 1


class WrongTemperature(Decides):
    def accepts(self, u, change):
        return u < jnp.exp(-0.8 * change)


class PotentialOnly(HMC):
    """Forgets the kinetic energy in ΔH."""

    def step(self, key, state):
        momentum_key, accept_key = jax.random.split(key)
        v = self.target.geometry.momentum(momentum_key, state.x.shape[-1], state.x.dtype)
        x, _, _ = integrate(self.target, self.integrator, state.x, v, self.step_size, self.steps)
        change = self.target.action(x) - self.target.action(state.x)
        _, info = super().step(key, state)
        accepted = rng.uniform(accept_key, change.shape, change.dtype) < jnp.exp(-change)
        return State(select(accepted, x, state.x)), info


def check_class(kind):
    target = TARGETS["6x4 beta 3"]()
    return check_stationarity(kind(target, unit(target), 5), steps=20, seed=4)


def test_the_scaffold_of_the_broken_kernels_is_sound():
    assert check_class(RightDecision).p_value > P_VALUE


@pytest.mark.parametrize("kind", [StaleMomentum, FlippedSign, AlwaysAccepts, WrongTemperature, PotentialOnly])
def test_broken_kernels_are_found_out(kind):
    result = check_class(kind)
    assert result.p_value < BROKEN, result
