import equinox as eqx
import jax

from dlhmc.comparison.cost import trajectory_cost
from dlhmc.layers import LeapfrogLayer, Trajectory
from dlhmc.models import model as models
from dlhmc.networks import Dense
from dlhmc.theories.u1.action import U1


def built(target: U1, **config) -> Trajectory:
    """Shapes only: nothing is compiled."""
    return eqx.filter_eval_shape(models.build, models.ModelConfig(**config), target, jax.random.key(0))


def test_forces_and_flops_of_a_dense_trajectory():
    target = U1((4, 6), beta=2.0)
    trajectory = built(target, leapfrog_steps=3, hidden=(128, 128))
    cost = trajectory_cost(trajectory, target)
    assert cost.forces == 2 * 3  # two momentum half-steps in each layer
    layer = trajectory.layers
    assert isinstance(layer, LeapfrogLayer)
    weights = 0
    for network in (layer.v_network, layer.x_network):
        assert isinstance(network, Dense)
        matrices = [linear.weight for linear in (*network.inputs, *network.hidden, network.heads)]
        weights += sum(matrix.size for matrix in matrices)  # of all three layers
    # Both networks of a layer are called twice; the rest is of the order of the field and small beside the matrices.
    assert 2 * 2 * weights < cost.flops < 1.1 * 2 * 2 * weights


def test_forces_are_not_counted_as_flops():
    """Where the target costs more, the trajectory beside its forces does not."""

    class Costly(U1):
        def force(self, x):
            return super().force(x) * (1 + 0 * sum(x**n for n in range(2, 9)))

    plain, costly = U1((4, 4), beta=2.0), Costly((4, 4), beta=2.0)
    trajectory = built(plain, leapfrog_steps=2, hidden=(4,))
    assert trajectory_cost(trajectory, plain) == trajectory_cost(trajectory, costly)


def test_cost_grows_with_the_number_of_layers():
    target = U1((4, 4), beta=2.0)
    two, six = (trajectory_cost(built(target, leapfrog_steps=n, hidden=(4,)), target) for n in (2, 6))
    assert six == tuple(3 * part for part in two)


def test_a_defect_computes_its_own_forces():
    target = U1((4, 6), beta=2.0)
    trajectory = built(target, network="defect", leapfrog_steps=5, radii=(0.0, 1.0, 2.0))
    assert trajectory_cost(trajectory, target).forces == 6  # the kicks between layers are shared
