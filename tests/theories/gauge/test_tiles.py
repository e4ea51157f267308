"""Tiles of a periodic lattice: what belongs to which, and accept/reject for each of them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc import DLHMC, U1, wilson
from dlhmc.testing import check_stationarity
from dlhmc.theories.gauge.architectures import LocalArchitecture
from dlhmc.theories.gauge.local import Local
from dlhmc.theories.gauge.tiles import Tiles, periods
from unoptimised import shaken, unoptimised

TARGETS = {"u1": lambda: U1((8, 4), 2.0), "su2": lambda: wilson("su2", (4, 8), 4.0)}


def test_sides_of_tiles():
    """Links closer than the window have all their plaquettes within half a step more."""
    assert periods((16, 32), 2.6) == (8, 8)
    assert periods((16, 32), 3.5) == (16, 16)
    assert periods((9, 15), 0.9) == (3, 3)
    assert periods((7, 4), 1.0) == (7, 4)
    assert periods((6, 6), float("inf")) == (6, 6)


@pytest.mark.parametrize("place", [(0, 0), (3, 5), (7, 1)])
def test_sums_over_tiles(place):
    tiles = Tiles(jnp.asarray(place), (8, 6), (4, 3))
    numbers = np.random.default_rng(1).integers(0, 100, (2, 8, 6, 3))
    sums = np.zeros((2, 2, 3))
    of_site = np.zeros((8, 6, 3))
    for i in range(8):
        for j in range(6):
            # The tile around the place reaches from 2 and 1 sites before it.
            tile = (i - place[0] + 2) % 8 // 4, (j - place[1] + 1) % 6 // 3
            sums[tile] += numbers[:, i, j].sum(axis=0)
            of_site[i, j] = 10 * tile[0] + tile[1]
    np.testing.assert_array_equal(tiles.total(jnp.asarray(numbers)), sums)
    names = jnp.broadcast_to(10 * jnp.arange(2)[:, None, None] + jnp.arange(2)[:, None], (2, 2, 3))
    np.testing.assert_array_equal(tiles.spread(names), of_site)


def kernel(target, window, kind=Local, free=False):
    architecture = LocalArchitecture(3, 0.3, degree=2, radii=(0.0, 1.0, 2.0), window=window, free=free)
    trajectory = shaken(architecture.build(target, jax.random.key(0)), 0.1, 1)
    return DLHMC(target, kind(**{field.name: getattr(trajectory, field.name) for field in dataclasses.fields(Local)}))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "free"), [("u1", False), pytest.param("su2", False, marks=pytest.mark.slow), ("u1", True)]
)
def test_each_tile_is_accepted_or_rejected_exactly(name, free):
    """p below 1e-3 and a pull above 3.3 once in a thousand seeds each."""
    found = check_stationarity(kernel(TARGETS[name](), 1.2, free=free), steps=4, chains=4000)
    assert found.p_value > 1e-3
    assert abs(found.weight_pull) < 3.3
    assert 0.2 < found.acceptance < 0.99


class Overlapping(Local):
    """Windows that share plaquettes."""

    def propose_parts(self, key, target, x, v):
        tiles = Tiles(jax.random.randint(key, (2,), 0, jnp.asarray(target.sides)), target.sides, (2, 2))
        return self._run(target, x, v, tiles.place, tiles.periods, record=False)[0], tiles


class JacobianOfAll(Local):
    """Each tile is charged the Jacobian of all of them."""

    def propose_parts(self, key, target, x, v):
        end, tiles = super().propose_parts(key, target, x, v)
        return end._replace(log_jacobian=tiles.number * end.log_jacobian), tiles


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("kind", "free"), [(Overlapping, False), pytest.param(JacobianOfAll, True, marks=pytest.mark.slow)]
)
def test_broken_tiles_are_found(kind, free):
    found = check_stationarity(kernel(TARGETS["u1"](), 1.2, kind, free), steps=4, chains=4000)
    assert found.p_value < 1e-6 or abs(found.weight_pull) > 5


class Rectangles(U1):
    """A term that reaches farther than a plaquette."""

    def local_action(self, x):
        return super().local_action(x) + 0.1 * jnp.cos(x[0] + jnp.roll(x[0], -1, axis=0))


class Auxiliary(U1):
    """Fields that are drawn with the momenta."""

    def refresh(self, key, x):
        return self


@pytest.mark.parametrize(("kind", "apart"), [(U1, True), (Rectangles, False), (Auxiliary, False)])
def test_windows_are_apart_for_the_action_of_plaquettes_only(kind, apart):
    """All else is accepted or rejected as a whole, which is exact for every action."""
    target = kind((8, 4), 2.0)
    x, v = jnp.zeros((2, 8, 4, 1)), jnp.ones((2, 8, 4, 1))
    found = kernel(target, 1.2).trajectory.propose_parts(jax.random.key(0), target, x, v)
    assert (found is not None) == apart


@pytest.mark.parametrize(("sides", "window"), [((9, 14), 2.9), ((8, 6, 4), 0.9)])
def test_a_window_does_not_see_the_others(sides, window, x64):
    """With all windows but one left out, its links and its energy are the same; odd sides and three dimensions, too."""
    target = U1(sides, 2.0) if len(sides) == 2 else wilson("u1", sides, 2.0)
    trajectory = kernel(target, window).trajectory
    x = target.start(jax.random.key(1), "hot", 2, jnp.dtype(jnp.float64))
    v = target.geometry.momentum(jax.random.key(2), 2, jnp.dtype(jnp.float64))
    propose = unoptimised(lambda x, v: trajectory.propose_parts(jax.random.key(3), target, x, v))
    place, parts = propose(x, v)[1].place, periods(sides, window)
    end = propose(x, v)[0]
    tiles = Tiles(place, sides, parts)
    alone = unoptimised(lambda x, v: trajectory._run(target, x, v, place, record=False)[0])(x, v)
    here = np.zeros([side // part for side, part in zip(sides, parts, strict=True)] + [1])
    here[(0,) * here.ndim] = 1
    inside = np.asarray(tiles.spread(jnp.asarray(here))) > 0
    np.testing.assert_allclose(alone.x, np.where(inside, end.x, x), atol=1e-12)

    def energy(phase):
        action = target.local_action(phase.x) - target.local_action(x)
        return action, target.geometry.local_kinetic(phase.v) - target.geometry.local_kinetic(v)

    first = (0,) * len(sides)
    for of_all, of_one in zip(energy(end), energy(alone), strict=True):
        np.testing.assert_allclose(tiles.total(of_all)[first], tiles.total(of_one)[first], atol=1e-12)
        elsewhere = np.array(tiles.total(of_one))
        elsewhere[first] = 0
        assert not elsewhere.any()


def test_a_number_that_is_not_finite_rejects_its_tile_alone():
    target = U1((8, 4), 2.0)
    x = target.exact_draws().draw(jax.random.key(1), 64, jnp.dtype(jnp.float32))
    moving = kernel(target, 1.2)
    v = target.geometry.momentum(jax.random.key(2), 64, x.dtype)
    end, tiles = moving.trajectory.propose_parts(jax.random.key(3), target, x, v)
    spoilt = end._replace(x=end.x.at[0, int(tiles.place[0]), int(tiles.place[1])].set(jnp.nan))
    state, info = moving._decide_parts(jax.random.key(4), v, x, spoilt, tiles)
    assert np.isfinite(state.x).all()
    assert info.nonfinite.all()
    assert np.isnan(info.energy_change).all()
    assert not info.accepted.any()
    assert (np.asarray(state.x) != np.asarray(x)).any()


def test_tiles_are_decided_one_by_one():
    """A chain moves in both windows, in one or in none."""
    target = U1((8, 4), 6.0)
    x = target.exact_draws().draw(jax.random.key(1), 64, jnp.dtype(jnp.float32))
    moving = kernel(target, 1.2)
    state, info = jax.jit(moving.step)(jax.random.key(2), moving.init(x))
    links = np.count_nonzero(np.abs(np.asarray(state.x - x)) > 1e-6, axis=(0, 1, 2))
    assert set(links) == {0, 12, 24}
    assert info.acceptance.shape == (64,)
