"""Forces are declared by layers; what networks compute beside them is counted by XLA."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from dlhmc.actions import Plaquette
from dlhmc.comparison.cost import network_flops
from dlhmc.kernels import DLHMC
from dlhmc.layers import LeapfrogLayer
from dlhmc.models.dense import DenseArchitecture
from dlhmc.networks import Dense
from dlhmc.targets import Target
from dlhmc.theories.gauge.architectures import LocalArchitecture
from dlhmc.theories.gauge.field import U1, GaugeField


def built(target: Target, architecture) -> DLHMC:
    build = eqx.filter_jit(architecture.completed(target).build)
    return DLHMC(target, build(target, jax.random.key(0)))


def test_forces_and_flops_of_a_dense_trajectory():
    kernel = built(U1((4, 6), beta=2.0), DenseArchitecture(leapfrog_steps=3, hidden=(128, 128)))
    assert kernel.forces == 2 * 3  # two momentum half-steps in each layer
    layer = kernel.trajectory.layers
    assert isinstance(layer, LeapfrogLayer)
    weights = 0
    for network in (layer.v_network, layer.x_network):
        assert isinstance(network, Dense)
        matrices = [linear.weight for linear in (*network.inputs, *network.hidden, network.heads)]
        weights += sum(matrix.size for matrix in matrices)  # of all three layers
    # Both networks of a layer are called twice; the rest is of the order of the field and small beside the matrices.
    assert 2 * 2 * weights < network_flops(kernel) < 1.1 * 2 * 2 * weights


def test_forces_are_not_counted_as_flops():
    """Where the target costs more, the trajectory beside its forces does not."""

    class Costly(Plaquette):
        def force(self, geometry, x):
            return super().force(geometry, x) * jnp.prod(jnp.stack([jnp.cos(n * x) for n in range(2, 9)]), axis=0)

    plain, costly = U1((4, 4), beta=2.0), GaugeField("u1", (4, 4), [Costly(2.0)])
    architecture = DenseArchitecture(leapfrog_steps=2, hidden=(4,))
    assert network_flops(built(plain, architecture)) == network_flops(built(costly, architecture))


def test_cost_grows_with_the_number_of_layers():
    target = U1((4, 4), beta=2.0)
    two, six = (built(target, DenseArchitecture(leapfrog_steps=n, hidden=(4,))) for n in (2, 6))
    assert six.forces == 3 * two.forces
    assert network_flops(six) == pytest.approx(3 * network_flops(two), abs=10)


def test_windows_share_the_forces_of_one_lattice():
    kernel = built(U1((4, 6), beta=2.0), LocalArchitecture(leapfrog_steps=5, hidden=(4,), window=2))
    assert kernel.forces == 6  # the kicks between layers are shared
    # Of 7 cells two numbers each into 4 units, and from them a weight and a push each, and s, in 4·3 windows.
    assert network_flops(kernel) > 2 * 6 * 12 * 4 * (2 * 7 + 2 * 7 + 1)
