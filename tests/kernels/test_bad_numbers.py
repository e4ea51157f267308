"""Whatever is NaN or infinite, in action, force or network, alone or together: rejected and counted, never accepted.

Each chain has faults of its own, so that all combinations are one program.
"""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dlhmc.actions import Plaquette
from dlhmc.geometry import all_finite
from dlhmc.kernels import DLHMC, HMC, Exact, State
from dlhmc.layers import Affine, Circle, LayerStack, LeapfrogLayer, Local, Palindrome, PlaquetteKick
from dlhmc.layers.masks import checkerboard_mask
from dlhmc.networks import SQT, Network
from dlhmc.targets.contract import with_actions
from dlhmc.theories.gauge.architectures import LocalArchitecture
from dlhmc.theories.gauge.field import U1, GaugeField
from dlhmc.theories.u1.hits import InstantonHits
from dlhmc.theories.vectors.toys import Gaussian, GaussianDensity

BAD = (np.nan, np.inf, -np.inf)
OF_TARGET = tuple(f"{what} {where}" for what in ("action", "force") for where in ("at the start", "after it"))
OF_NETWORKS = tuple(f"{output} of {update}" for update in ("v", "x") for output in "sqt")
OF_CELLS = ("w", "t", "s")
PLACES = OF_TARGET + OF_NETWORKS
# e^{−∞} = 0: the force, or the momentum, is left out, which is a bijection as good as any.
HARMLESS = {("q of v", -np.inf), ("q of x", -np.inf)}
step = eqx.filter_jit(lambda kernel, key, state: kernel.step(key, state))


def combinations():
    """No fault at all, four times; every single one; every pair of two places."""
    single = list(itertools.product(PLACES, BAD))
    pairs = [(a, b) for a, b in itertools.combinations(single, 2) if a[0] != b[0]]
    return [(), (), (), (), *((fault,) for fault in single), *pairs]


COMBINATIONS = combinations()
CHAINS = len(COMBINATIONS)


def fault(place):
    """What is added to the number at this place, for each chain."""
    added = [dict(chain).get(place, 0.0) for chain in COMBINATIONS]
    return jnp.asarray(added, jnp.float32)


def with_fault(places, harmless=()):
    """The chains with a fault at one of these places."""
    return np.array([any(f[0] in places and f not in harmless for f in chain) for chain in COMBINATIONS])


class Faulty(Plaquette):
    """Has faults where a chain starts, and elsewhere."""

    begin: jax.Array
    faults: dict[str, jax.Array]

    def __init__(self, begin, faults):
        super().__init__(2.0)
        self.begin, self.faults = begin, faults

    def _fault(self, what, x):
        at_start = jnp.all(x == self.begin, axis=(0, 1, 2))
        return jnp.where(at_start, self.faults[f"{what} at the start"], self.faults[f"{what} after it"])

    def terms(self, x):
        return super().terms(x).at[0, 1, 2].add(self._fault("action", x))

    def force(self, geometry, x):
        return super().force(geometry, x).at[1, 2, 3].add(self._fault("force", x))


class FaultyNetwork(Network):
    """Gives nothing but faults, in one component of each output."""

    faults: jax.Array  # [s q t, chain]

    def __call__(self, zeta):
        nothing = jnp.zeros_like(zeta.vector)
        where = (0,) * (nothing.ndim - 1)
        return SQT(*(nothing.at[where].add(added) for added in self.faults))


def begin():
    """Odd in number: the two directions then have all chains, and faults stay with theirs."""
    assert CHAINS % 2 == 1
    return U1((4, 4), 2.0).start(jax.random.key(0), "hot", CHAINS, jnp.float32)


def faulty_target():
    return GaugeField("u1", (4, 4), [Faulty(begin(), {place: fault(place) for place in OF_TARGET})])


def faulty_layers(target, rule):
    networks = (FaultyNetwork(jnp.stack([fault(f"{o} of {u}") for o in "sqt"])[None]) for u in "vx")
    log_step = jnp.log(jnp.full(1, 0.1, jnp.float32))
    return LayerStack(
        LeapfrogLayer(*networks, checkerboard_mask(target.geometry.shape)[None], log_step, log_step, rule)
    )


def test_hmc():
    target = faulty_target()
    state = State.at(target, begin())
    new, info = step(HMC(target, 0.1, 3), jax.random.key(1), state)
    assert_rejected(
        state, new, info, ("action at the start", "action after it", "force at the start", "force after it")
    )


def test_dense():
    target = faulty_target()
    state = State.at(target, begin())
    kernel = DLHMC(target, faulty_layers(target, Circle()))
    for seed in (1, 2):  # either direction for every chain
        new, info = step(kernel, jax.random.key(seed), state)
        assert_rejected(state, new, info, (*OF_TARGET, *OF_NETWORKS))


