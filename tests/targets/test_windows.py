"""Windows: where they lie, what is cut and pasted, and that inside of them is the distribution of the whole lattice."""

import dataclasses
import itertools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc import CPN, DLHMC, HMC, GaugeField, Gaussian, Plaquette, UserError, build_trajectory, improved, wilson
from dlhmc.lattice.loops import plaquettes
from dlhmc.targets.windows import Layout, Windows, layout_for, resized, window_in, window_of, windowed
from dlhmc.theories.gauge.field import U1
from unoptimised import unoptimised


class Rectangles(Plaquette):
    """Cells that reach two sites far: rectangles of two plaquettes in both directions, beside the plaquettes."""

    reach: ClassVar[int] = 2

    def _angles(self, x):
        p = plaquettes(x)
        return jnp.stack([p, p + jnp.roll(p, -1, axis=0), p + jnp.roll(p, -1, axis=1)])

    def terms(self, x):
        return self.coefficient.astype(x.dtype) * (1 - jnp.cos(self._angles(x)))

    def force(self, geometry, x):
        return jax.grad(lambda y: jnp.sum(self.terms(y)))(x)

    def cells_of(self, elements):
        (p,) = super().cells_of(elements)
        return np.stack([p, p | np.roll(p, -1, axis=0), p | np.roll(p, -1, axis=1)])

    def numbers(self, geometry, x):
        return jnp.sin(self._angles(x))[None]

    def pushed_force(self, geometry, x, weights, pushes):
        """The weights are held fixed."""
        return jax.grad(lambda y: jnp.sum(weights[0] * self.terms(y) + pushes[0] * self._angles(y)))(x)


def rectangles(sides):
    return GaugeField("u1", sides, [Rectangles(2.0)])


# Windows in the middle of a lattice, around its edges, as large as it or smaller by a cell.
CASES = {
    "u1": lambda: (U1((8, 8), 2.0), 3),
    "u1, odd": lambda: (U1((7, 9), 2.0), 3),
    "u1, all of it": lambda: (U1((4, 4), 2.0), 4),
    "u1, all but a cell, and all": lambda: (U1((5, 4), 2.0), 4),
    "u1, smallest": lambda: (U1((2, 3), 2.0), 2),
    "rectangles": lambda: (rectangles((9, 8)), 3),
    "rectangles, all but a cell": lambda: (rectangles((4, 5)), 3),
    "u1 in three dimensions": lambda: (wilson("u1", (4, 3, 5), 2.0), 2),
    "u1 with rectangles": lambda: (improved("u1", (5, 7), 2.0, "iwasaki"), 2),
    "u1 with rectangles in three dimensions": lambda: (improved("u1", (4, 3, 6), 2.0, "symanzik"), 2),
    "u2": lambda: (wilson("u2", (3, 4), 5.0), 3),
    "u2 with rectangles": lambda: (improved("u2", (4, 6), 5.0, "dbw2"), 2),
    "su3 with rectangles": lambda: (improved("su3", (3, 3, 4), 2.6, "iwasaki"), 2),
    "su2 in three dimensions": lambda: (wilson("su2", (3, 4, 3), 3.0), 3),
    "cpn": lambda: (CPN(2, (6, 7), 0.7), 3),
    "cpn, all of it": lambda: (CPN(2, (3, 4), 0.7), 3),
    "cpn, smallest": lambda: (CPN(2, (2, 3), 0.7), 2),
    "su3 in four dimensions": lambda: (wilson("su3", (2, 2, 3, 2), 5.7), 2),
}
ALL = pytest.mark.parametrize("name", CASES)
FLAT = [name for name in CASES if "su" not in name and "u2" not in name]


def hot(target, chains=2, seed=1):
    return unoptimised(target.start)(jax.random.key(seed), "hot", chains, jnp.dtype(jnp.float64))


