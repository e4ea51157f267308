"""Algorithm 1: the loss, the schedules, and the guards."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dlhmc.kernels.metropolis import probability
from dlhmc.models.dense import DenseArchitecture
from dlhmc.targets.windows import Windows
from dlhmc.theories.gauge.field import U1
from dlhmc.theories.gauge.known import sine_charge
from dlhmc.theories.vectors.toys import Gaussian, GaussianMixture
from dlhmc.training.loss import Transition, action_loss, charge_loss, jump_loss
from dlhmc.training.schedule import Knots, learning_rate
from dlhmc.training.step import COLLAPSED, SKIPS_IN_A_ROW, Algorithm
from unoptimised import unoptimised

SEED = jnp.uint32(3)
CHAINS = 64
# The same optimiser and shapes in all tests: what differs between them does not compile again.
ADAM = optax.adam(optax.linear_schedule(1e-2, 1e-3, 200))


# So is the loss, which is spoiled where the coupling is impossible.
SPOILED = 1000.0


def loss(target, transition):
    return charge_loss(target, transition) * jnp.where(
        target.actions[0].coefficient == SPOILED, jnp.float32(jnp.nan), 1
    )


def algorithm(beta=2.0, gamma=None):
    return Algorithm(U1((4, 4), beta), gamma or Knots([(0, 1.0), (1, 1.0)]), loss, ADAM)


@functools.cache
def equilibrium():
    draws = U1((4, 4), 2.0).exact_draws()
    return jax.jit(lambda draws, key: draws.draw(key, CHAINS, jnp.float32))(draws, jax.random.key(5))


def begin(algorithm):
    architecture = DenseArchitecture(leapfrog_steps=2, hidden=(8,), rule="circle", step_size=0.2)
    return algorithm.begin(unoptimised(architecture.build)(algorithm.target, jax.random.key(0)), equilibrium())


step = eqx.filter_jit(lambda algorithm, index, state: algorithm.step(SEED, index, state))


def run(algorithm, state, steps, first=0):
    for index in range(first, first + steps):
        state, records = step(algorithm, jnp.int32(index), state)
    return state, records


def test_losses_by_hand():
    target = U1((4, 4), 2.0)
    x, y = (target.start(jax.random.key(seed), "hot", 5, jnp.float32) for seed in (0, 1))
    a = jnp.linspace(0, 1, 5, dtype=jnp.float32)
    transition = Transition(x, x, y, y, a)
    jump = np.asarray(sine_charge(y)) - np.asarray(sine_charge(x))
    np.testing.assert_allclose(charge_loss(target, transition), -np.asarray(a) * jump**2, rtol=1e-6)
    distance = np.asarray(target.geometry.difference(x, y)) ** 2
    np.testing.assert_allclose(jump_loss(target, transition), -np.asarray(a) * distance.sum((0, 1, 2)), rtol=1e-5)
    with pytest.raises(TypeError, match="no sectors to leave"):
        charge_loss(GaussianMixture(), transition)


def test_the_charge_of_a_window_moves_as_that_of_the_lattice():
    target = U1((3, 3), 2.0)
    x, other = (target.start(jax.random.key(seed), "hot", 5, jnp.float32) for seed in (0, 1))
    a = jnp.linspace(0.2, 1, 5, dtype=jnp.float32)
    windows = Windows.at_origin(target, 2, x)
    moved = windows.momenta(other)
    found = windows.each(lambda window, x, y: charge_loss(window, Transition(x, x, y, y, a)), moved, axis=-2)
    y = windows.pasted(x, moved)
    assert np.all(np.asarray(found) < 0)
    np.testing.assert_allclose(found, [charge_loss(target, Transition(x, x, y, y, a))], rtol=1e-4)


def test_the_loss_of_the_action():
    """S = x²/2 with two coordinates, of which one goes from 0 to 2 and is accepted once in four times."""
    target, x = Gaussian([1.0, 1.0]), jnp.zeros((2, 1))
    there = x.at[0].set(2.0)
    np.testing.assert_allclose(
        action_loss(target, Transition(x, x, there, x, jnp.asarray([0.25]))), -0.25 * 2**2 / 2, rtol=1e-6
    )


def test_acceptance_has_a_finite_gradient_everywhere():
    changes = jnp.asarray([-2.0, 0.5, jnp.inf, -jnp.inf, jnp.nan], jnp.float32)
    np.testing.assert_allclose(probability(changes), [1.0, np.exp(-0.5), 0, 0, 0], rtol=1e-6)
    gradient = jax.grad(lambda c: probability(c).sum())(changes)
    np.testing.assert_allclose(gradient, [0.0, -np.exp(-0.5), 0, 0, 0], rtol=1e-6)


def test_schedules():
    gamma = Knots([(0, 0.5), (100, 1.0)])
    assert [float(gamma(jnp.int32(t))) for t in (0, 50, 100, 500)] == [0.5, 0.75, 1.0, 1.0]
    assert not bool(gamma.finished(jnp.int32(99)))
    assert bool(gamma.finished(jnp.int32(100)))
    rate = learning_rate("cosine", 1e-2, 1000, 100)
    assert float(rate(0)) == 0.0
    assert float(rate(100)) == pytest.approx(1e-2)
    assert float(rate(1000)) == pytest.approx(5e-4)
    assert float(learning_rate("constant", 1e-2, 1000, 10)(1000)) == pytest.approx(1e-2)


def test_the_target_is_annealed():
    annealed = algorithm(gamma=Knots([(0, 0.2), (10, 1.0)]))
    _, first = run(annealed, begin(annealed), 1)
    assert float(first["gamma"]) == pytest.approx(0.2)
    assert float(annealed.target_at(jnp.int32(5)).gamma) == pytest.approx(0.6)


def test_a_later_stage_does_not_begin_with_a_collapse():
    """Its first step has a large number; its averages have seen nothing yet."""
    later = algorithm(gamma=Knots([(0, 0.2), (2000, 1.0)]))
    state, _ = run(later, begin(later), 1, first=1500)
    assert int(state.guard.restored) == 0


def test_training_lowers_the_loss():
    learner = algorithm()
    state = begin(learner)
    losses = []
    for index in range(200):
        state, records = step(learner, jnp.int32(index), state)
        losses.append(float(records["loss"]))
    # By a quarter to a half, against a scatter of less than a tenth: the first steps are those that have learned least.
    assert np.mean(losses[-100:]) < 1.2 * np.mean(losses[:20])


def test_masks_are_not_trained():
    learner = algorithm()
    before = begin(learner)
    after, _ = run(learner, before, 3)
    np.testing.assert_array_equal(after.trajectory.layers.mask, before.trajectory.layers.mask)
    assert not np.array_equal(after.trajectory.layers.log_step_x, before.trajectory.layers.log_step_x)


def test_a_gradient_that_is_not_finite_is_skipped_and_counted():
    spoiled = algorithm(SPOILED)
    before = begin(spoiled)
    after, _ = run(spoiled, before, SKIPS_IN_A_ROW)
    assert int(after.guard.skipped) == SKIPS_IN_A_ROW
    assert bool(after.guard.halted)
    for old, new in zip(jax.tree.leaves(before.trajectory), jax.tree.leaves(after.trajectory), strict=True):
        np.testing.assert_array_equal(old, new)
    assert bool(jnp.isfinite(after.x).all())


def spoiled_parameters(state, which, value):
    """One number of the parameters replaced."""
    arrays, static = eqx.partition(state.trajectory, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(arrays)
    leaf = np.array(leaves[which])
    leaf.flat[0] = value
    leaves[which] = jnp.asarray(leaf)
    return state._replace(trajectory=eqx.combine(jax.tree.unflatten(structure, leaves), static))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_parameters_that_are_not_finite_are_neither_trained_nor_kept(value):
    """Step 99 would keep them as good, because the acceptance was good until now."""
    learner = algorithm()
    start = begin(learner)
    healthy = start._replace(guard=start.guard._replace(acceptance=jnp.float32(0.9)))
    for which in range(len(jax.tree.leaves(eqx.filter(start.trajectory, eqx.is_inexact_array)))):
        state, records = run(learner, spoiled_parameters(healthy, which, value), 1, first=99)
        assert np.isfinite(records["loss"])
        assert bool(jnp.isfinite(state.x).all())
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.good))
        skipped = int(state.guard.skipped) == 1
        assert skipped or np.isfinite(records["gradient_norm"])
        moments = jax.tree.leaves(eqx.filter(state.optimiser, eqx.is_inexact_array))
        assert all(np.isfinite(leaf).all() for leaf in moments)


def test_good_parameters_are_kept():
    learner = algorithm()
    start = begin(learner)
    healthy = start._replace(guard=start.guard._replace(acceptance=jnp.float32(0.9)))
    state, _ = run(learner, healthy, 1, first=99)
    assert not np.array_equal(state.good.layers.log_step_x, start.good.layers.log_step_x)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_chain_that_is_not_finite_spoils_neither_the_others_nor_the_parameters(value):
    learner = algorithm()
    start = begin(learner)
    bad = start._replace(x=start.x.at[0, 1, 2, 5].set(value))
    state, records = run(learner, bad, 1)
    assert records["nonfinite"] == 1
    assert np.isfinite(records["loss"])
    others = np.delete(np.asarray(state.x), 5, axis=-1)
    assert np.isfinite(others).all()
    assert not np.array_equal(others, np.delete(np.asarray(start.x), 5, axis=-1))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(eqx.filter(state.trajectory, eqx.is_inexact_array)))


def test_a_collapse_restores_good_parameters_and_lowers_the_rate():
    learner = algorithm()
    state, _ = run(learner, begin(learner), 101)
    good = state.good
    # Steps so long that nothing is accepted any more.
    broken = eqx.tree_at(lambda s: s.trajectory.layers.log_step_x, state, jnp.full(2, 3.0, jnp.float32))
    broken = broken._replace(guard=broken.guard._replace(acceptance=jnp.float32(COLLAPSED)))
    after, _ = run(learner, broken, 2, first=101)
    assert int(after.guard.restored) >= 1
    assert float(after.guard.rate_factor) <= 0.5
    np.testing.assert_allclose(after.trajectory.layers.log_step_x, good.layers.log_step_x, atol=0.01)


def test_best_parameters_are_kept():
    learner = algorithm()
    state, _ = run(learner, begin(learner), 200)
    assert np.isfinite(float(state.guard.best_objective))
    assert not np.array_equal(state.best.layers.log_step_x, begin(learner).trajectory.layers.log_step_x)
