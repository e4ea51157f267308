"""Every layer, rule, network and direction is a bijection with the log-determinant that autodiff finds.

One table feeds all tests: a new layer or network is tested by being listed.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dlhmc import CPN
from dlhmc.geometry import Torus
from dlhmc.layers import RULES, LayerStack, LeapfrogLayer
from dlhmc.layers.masks import checkerboard_mask, random_mask
from dlhmc.networks import SQT, Dense, Network
from dlhmc.testing import ConformanceError, check_network, check_rule, check_trajectory
from dlhmc.testing.trajectory import log_jacobians, round_trip
from dlhmc.theories.gauge.architectures import CovariantArchitecture, LocalArchitecture
from dlhmc.theories.gauge.field import U1, wilson
from dlhmc.theories.vectors.toys import correlated_gaussian
from dlhmc.training import Algorithm, jump_loss, train
from guest_theories import Ring, Villain
from unoptimised import shaken, unoptimised

KEY = jax.random.key(7)


class Affine(Network):
    """A network of twenty lines: linear in ζ, with one coupling for each output."""

    weights: jax.Array

    def __init__(self, key, geometry, hidden):
        self.weights = jnp.zeros(3)

    def __call__(self, zeta):
        a, b, c = self.weights.astype(zeta.vector.dtype)
        neighbours = jnp.roll(zeta.position.sum(axis=0), 1, axis=0) + jnp.zeros_like(zeta.vector)
        return SQT(jnp.tanh(a * neighbours), jnp.tanh(b * zeta.vector), c * neighbours)


TARGETS = {
    "u1 2x3": (lambda: U1((2, 3), 1.7, gamma=0.9), ("circle", "shift")),
    "gaussian": (lambda: correlated_gaussian(), ("affine", "shift")),
    "ring": (lambda: Ring(3, 1.5), ("shift",)),
}
NETWORKS = {"dense": Dense, "custom": Affine}
MASKS = {
    "random": lambda key, shape: random_mask(key, shape),
    "checkerboard": lambda _, shape: checkerboard_mask(shape),
}
CASES = [
    pytest.param(target, rule, network, mask, id=f"{target}-{rule}-{network}-{mask}")
    for target, (_, rules) in TARGETS.items()
    for rule in rules
    for network, mask in (("dense", "random"), ("custom", "checkerboard"))
]


# A network for each of three matrices takes longest to compile.
LONG = [case for case in CASES if case.values[:3] == ("ring", "shift", "dense")]


def every_other(first):
    """Half of the cases, each target and rule once, networks by turns; the others are slow."""
    quick = {2 * pair + (pair + first) % 2 for pair in range(len(CASES) // 2)}
    return [
        pytest.param(*case.values, id=case.id, marks=() if number in quick and case not in LONG else pytest.mark.slow)
        for number, case in enumerate(CASES)
    ]


# Trajectories that are no stacks of leapfrog layers: the same tests, without a rule and a mask. Most patches here wrap
# around the lattice; log|J| is that of all links, of which few move.
WHOLE = {
    "windows": lambda: (U1((4, 3), 2.5), local(U1((4, 3), 2.5), 3)),
    "windows, links": lambda: (U1((2, 3), 2.5), local(U1((2, 3), 2.5), 2, heads="links")),
    "windows, paper": lambda: (U1((3, 3), 2.5), local(U1((3, 3), 2.5), 2, window=3, heads="paper")),
    "windows, three dimensions": lambda: (wilson("u1", (2, 2, 3), 2.0), local(wilson("u1", (2, 2, 3), 2.0), 2)),
    "windows, U(2)": lambda: (wilson("u2", (2, 2), 6.0), local(wilson("u2", (2, 2), 6.0), 2)),
    "windows, U(2), phases": lambda: (wilson("u2", (3, 3), 6.0), local(wilson("u2", (3, 3), 6.0), 2, heads="phases")),
    "windows, SU(2), links": lambda: (wilson("su2", (2, 2), 4.0), local(wilson("su2", (2, 2), 4.0), 3, heads="links")),
    "windows, U(2), links": lambda: (wilson("u2", (2, 2), 4.0), local(wilson("u2", (2, 2), 4.0), 2, heads="links")),
    "windows, SU(2), paper": lambda: (wilson("su2", (3, 2), 4.0), local(wilson("su2", (3, 2), 4.0), 1, heads="paper")),
    "windows, CP(2)": lambda: (CPN(3, (3, 4), 0.8), local(CPN(3, (3, 4), 0.8), 2, 3)),
    "windows, CP(1), one for each site": lambda: (CPN(2, (2, 4), 0.8), local(CPN(2, (2, 4), 0.8), 3, heads="links")),
    "windows, SU(3)": lambda: (wilson("su3", (2, 2), 5.7), local(wilson("su3", (2, 2), 5.7), 2)),
    "windows, SU(3), four dimensions": lambda: (FOUR(), local(FOUR(), 1)),
    "windows in Villain's theory": lambda: (Villain((3, 2), 1.3), local(Villain((3, 2), 1.3), 2)),
    "covariant": lambda: (wilson("su2", (2, 2), 4.0), covariant(wilson("su2", (2, 2), 4.0), 2)),
}
FOUR = lambda: wilson("su3", (2, 2, 2, 2), 5.7)  # noqa: E731


def local(target, number, window=2, heads="plaquettes"):
    settings = LocalArchitecture(number, 0.4, hidden=(4,), window=window, heads=heads)
    return unoptimised(lambda key: settings.build(target, key))(KEY)


def covariant(target, number):
    settings = CovariantArchitecture(number, 0.2, hidden=(6,))
    return unoptimised(settings.completed(target).build)(target, KEY)


# They take long to compile; dense networks and local layers of U(1) are here anyway.
SLOW = ("windows, U(2), links", "windows, SU(3), four dimensions", "windows in Villain's theory", "covariant")


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in WHOLE])
def test_trajectories_of_other_kinds(name):
    target, new = WHOLE[name]()
    few, one = start(target, 3, jnp.float64), start(target, 1, jnp.float64)
    for trajectory in (new, random(new, 0.3)):
        assert list(round_trip(trajectory, target, *few, tolerance=1e-11)) == []
        for direction in ("forward", "inverse"):
            found, expected = log_jacobians(trajectory, target, *one, direction)
            assert abs(found - expected) <= 1e-10
            assert trajectory is new or abs(expected) > 1e-4  # otherwise nothing was tested


def build(target, rule, network, mask, number, step=0.3):
    def layer(key):
        a, b, c = jax.random.split(key, 3)
        make = NETWORKS[network]
        log_step = jnp.log(jnp.asarray(step))
        return LeapfrogLayer(
            make(a, target.geometry, (8, 8)),
            make(b, target.geometry, (8, 8)),
            MASKS[mask](c, target.geometry.elements),
            log_step,
            1.3 * log_step,
            RULES[rule](),
        )

    return unoptimised(lambda key: LayerStack.build(layer, key, number))(KEY)


def random(trajectory, scale):
    return shaken(trajectory, scale, 3)


def start(target, chains, dtype):
    def draw(a, b):
        x = target.start(a, "hot", chains, dtype)
        return x, target.geometry.momentum(b, x)

    return unoptimised(draw)(jax.random.key(0), jax.random.key(1))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("target", "rule", "network", "mask"), CASES)
def test_round_trip_in_double_precision(target, rule, network, mask):
    target = TARGETS[target][0]()
    new = build(target, rule, network, mask, 3, step=0.1)
    x, v = start(target, 4, jnp.float64)
    for scale in (0.0, 0.3, 1.0):
        assert list(round_trip(random(new, scale), target, x, v)) == []


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_what_training_has_made_of_dense_networks():
    """Compiling a training step takes long, and random weights of several sizes have been here before."""
    target = TARGETS["u1 2x3"][0]()
    new = build(target, "circle", "dense", "random", 3, step=0.1)
    algorithm = Algorithm(target, None, jump_loss, optax.adam(3e-3))
    state, records = train(algorithm, new, start(target, 32, jnp.float64)[0], steps=300)
    assert records["acceptance"][-50:].mean() > 0.2  # not what a collapse leaves behind
    assert list(round_trip(state.trajectory, target, *start(target, 4, jnp.float64))) == []
    for direction in ("forward", "inverse"):
        found, expected = log_jacobians(state.trajectory, target, *start(target, 1, jnp.float64), direction)
        assert abs(found - expected) <= 1e-10


@pytest.mark.parametrize(("target", "rule", "network", "mask"), every_other(0))
def test_round_trip_in_single_precision(target, rule, network, mask):
    target = TARGETS[target][0]()
    wild = random(build(target, rule, network, mask, 3, step=0.1), 0.3)
    x, v = start(target, 8, jnp.float32)
    assert list(round_trip(wild, target, x, v, tolerance=1e-4)) == []


def log_jacobian_is_that_of_autodiff(target, rule, network, mask, number, direction):
    target = TARGETS[target][0]()
    wild = random(build(target, rule, network, mask, number), 0.5)
    found, expected = log_jacobians(wild, target, *start(target, 1, jnp.float64), direction)
    assert abs(found - expected) <= 1e-10
    assert rule == "shift" or abs(expected) > 1e-3  # otherwise nothing was tested


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("number", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("target", "rule", "network", "mask"), every_other(0))
def test_log_jacobian_forward(target, rule, network, mask, number):
    log_jacobian_is_that_of_autodiff(target, rule, network, mask, number, "forward")


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("number", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("target", "rule", "network", "mask"), every_other(1))
def test_log_jacobian_inverse(target, rule, network, mask, number):
    log_jacobian_is_that_of_autodiff(target, rule, network, mask, number, "inverse")


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("mask", MASKS)
def test_masks_are_halves(mask):
    for shape in ((2, 4, 6), (50,), (2,)):
        chosen = MASKS[mask](KEY, shape)
        assert chosen.shape == shape
        assert int(chosen.sum()) == chosen.size // 2


def test_layers_have_their_own_masks_and_weights():
    layers = build(U1((2, 3), 1.0), "circle", "dense", "random", 4).layers
    assert len(np.unique(np.asarray(layers.mask).reshape(4, -1), axis=0)) > 1
    weights = np.asarray(layers.v_network.inputs[0].weight)
    assert not np.any(weights[0] == weights[1])


@pytest.mark.usefixtures("x64")
def test_the_affine_rule_on_a_circle_is_no_bijection():
    """Why it is refused: part of the circle is not recovered after wrapping."""
    x = jnp.linspace(-np.pi, np.pi, 1001)[:-1]
    circle, rule = Torus(x.shape), RULES["affine"]()
    there, _ = rule.forward(circle, x, jnp.zeros_like(x), jnp.full_like(x, 0.1))
    back, _ = rule.inverse(circle, circle.project(there), jnp.zeros_like(x), jnp.full_like(x, 0.1))
    lost = np.abs(np.asarray(circle.difference(x, back))) > 1e-6
    assert 0.09 < lost.mean() < 0.1


@pytest.mark.parametrize(("name", "compact"), [("circle", True), ("shift", True), ("affine", False), ("shift", False)])
def test_rules(name, compact):
    assert check_rule(RULES[name](), compact=compact).passed == ("inverse", "derivative", "geometry")


class WrongDerivative(RULES["affine"]):
    def scale(self, x, log_scale):
        return super().scale(x, log_scale)[0], 2 * log_scale


@pytest.mark.parametrize(
    ("rule", "compact", "complaint"),
    [
        (RULES["affine"](), True, "after wrapping around the circle"),
        (WrongDerivative(), False, "not that of autodiff"),
    ],
)
def test_broken_rules_are_found_out(rule, compact, complaint):
    with pytest.raises(ConformanceError, match=complaint):
        check_rule(rule, compact=compact)


def custom(key, geometry):
    return Affine(key, geometry, ())


class MixesChains(Affine):
    def __call__(self, zeta):
        s, q, t = super().__call__(zeta)
        return SQT(s - s.mean(axis=-1, keepdims=True), q, t)


class WrongShape(Affine):
    def __call__(self, zeta):
        return super().__call__(zeta)._replace(t=zeta.vector[0])


class OnlyTwo(Affine):
    def __call__(self, zeta):
        return super().__call__(zeta)[:2]


PASSED = ("outputs", "chains", "parameters", "training", "inverse", "Jacobian")


class FromEquinox(Network):
    """It holds functions beside arrays, one of them with a derivative of its own (relu)."""

    mlp: eqx.nn.MLP

    def __call__(self, zeta):
        number = len(zeta.vector)
        outputs = jax.vmap(self.mlp, -1, -1)(jnp.concatenate([zeta.position.reshape(number, -1), zeta.vector]))
        return SQT(*jnp.tanh(outputs).reshape(3, number, -1))


class Frozen(Affine):
    """No gradient reaches its parameters."""

    def __call__(self, zeta):
        return jax.lax.stop_gradient(super().__call__(zeta))


def test_networks_of_equinox():
    target = TARGETS["gaussian"][0]()

    def make(key, geometry):
        (number,) = geometry.momentum_shape
        return FromEquinox(eqx.nn.MLP(2 * number, 3 * number, 4, 1, key=key))

    assert check_network(make, target).passed == PASSED


def test_networks_of_ones_own():
    target = TARGETS["gaussian"][0]()
    assert check_network(custom, target).passed == PASSED
    broken = {
        MixesChains: "chains: s of a chain depends",
        WrongShape: "t has the shape",
        OnlyTwo: "returns a tuple",
        Frozen: "training: a step",
    }
    for kind, complaint in broken.items():
        with pytest.raises(ConformanceError, match=complaint):
            check_network(lambda key, geometry, kind=kind: kind(key, geometry, ()), target)


class DropsJacobian(LayerStack):
    def forward(self, target, x, v):
        return super().forward(target, x, v)._replace(log_jacobian=jnp.zeros(x.shape[-1], x.dtype))


def test_a_broken_trajectory_is_found_out():
    target = TARGETS["gaussian"][0]()
    stack = build(target, "affine", "custom", "checkerboard", 1)
    with pytest.raises(ConformanceError, match="log\\|J\\| of forward is 0, but autodiff finds"):
        check_trajectory(DropsJacobian(stack.layers), target)
