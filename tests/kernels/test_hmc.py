import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.errors import UserError
from dlhmc.kernels import HMC, State
from dlhmc.kernels.integrators import INTEGRATORS
from dlhmc.kernels.metropolis import decide
from dlhmc.kernels.tuning import StepSizeTuner
from dlhmc.theories.gauge.field import U1
from unoptimised import unoptimised

pytestmark = pytest.mark.statistical

step = eqx.filter_jit(lambda kernel, key, state: kernel.step(key, state))


@unoptimised
def start(target, chains=64, kind="hot"):
    return State.at(target, target.start(jax.random.key(0), kind, chains, jnp.dtype(jnp.float32)))


def test_small_steps_are_always_accepted():
    target = U1((4, 4), 2.0)
    _, info = step(HMC(target, 1e-3, 5), jax.random.key(1), start(target))
    assert bool(info.accepted.all())
    assert float(jnp.abs(info.energy_change).max()) < 1e-4


def test_rejected_chains_do_not_move():
    target = U1((4, 4), 3.0)
    state = start(target)
    new, info = step(HMC(target, 0.4, 5), jax.random.key(1), state)
    moved = np.any(np.asarray(new.x != state.x), axis=(0, 1, 2))
    np.testing.assert_array_equal(moved, info.accepted)
    assert 0 < moved.mean() < 1


def test_links_stay_wrapped():
    target = U1((4, 4), 1.0)
    state = start(target)
    kernel = HMC(target, 0.5, 20)
    for seed in range(5):
        state, _ = step(kernel, jax.random.key(seed), state)
    assert float(jnp.abs(state.x).max()) <= np.pi + 1e-5


@pytest.mark.parametrize("step_size", [np.inf, np.nan, 1e30])
def test_what_is_not_finite_is_rejected_and_counted(step_size):
    target = U1((4, 4), 2.0)
    state = start(target)
    new, info = step(HMC(target, 0.1, 3).with_step_size(jnp.float32(step_size)), jax.random.key(1), state)
    np.testing.assert_array_equal(new.x, state.x)
    assert bool(info.nonfinite.all())
    assert not bool(info.accepted.any())
    assert bool((info.acceptance == 0).all())


def test_decision():
    changes = jnp.asarray([-1.0, 0.0, 1e30, jnp.inf, -jnp.inf, jnp.nan], jnp.float32)
    decision = decide(jax.random.key(0), changes)
    assert decision.acceptance.tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert decision.accepted.tolist() == [True, True, False, False, False, False]
    assert decision.nonfinite.tolist() == [False, False, False, True, True, True]


def test_acceptance_rate_is_the_acceptance_probability():
    change = jnp.full(100_000, np.log(4.0), jnp.float32)
    accepted = int(decide(jax.random.key(3), change).accepted.sum())
    # Binomial with p = 1/4: 4 σ fails at a new seed with probability 6e-5.
    assert abs(accepted - 25_000) < 4 * np.sqrt(100_000 * 3 / 16)


def test_steps_and_sizes_do_not_recompile():
    target = U1((4, 4), 2.0)
    state = start(target)
    counted = jax.jit(lambda kernel, key, s: kernel.step(key, s))
    for beta, size, steps in ((1.0, 0.1, 3), (2.0, 0.2, 7), (3.0, 0.3, 20)):
        kernel = HMC(U1((4, 4), beta), size, steps)
        counted(kernel, jax.random.key(steps), state)
    assert counted._cache_size() == 1


draw = eqx.filter_jit(lambda draws, chains: draws.draw(jax.random.key(0), chains, jnp.dtype(jnp.float32)))


@eqx.filter_jit
def tuned_acceptance(kernel, x, trajectories, wanted):
    """Of as many trajectories as were used for tuning before."""

    def body(i, carry):
        state, tuner, total = carry
        tuning = i < trajectories
        key = jax.random.key(jnp.where(tuning, i, 10_000 + i - trajectories))
        state, info = kernel.with_step_size(jnp.where(tuning, tuner.step_size, tuner.result)).step(key, state)
        updated = tuner.update(info.acceptance, wanted)
        tuner = jax.tree.map(lambda new, old: jnp.where(tuning, new, old), updated, tuner)
        return state, tuner, total + jnp.where(tuning, 0, info.acceptance.mean())

    start = (kernel.init(x), StepSizeTuner.start(kernel.step_size), jnp.float32(0))
    return jax.lax.fori_loop(0, 2 * trajectories, body, start)[2] / trajectories.astype(jnp.float32)


@pytest.mark.parametrize("integrator", sorted(INTEGRATORS))
@pytest.mark.parametrize("chains", [4, 128])
@pytest.mark.parametrize("wanted", [pytest.param(0.65, marks=pytest.mark.slow), 0.8])
def test_tuned_step_size_gives_the_wanted_acceptance(integrator, chains, wanted):
    target = U1((8, 8), 5.0)
    kernel = HMC(target, 0.1, 10, INTEGRATORS[integrator])
    trajectories = jnp.int32(500 if chains < 100 else 200)
    acceptance = tuned_acceptance(kernel, draw(target.exact_draws(), chains), trajectories, jnp.float32(wanted))
    assert float(acceptance) == pytest.approx(wanted, abs=0.03)


def test_integrators_have_names():
    target = U1((4, 4), 2.0)
    assert HMC(target, 0.1, 5, "omelyan").integrator is INTEGRATORS["omelyan"]
    with pytest.raises(UserError, match="one of leapfrog, omelyan, omelyan4, not 'euler'"):
        HMC(target, 0.1, 5, "euler")
