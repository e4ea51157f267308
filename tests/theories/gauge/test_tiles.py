"""Tiles of a periodic lattice: what belongs to which, and accept/reject for each of them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc import DLHMC, U1, wilson
from dlhmc.testing import check_stationarity
from dlhmc.theories.gauge import radial
from dlhmc.theories.gauge.architectures import LocalArchitecture
from dlhmc.theories.gauge.local import Local
from dlhmc.theories.gauge.tiles import Tiles, tiles_along
from unoptimised import shaken, unoptimised

TARGETS = {"u1": lambda: U1((8, 4), 2.0), "su2": lambda: wilson("su2", (4, 8), 4.0)}


def test_as_many_tiles_as_share_no_plaquette():
    """Not one more: with a tile more along an axis, two windows would see a plaquette in common."""
    assert tiles_along((16, 32), 2.6) == (2, 4)
    assert tiles_along((16, 32), 2.5) == (3, 6)
    assert tiles_along((9, 15), 0.9) == (3, 5)
    assert tiles_along((7, 4), 1.0) == (2, 1)
    assert tiles_along((6, 6), float("inf")) == (1, 1)
    for window in (0.9, 1.2, 1.87, 2.0, 2.4, 2.65, 3.1):
        numbers = tiles_along((32, 32), window)
        alone = plaquettes_moved(window, (1, 1)).sum()
        assert (plaquettes_moved(window, numbers) == alone).all()
        assert (plaquettes_moved(window, (numbers[0] + 1, 1)) != alone).any()


def plaquettes_moved(window, numbers):
    """In each tile of a lattice of 32×32."""
    x, y = np.asarray(radial.link_distances((32, 32), (0, 0), numbers)) < window
    moved = x | np.roll(x, -1, axis=1) | y | np.roll(y, -1, axis=0)
    tiles = Tiles(jnp.zeros(2, jnp.int32), (32, 32), numbers)
    return np.asarray(tiles.total(jnp.asarray(moved[..., None].astype(int))))


@pytest.mark.parametrize("place", [(0, 0), (3, 5), (7, 1)])
def test_sums_over_tiles(place):
    """Two equal tiles, and three of 3, 2 and 2 sites."""
    tiles = Tiles(jnp.asarray(place), (8, 7), (2, 3))
    numbers = np.random.default_rng(1).integers(0, 100, (2, 8, 7, 3))
    sums = np.zeros((2, 3, 3))
    of_site = np.zeros((8, 7, 3))
    for i in range(8):
        for j in range(7):
            # The tile around the place begins 2 and 1 sites before it; the middles of the others are 2 and 4 away.
            tile = (i - place[0] + 2) % 8 // 4, (0, 0, 1, 1, 2, 2, 2)[(j - place[1] + 1) % 7]
            sums[tile] += numbers[:, i, j].sum(axis=0)
            of_site[i, j] = 10 * tile[0] + tile[1]
    np.testing.assert_array_equal(tiles.total(jnp.asarray(numbers)), sums)
    names = jnp.broadcast_to(10 * jnp.arange(2)[:, None, None] + jnp.arange(3)[:, None], (2, 3, 3))
    np.testing.assert_array_equal(tiles.spread(names), of_site)


def kernel(target, window, kind=Local, free=False):
    architecture = LocalArchitecture(3, 0.3, degree=2, radii=(0.0, 1.0, 2.0), window=window, free=free)
    trajectory = shaken(architecture.build(target, jax.random.key(0)), 0.1, 1)
    return DLHMC(target, kind(**{field.name: getattr(trajectory, field.name) for field in dataclasses.fields(Local)}))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "free"), [*(pytest.param(name, False, marks=pytest.mark.slow) for name in ("u1", "su2")), ("u1", True)]
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
        tiles = Tiles(jax.random.randint(key, (2,), 0, jnp.asarray(target.sides)), target.sides, (4, 2))
        return self._run(target, x, v, tiles.place, tiles.numbers, record=False)[0], tiles


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


@pytest.mark.parametrize(("sides", "window"), [((9, 14), 2.9), ((7, 6, 4), 0.9)])
def test_a_window_does_not_see_the_others(sides, window, x64):
    """With all windows but one left out, its links and energy are the same; with unequal tiles and in 3D, too."""
    target = U1(sides, 2.0) if len(sides) == 2 else wilson("u1", sides, 2.0)
    trajectory = kernel(target, window).trajectory
    x = target.start(jax.random.key(1), "hot", 2, jnp.dtype(jnp.float64))
    v = target.geometry.momentum(jax.random.key(2), 2, jnp.dtype(jnp.float64))
    propose = unoptimised(lambda x, v: trajectory.propose_parts(jax.random.key(3), target, x, v))
    place = propose(x, v)[1].place
    end = propose(x, v)[0]
    tiles = Tiles(place, sides, tiles_along(sides, window))
    alone = unoptimised(lambda x, v: trajectory._run(target, x, v, place, record=False)[0])(x, v)
    here = np.zeros([*tiles.numbers, 1])
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
