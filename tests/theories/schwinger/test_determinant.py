"""The determinant in double precision, whatever the precision of the run, and kept where it is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc import Alternating, Schwinger
from dlhmc.fermions.determinant import log_determinant
from dlhmc.fermions.dirac import Dirac
from dlhmc.geometry.contract import sum_sites
from dlhmc.targets.contract import action_change
from dlhmc.theories.gauge.fermions import log_weight, quenched, with_determinant
from dlhmc.theories.u1.hits import Hit
from unoptimised import unoptimised

TARGET = Schwinger((4, 8), 3.0, -0.05)
MASS = TARGET.actions[0].mass
X = np.random.default_rng(0).uniform(-1, 1, (2, 4, 8, 6)).astype(np.float32)


def test_changes_are_those_of_double_precision_in_a_single_precision_run():
    """Rounded to single precision, log det of this lattice would be off by 1e-6, and by 1e-5 on larger ones."""
    action = unoptimised(lambda x: (with_determinant(TARGET).terms(x).value[0], jax.grad(total)(x)))

    def total(x):
        return jnp.sum(log_determinant(x, MASS))

    def reference(x):
        logarithm = Dirac.at(x, MASS).log_determinant()
        return jnp.sum(logarithm), logarithm

    terms, derivative = action(jnp.asarray(X))
    found = sum_sites(jnp.roll(terms, 1, axis=-1) - terms)
    assert found.dtype == jnp.float32
    with jax.enable_x64(True):
        gradient, logarithm = unoptimised(jax.grad(reference, has_aux=True))(jnp.asarray(X, jnp.float64))
        gradient, logarithm = np.asarray(gradient), np.asarray(logarithm)
    np.testing.assert_allclose(found, -2 * (np.roll(logarithm, 1) - logarithm), rtol=2e-7, atol=2e-8)
    # Training and forces see the derivative, in single precision.
    np.testing.assert_allclose(derivative, gradient, atol=1e-5 * np.abs(gradient).max())


@pytest.mark.usefixtures("x64")
def test_derivatives_are_those_of_the_dense_matrix():
    """First and second ones, in the mass, too; and the value is the same where a derivative is asked for."""
    generator = np.random.default_rng(1)
    at = jnp.asarray(generator.uniform(-3, 3, (2, 2, 4, 2))), jnp.asarray(-0.2)
    along = jnp.asarray(generator.normal(size=(2, 2, 4, 2))), jnp.asarray(0.7)

    @unoptimised
    def derivatives(logarithm):
        first = jax.value_and_grad(lambda *at: jnp.sum(logarithm(*at)), argnums=(0, 1))
        return jax.jvp(first, at, along)

    found = derivatives(log_determinant)
    expected = derivatives(lambda x, mass: Dirac.at(x, mass).log_determinant())
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_what_is_kept_is_the_action_of_where_the_chains_are():
    """Of the proposal or of the start, chain by chain; and computed anew once another kernel has moved the chains."""
    other, hit, key = Hit(quenched(TARGET)), Hit(with_determinant(TARGET)), jax.random.key(3)
    step, elsewhere, anew = (unoptimised(f) for f in (hit.step, other.step, hit.init))
    state, info = unoptimised(Alternating(other, hit, 3).step)(key, other.init(jnp.asarray(X)))
    first, moves = jax.random.split(key)
    alone, told = elsewhere(first, other.init(jnp.asarray(X)))
    taken, accepted = [told.accepted], np.zeros(6)
    for index in range(3):
        after, told = step(jax.random.fold_in(moves, index), anew(alone.x))
        np.testing.assert_allclose(action_change(after.terms, anew(after.x).terms, after.x), 0, atol=1e-4)
        taken, accepted, alone = [*taken, told.accepted], accepted + np.asarray(told.accepted) / 3, after
    # Some moved and some did not, in the first kernel and in the hits: a stale action would show.
    assert all(0 < np.sum(some) < np.size(some) for some in (taken[0], taken[1:]))
    np.testing.assert_allclose(state.x, alone.x, atol=1e-5)
    np.testing.assert_allclose(info.accepted_moves["moves"], accepted, atol=1e-6)


def test_starts_are_draws_of_the_gauge_theory_picked_by_the_determinant():
    """With so many flavours nothing but the best of its six draws is left for each chain."""
    heavy = Schwinger((4, 4), 2.0, -0.1, flavours=1000)
    dtype, key = jnp.dtype(jnp.float32), jax.random.key(4)
    drawn = unoptimised(lambda key: quenched(heavy).exact_draws().draw(jax.random.split(key)[0], 24, dtype))(key)
    picked = np.asarray(unoptimised(lambda key: heavy.known.approximate_draws(heavy).draw(key, 4, dtype))(key))
    weights = np.asarray(unoptimised(lambda x: log_weight(heavy, x))(drawn)).reshape(6, 4)
    np.testing.assert_allclose(picked, np.asarray(drawn)[..., weights.argmax(axis=0) * 4 + np.arange(4)], atol=1e-5)
