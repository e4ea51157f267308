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
from unoptimised import shaken

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


def kernel(target, window, kind=Local):
    architecture = LocalArchitecture(leapfrog_steps=3, step_size=0.3, degree=2, radii=(0.0, 1.0, 2.0), window=window)
    trajectory = shaken(architecture.build(target, jax.random.key(0)), 0.1, 1)
    return DLHMC(target, kind(**{field.name: getattr(trajectory, field.name) for field in dataclasses.fields(Local)}))


@pytest.mark.statistical
@pytest.mark.parametrize("name", TARGETS)
def test_each_tile_is_accepted_or_rejected_exactly(name):
    """p below 1e-3 and a pull above 3.3 once in a thousand seeds each."""
    found = check_stationarity(kernel(TARGETS[name](), 1.2), steps=4, chains=4000)
    assert found.p_value > 1e-3
    assert abs(found.weight_pull) < 3.3
    assert 0.2 < found.acceptance < 0.99


class Overlapping(Local):
    """Windows that share plaquettes."""

    def propose_parts(self, key, target, x, v):
        tiles = Tiles(jax.random.randint(key, (2,), 0, jnp.asarray(target.sides)), target.sides, (2, 2))
        return self._run(target, x, v, tiles.place, tiles.periods, record=False)[0], tiles


@pytest.mark.statistical
def test_windows_that_overlap_are_found():
    found = check_stationarity(kernel(TARGETS["u1"](), 1.2, Overlapping), steps=4, chains=4000)
    assert found.p_value < 1e-6 or abs(found.weight_pull) > 5


def test_tiles_are_decided_one_by_one():
    """A chain moves in both windows, in one or in none."""
    target = U1((8, 4), 6.0)
    x = target.exact_draws().draw(jax.random.key(1), 64, jnp.dtype(jnp.float32))
    moving = kernel(target, 1.2)
    state, info = jax.jit(moving.step)(jax.random.key(2), moving.init(x))
    links = np.count_nonzero(np.abs(np.asarray(state.x - x)) > 1e-6, axis=(0, 1, 2))
    assert set(links) == {0, 12, 24}
    assert info.acceptance.shape == (64,)
