"""The paper's layers on groups: masks over whole links, a drift by the group, and faults that must be found."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from dlhmc import DLHMC, wilson
from dlhmc.layers import LayerStack, LeapfrogLayer
from dlhmc.layers.position import Shift
from dlhmc.models.dense import DenseArchitecture
from dlhmc.testing import check_stationarity
from dlhmc.testing.trajectory import log_jacobians, round_trip
from dlhmc.theories.gauge.architectures import LocalArchitecture
from unoptimised import shaken, unoptimised


def dense(target, number=2, step_size=0.2, size=0.2, rule=None):
    architecture = DenseArchitecture(number, step_size, hidden=(4,)).completed(target)
    new = unoptimised(lambda key: architecture.layers(target, key, rule=rule))(jax.random.key(0))
    return shaken(new, size, 1)


def local(target, number=2, size=0.1, heads="plaquettes"):
    architecture = LocalArchitecture(number, 0.5, hidden=(4,), window=2, heads=heads)
    return shaken(unoptimised(architecture.completed(target).build)(target, jax.random.key(0)), size, 1)


def phase_of(target, chains):
    def draw(a, b):
        x = target.start(a, "hot", chains, jnp.float64)
        return x, target.geometry.momentum(b, x)

    return unoptimised(draw)(jax.random.key(2), jax.random.key(3))


def faults(trajectory, target):
    """What a bijection with its Jacobian does not have."""
    found = list(round_trip(trajectory, target, *phase_of(target, 2), tolerance=1e-11))
    for direction in ("forward", "inverse"):
        claimed, expected = log_jacobians(trajectory, target, *phase_of(target, 1), direction)
        if abs(claimed - expected) > 1e-8:
            found.append(f"log|J| of {direction}")
    return found


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("group", "sides", "layers"),
    [
        pytest.param("su2", (2, 2), dense, marks=pytest.mark.slow),
        pytest.param("su3", (2, 2), dense, marks=pytest.mark.slow),
        pytest.param("su3", (2, 2, 2, 2), dense, marks=pytest.mark.slow),
        pytest.param("su3", (2, 2, 2, 2), local, marks=pytest.mark.slow),
    ],
)
def test_they_are_bijections_with_the_right_jacobian(group, sides, layers):
    target = wilson(group, sides, 5.7)
    assert faults(layers(target), target) == []


class MasksElements(LeapfrogLayer):
    """Single elements of matrices are moved and seen, not links."""

    def _move(self, target, phase, moved, *, forward):
        whole = super()._move(target, phase, jnp.ones_like(moved), forward=forward)
        pattern = (jnp.arange(9).reshape(3, 3, *(1,) * (phase.x.ndim - 2)) % 2 == 0) ^ ~moved[..., None]
        return whole._replace(x=jnp.where(pattern, whole.x, phase.x))


class AddsThere(Shift):
    """U + iDU in one direction, e^{−iD}U in the other."""

    def forward(self, geometry, x, shift, log_scale):
        return added(geometry, x, shift), jnp.zeros_like(shift)


class NormOfJacobian(LayerStack):
    """The size of the log-determinant, in place of itself."""

    def _scan(self, *arguments, **keywords):
        end, recorded = super()._scan(*arguments, **keywords)
        return end._replace(log_jacobian=jnp.abs(end.log_jacobian)), recorded


def added(geometry, x, shift):
    return x + 1j * jnp.sum(geometry.hermitian(shift)[:, :, None] * x[None], axis=1)


def broken(fault, target):
    if fault is AddsThere:
        return dense(target, rule=AddsThere())
    whole = dense(target)
    if fault is NormOfJacobian:
        return NormOfJacobian(whole.layers)
    parts = {field.name: getattr(whole.layers, field.name) for field in dataclasses.fields(whole.layers)}
    return LayerStack(MasksElements(**parts))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("fault", [MasksElements, AddsThere, NormOfJacobian])
def test_faults_of_layers_are_found(fault):
    """The way back of the first two misses the start; the third claims opposite volumes of neither sign."""
    target = wilson("su3", (2, 2), 5.7)
    found = list(round_trip(broken(fault, target), target, *phase_of(target, 2), tolerance=1e-6))
    assert any(("log|J|" if fault is NormOfJacobian else " x ") in problem for problem in found)


class AddsBothWays(AddsThere):
    """U ± iDU leave the group; accept/reject looks at what they make, and the projection comes after it."""

    def inverse(self, geometry, x, shift, log_scale):
        return added(geometry, x, -shift), jnp.zeros_like(shift)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("rule", "exact"), [(None, True), (AddsBothWays(), False)])
def test_a_projection_after_accept_or_reject_is_found(rule, exact):
    """p below 1e-3 and a pull above 3.3 once in a thousand seeds each."""
    target = wilson("su2", (4, 4), 4.0)
    kernel = DLHMC(target, dense(target, number=3, step_size=0.2, size=0.03, rule=rule))
    found = check_stationarity(kernel, steps=4, chains=4000)
    if exact:
        assert found.acceptance > 0.2
        assert found.p_value > 1e-3
        assert abs(found.weight_pull) < 3.3
    else:
        assert found.p_value < 1e-6 or abs(found.weight_pull) > 5