def places(layout):
    """The first site, one in the middle, and the last."""
    sides = np.array(layout.sides)
    return [jnp.asarray(site, jnp.int32) for site in (0 * sides, sides // 2, sides - 1)]


def moving_links(layout, place):
    """Numbers of all links that move, [link, window]."""
    shape = (*[len(layout.sides)] * layout.links, *layout.sides, 1)
    numbers = jnp.arange(np.prod(shape)).reshape(shape)
    plain = dataclasses.replace(layout, trailing=0)
    return np.asarray(plain.within(plain.cut(place, numbers)))[..., 0]


def terms_of(target, x):
    """All of them, [term, chain]."""
    return jnp.concatenate([each.reshape(-1, each.shape[-1]) for each in target.terms(x).value])


def seen(target):
    """Which terms of the action change with a link, [term, link], found by moving each of them."""
    geometry, number = target.geometry, np.prod(target.geometry.elements)

    @unoptimised
    def change(x):
        one = geometry.to_scale(jnp.eye(number).reshape(*geometry.elements, number))
        y = geometry.moved(x, one * geometry.momentum(jax.random.key(2), x))
        return abs(terms_of(target, y) - terms_of(target, x))

    return np.asarray(change(jnp.repeat(hot(target, 1), number, axis=-1))) > 1e-9


def shared(target, layout, place):
    """How many terms see links of more than one window."""
    table = seen(target)
    by_window = np.stack([table[:, links].any(axis=1) for links in moving_links(layout, place).T])
    return int((by_window.sum(axis=0) > 1).sum())


class TooClose(Layout):
    """Side by side, with one row of cells in common."""

    @property
    def _distance(self):
        return super()._distance - 1


def test_numbers():
    assert Layout((16, 32), 3).numbers == (5, 10)
    assert Layout((16, 11), 4).numbers == (4, 2)
    assert Layout((9, 9, 9), 2, reach=2).numbers == (3, 3, 3)
    assert Layout((9, 9), 3).patch == (4, 4)
    assert Layout((9, 4), 4).patch == (5, 4)
    assert Layout((9, 9), 3, reach=2).patch == (6, 6)
    # All links within a block but those of its rim: n·(n − 1) in each of two directions, n·(n − 1)² in each of three.
    assert len(Layout((9, 9), 4).inside) == 2 * 4 * 3
    assert len(Layout((9, 9, 9), 3).inside) == 3 * 3 * 4
    assert Layout((16, 32), 3).number == 50


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", FLAT)
def test_no_cell_sees_links_of_two_windows(name):
    target, block = CASES[name]()
    layout = layout_for(target, block)
    for place in places(layout):
        links = moving_links(layout, place)
        assert len(np.unique(links)) == links.size
        assert shared(target, layout, place) == 0
    if layout.number > 1:
        # They could not lie closer together.
        assert shared(target, TooClose(**dataclasses.asdict(layout)), place) > 0


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", FLAT)
def test_cells_of_a_window_are_those_that_see_its_links(name):
    target, block = CASES[name]()
    window = windowed(window_of(target, layout_for(target, block)))
    expected = seen(window.whole)[:, window.layout.inside].any(axis=1)
    np.testing.assert_array_equal(window.cells(), np.flatnonzero(expected))


@ALL
def test_cut_and_paste(name):
    """What was cut goes back where it was; nothing else changes."""
    target, block = CASES[name]()
    layout, geometry = layout_for(target, block), target.geometry
    field = np.random.default_rng(1).integers(0, 100, (*geometry.momentum_shape, 2))
    for place in places(layout):
        inside = np.asarray(layout.within(layout.cut(place, jnp.asarray(field))))
        np.testing.assert_array_equal(layout.paste(place, jnp.asarray(field), jnp.asarray(inside)), field)
        new = np.asarray(layout.paste(place, jnp.asarray(field), jnp.asarray(inside + 1)))
        expected = np.zeros((np.prod(geometry.elements), 2), int)
        expected[moving_links(layout, place).ravel()] = 1
        expected = geometry.to_scale(expected.reshape(*geometry.elements, 2))
        np.testing.assert_array_equal(new - field, np.broadcast_to(expected, field.shape))
        again = np.asarray(layout.within(layout.cut(place, jnp.asarray(new))))
        np.testing.assert_array_equal(again, inside + 1)


def in_each(target, layout, place, x, moved):
    """What each window says of itself where only its own links move, and where those of all others do."""
    elsewhere = layout.paste(place, x, moved)
    own = Windows(target, x, place, layout)
    # Its own links as they were, in patches in which everything else that may move has moved.
    of_components = (slice(None),) * layout.trailing
    patches = layout.cut(place, elsewhere).at[(..., layout.inside, *of_components, slice(None), slice(None))]
    patches = patches.set(own.momenta(x))

    def of_window(window, inside, given):
        end, patch, force = given
        action = windowed(window)
        plain = (jnp.zeros((n, len(action.cells()), x.shape[-1])) for n in action.heads())
        found, other = window.force(inside), window_in(action.whole, patch, layout)
        return {
            "change": terms_of(window, end) - terms_of(window, inside),
            "force": found - force,
            "weights": action.pushed_force(inside, *plain) - found,
            "action beside others": terms_of(other, inside) - terms_of(window, inside),
            "force beside others": other.force(inside) - found,
            "numbers beside others": windowed(other).numbers(inside) - action.numbers(inside),
        }

    return own.each(of_window, (moved, patches, own.momenta(target.force(x))), axis=-2)


def alone(target, layout, place, x, moved, number):
    """The change of the action of the whole lattice, where one window moves."""
    own = layout.within(layout.cut(place, x))
    y = layout.paste(place, x, jnp.where(jnp.arange(layout.number, dtype=jnp.int32)[:, None] == number, moved, own))
    return jnp.sum(terms_of(target, y) - terms_of(target, x), axis=0)


@pytest.mark.usefixtures("x64")
@ALL
def test_inside_of_windows_is_the_distribution_of_the_whole(name):
    """Force and change of the action; and no window sees what the others do."""
    target, block = CASES[name]()
    layout, x = layout_for(target, block), hot(target)
    for place in places(layout)[1:]:
        moved = layout.within(layout.cut(place, hot(target, seed=2)))
        found = jax.tree.map(np.asarray, unoptimised(in_each)(target, layout, place, x, moved))
        change = found.pop("change").sum(axis=0)
        for number in range(0, layout.number, 3):
            wanted = unoptimised(alone)(target, layout, place, x, moved, jnp.int32(number))
            np.testing.assert_allclose(change[number], wanted, atol=1e-10)
            assert np.abs(wanted).min() > 1e-3
        for what, difference in found.items():
            np.testing.assert_allclose(difference, 0, atol=1e-10, err_msg=what)


def test_places_are_drawn_uniformly():
    """Each of the twelve sites, in 300 draws: one is left out once in 10¹⁰ seeds."""
    target = U1((4, 3), 2.0)
    x = jnp.zeros((*target.geometry.shape, 1))
    draw = jax.jit(jax.vmap(lambda key: Windows.around(key, target, 3, x).place))
    found = np.asarray(draw(jax.random.split(jax.random.key(0), 300)))
    assert {tuple(place) for place in found.tolist()} == set(itertools.product(range(4), range(3)))


@pytest.mark.parametrize(
    ("sides", "block", "reach"), [((4, 4), 5, 1), ((4, 4), 4, 2), ((8, 4), 1, 1), ((4, 3, 8), 4, 1)]
)
def test_windows_that_do_not_fit_are_refused(sides, block, reach):
    sentence = f"^A window of {block} cells does not fit into a lattice of {' × '.join(map(str, sides))}\\.$"
    with pytest.raises(UserError, match=sentence):
        Layout(sides, block, reach)


def test_layers_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="A window of 5 cells does not fit"):
        build_trajectory(U1((4, 6), 2.0), "local", window=5)
    small = DLHMC(U1((3, 3), 2.0), build_trajectory(U1((4, 4), 2.0), "local", hidden=(2,), window=4))
    with pytest.raises(UserError, match="A window of 4 cells does not fit"):
        small.step(jax.random.key(0), small.init(jnp.zeros((2, 3, 3, 2))))


def test_they_are_for_sums_over_cells():
    with pytest.raises(TypeError, match="sum over cells, not GaussianDensity"):
        layout_for(Gaussian([1.0]), 2)
    layers = build_trajectory(U1((4, 4), 2.0), "local", hidden=(2,), window=2)
    target = U1((4, 4), 2.0)
    x = jnp.zeros((*target.geometry.shape, 2))
    with pytest.raises(TypeError, match="put them into Local"):
        layers.inside.forward(target, x, x)


def test_plain_hmc_in_a_window():
    """A window is a target as any other."""
    target = U1((5, 6), 2.0)
    layout = layout_for(target, 3)
    window = window_in(resized(target, layout.patch), jnp.zeros((2 * 16, 1)).repeat(4, axis=1), layout)
    x = window.start(jax.random.key(0), "hot", 4, jnp.dtype(jnp.float32))
    kernel = HMC(window, 0.2, 4)
    state, info = unoptimised(lambda x: kernel.step(jax.random.key(1), kernel.init(x)))(x)
    assert state.x.shape == (12, 4)
    assert np.all(np.asarray(info.acceptance) > 0.1)