class FaultyCells(eqx.Module):
    """Of all cells of a window nothing but faults: in one weight, in one push, and in s."""

    faults: jax.Array  # [w t s, chain]
    cells: int = eqx.field(static=True)

    def __call__(self, numbers):
        w, t, s = self.faults
        outputs = jnp.zeros((2 * self.cells + 1, numbers.shape[-1]), numbers.dtype)
        return outputs.at[0].add(w).at[self.cells].add(t).at[-1].add(s)


def test_windows():
    """No window moves where the network of its chain gives a bad number."""
    target = U1((4, 4), 2.0)
    state = State.at(target, begin())
    network = FaultyCells(jnp.stack([fault(place) for place in OF_CELLS]), cells=9)
    layers = Palindrome.start(lambda _: PlaquetteKick(network), jax.random.key(0), 2, 0.1)
    new, info = step(DLHMC(target, Local(layers, 3)), jax.random.key(1), state)
    assert_rejected(state, new, info, OF_CELLS)


def assert_rejected(state, new, info, places):
    bad, nonfinite = with_fault(places, HARMLESS), np.asarray(info.nonfinite)
    assert np.all(nonfinite[bad])
    assert not np.any(nonfinite[~with_fault(places)])
    assert not np.any(np.asarray(info.accepted) & nonfinite)
    assert np.all(np.asarray(info.acceptance)[nonfinite] == 0)
    np.testing.assert_array_equal(new.x[..., nonfinite], state.x[..., nonfinite])
    assert bool(jnp.isfinite(new.x).all())
    assert np.all(info.acceptance[:4] > 0)  # those without a fault


def test_hits():
    """A kernel that is rejected may be followed by a hit that is not, but none to where the action is bad."""
    target = faulty_target()
    state = State.at(target, begin())
    new, info = step(InstantonHits(HMC(target, 0.1, 3), 2), jax.random.key(1), state)
    moves, hits = OF_TARGET, OF_TARGET[:2]
    np.testing.assert_array_equal(info.nonfinite, with_fault(moves))
    np.testing.assert_array_equal(new.x[..., with_fault(hits)], state.x[..., with_fault(hits)])
    assert not np.any(np.asarray(info.accepted_moves["hits"])[with_fault(hits)])
    assert np.any(np.asarray(info.accepted_moves["hits"])[~with_fault(hits)])
    assert bool(jnp.isfinite(new.x).all())


def test_parameters_of_networks_in_windows():
    target = U1((4, 4), 2.0)
    state = State.at(target, target.start(jax.random.key(0), "hot", 4, jnp.float32))
    trajectory = LocalArchitecture(2, 0.1, hidden=(4,), window=3).build(target, jax.random.key(5))
    arrays, static = eqx.partition(trajectory, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(arrays)
    for index, value in itertools.product(range(len(leaves)), BAD):
        leaf = np.array(leaves[index])
        leaf.flat[0] = value
        spoiled = jax.tree.unflatten(structure, [*leaves[:index], leaf, *leaves[index + 1 :]])
        new, info = step(DLHMC(target, eqx.combine(spoiled, static)), jax.random.key(1), state)
        assert bool(jnp.isfinite(new.x).all())
        assert not np.any(np.asarray(info.accepted) & np.asarray(info.nonfinite))
        # An infinite weight may leave a finite map: tanh(∞) = 1.
        assert np.all(info.nonfinite) or not np.isnan(value)


class Blind(GaussianDensity):
    """The action does not look at the first component."""

    def terms(self, x):
        return super().terms(x)[1:]


def test_what_the_action_does_not_see():
    """ΔH is finite, x is not."""
    target = with_actions(Gaussian(np.ones(4)), [Blind(4, jnp.ones(4), None)])
    state = State.at(target, jnp.zeros((4, CHAINS), jnp.float32))
    kernel = DLHMC(target, faulty_layers(target, Affine()))
    new, info = step(kernel, jax.random.key(1), state)
    assert bool(jnp.isfinite(new.x).all())
    assert np.all(np.asarray(info.nonfinite)[with_fault(("t of x",))])
    assert np.asarray(info.accepted)[:4].any()


class SpoiledDraws(eqx.Module):
    bad: jax.Array

    def draw(self, key, chains, dtype):
        return jnp.ones((2, 4, 4, chains), dtype).at[0, 1, 2].add(self.bad)


def test_exact_draws():
    kernel = Exact(U1((4, 4), 2.0), SpoiledDraws(jnp.asarray([0.0, *BAD], jnp.float32)))
    state = kernel.init(jnp.zeros((2, 4, 4, 4), jnp.float32))
    new, info = step(kernel, jax.random.key(0), state)
    assert info.nonfinite.tolist() == [False, True, True, True]
    assert info.accepted.tolist() == [True, False, False, False]
    np.testing.assert_array_equal(all_finite(new.x), True)
    np.testing.assert_array_equal(new.x[..., 1:], 0)
