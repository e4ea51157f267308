"""Kernels keep and tell what they like; targets may have auxiliary fields, and forces with time scales of their own."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlhmc
from dlhmc.geometry import FlatSpace, PerChain
from dlhmc.kernels.integrators import INTEGRATORS, integrate
from dlhmc.kernels.metropolis import decide, select
from dlhmc.numerics import rng
from dlhmc.testing import check_kernel, check_ranks, check_stationarity, check_target

GAUSSIAN = dlhmc.Gaussian([1.0, 4.0])


class Cached(NamedTuple):
    """Configurations, and their action, which is not computed again."""

    x: jax.Array
    action: PerChain


class Told(NamedTuple):
    """What a step tells, with something of its own."""

    acceptance: PerChain
    accepted: jax.Array
    energy_change: PerChain
    nonfinite: jax.Array
    iterations: jax.Array


class Metropolis(dlhmc.Kernel):
    """A random walk that keeps the action of where it is."""

    target: dlhmc.Target

    def init(self, x):
        return Cached(x, self.target.action(x))

    def step(self, key, state):
        move_key, accept_key = jax.random.split(key)
        proposal = self.init(state.x + rng.normal(move_key, state.x.shape, state.x.dtype))
        decision = decide(accept_key, proposal.action - state.action)
        new = select(decision.accepted, proposal, state)
        iterations = jnp.full(state.action.shape, 7, jnp.int32)
        change = proposal.action - state.action
        return new, Told(decision.acceptance, decision.accepted, change, decision.nonfinite, iterations)


def test_a_kernel_with_a_state_and_an_info_of_its_own(tmp_path):
    kernel = Metropolis(GAUSSIAN)
    assert check_kernel(kernel, chains=2000).passed == ("step", "stationarity")
    amount = {"chains": 8, "trajectories": 30, "warmup": 5, "progress": False}
    samples = dlhmc.sample(kernel, out=tmp_path / "run", **amount)
    assert np.all(samples.data["iterations"] == 7)
    assert "iterations" not in samples.observables
    assert samples.summary()["kernel_figures"] == {"iterations": 7}
    with np.load(tmp_path / "run" / "checkpoints" / "35.npz") as saved:
        assert {".state.x", ".state.action"} <= set(saved.files)
    (tmp_path / "run" / "checkpoints" / "35.npz").unlink()
    again = dlhmc.sample(kernel, out=tmp_path / "run", resume=True, **amount)
    assert again.data.equals(samples.data)


def test_kernels_of_the_package_pass_their_own_check():
    moves = dlhmc.Alternating(dlhmc.HMC(GAUSSIAN, 0.3, 4), dlhmc.HMC(GAUSSIAN, 0.5), 2)
    assert check_kernel(moves, chains=2000).passed == ("step", "stationarity")


def test_kernels_work_under_plain_jit():
    """As users of BlackJAX write it; another kernel is another program."""
    state = dlhmc.HMC(GAUSSIAN, 0.2, 3).init(jnp.zeros((2, 4)))
    ends = [jax.jit(dlhmc.HMC(GAUSSIAN, size, 3).step)(jax.random.key(0), state)[0].x for size in (0.2, 0.2, 0.3)]
    np.testing.assert_array_equal(ends[0], ends[1])
    assert not np.array_equal(ends[0], ends[2])


class Halo(dlhmc.Action):
    """(φ − x)²/2 with φ drawn anew, given x: without φ nothing remains of it."""

    auxiliary: ClassVar = True

    phi: jax.Array | None = None

    def terms(self, x):
        return 0.5 * (self.phi - x) ** 2

    @rng.by_chain
    def refresh(self, key, gamma, x):
        drawn = rng.normal(key, x.shape, x.dtype) / jnp.sqrt(gamma)
        return type(self)(x + drawn), 0.5 * drawn**2


class Stale(Halo):
    """The auxiliary field is drawn once and for all."""

    def refresh(self, key, gamma, x):
        drawn = type(self)(jnp.full_like(x, 3))
        return drawn, drawn.terms(x)


class Well(dlhmc.Action):
    """x²/2."""

    def terms(self, x):
        return 0.5 * x * x


class Draws(eqx.Module):
    def draw(self, key, chains, dtype):
        return rng.normal(key, (1, chains), dtype)


KNOWN = dlhmc.Known(
    moments={"x_squared": dlhmc.Moment("x", 2)},
    slow=lambda target: {"x": 0.0},
    exact=lambda target: {"x_squared": 1.0},
    exact_draws=lambda target: Draws(),
    guided=lambda target: (put_together(Well()), put_together(Well())),
)


def put_together(*actions):
    return dlhmc.Target(FlatSpace((1,)), actions, lambda x: {"x": x[0]}, KNOWN)


@pytest.mark.slow
@pytest.mark.statistical
def test_auxiliary_fields_are_refreshed_with_the_momenta():
    assert check_target(put_together(Halo(), Well())).skipped == ()
    kernel = dlhmc.HMC(put_together(Halo(), Well()), 0.7, 3, inner_steps=2)
    assert check_ranks(kernel, chains=4001).p_value > 1e-3  # an exact kernel fails at a new seed with this probability
    assert check_stationarity(kernel, chains=4000).p_value > 1e-3
    assert check_stationarity(dlhmc.HMC(put_together(Stale(), Well()), 0.7, 3), chains=4000).p_value < 1e-9


@pytest.mark.usefixtures("x64")
def test_a_fast_force_inside_of_a_slow_one():
    """The nested scheme is reversible and of second order, and costs the slow force no more than it did."""
    target = put_together(Halo(jnp.full((1, 3), 0.4)), Well())
    x, v = jnp.asarray([[0.3, -1.0, 2.0]]), jnp.asarray([[1.0, 0.2, -0.7]])

    def energy(x, v):
        return target.action(x) + 0.5 * jnp.sum(v * v, axis=0)

    @eqx.filter_jit
    def trajectory(x, v, steps, inner):
        return integrate(target, INTEGRATORS["leapfrog"], x, v, 1 / steps.astype(x.dtype), steps, inner)[:2]

    errors = []
    for steps in (10, 20):
        there = trajectory(x, v, jnp.int32(steps), 4)
        back = trajectory(there[0], -there[1], jnp.int32(steps), 4)
        np.testing.assert_allclose(back[0], x, atol=1e-13)
        errors.append(np.abs(energy(*there) - energy(x, v)).max())
    assert 3.5 < errors[0] / errors[1] < 4.5
    plain = np.abs(energy(*trajectory(x, v, jnp.int32(10), 1)) - energy(x, v)).max()
    assert errors[0] < plain
