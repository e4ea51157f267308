"""What training keeps: averages of the best parameters and not the last ones, judged by averages that begin afresh.

Nothing is left to chance: the optimiser below moves the parameters at steps that are known, whatever the gradient is.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dlhmc
from unoptimised import unoptimised


def flat(x):
    """A density that is the same everywhere: a trajectory goes by εv or −εv, and is always accepted."""
    return 0 * x[0]


FLAT = dlhmc.LogDensity(flat, dim=2)
FIRST, BEST, LAST = -3.0, -1.5, -0.5
STEPS = 1000
#: at step 700, the last look before they go away: of what was before them 0.99 is left after each of 250 steps
KEPT = BEST + 0.99**250 * (FIRST - BEST)


def moves(factors):
    """All parameters multiplied by a factor at some steps, and left alone at the others. Networks stay zero."""

    def parameters(updates, state, parameters):
        return parameters, state

    def schedule(count):
        return sum(jnp.where(count == step, jnp.float32(factor - 1), 0) for step, factor in factors.items())

    identity = optax.GradientTransformation(lambda _: optax.EmptyState(), parameters)
    return optax.chain(identity, optax.scale_by_schedule(schedule))


def loss(target, transition):
    """How far log ε is from the best value; what an average would remember of the time before γ = 1 is far better."""
    length = jnp.sum((transition.x_new - transition.x) ** 2, axis=0) / jnp.sum(transition.v**2, axis=0)
    return (0.5 * jnp.log(length) - BEST) ** 2 - jnp.where(target.gamma < 1, 100, 0)


MOVES = moves({450: BEST / FIRST, 750: LAST / BEST})


def layers(target, log_step):
    return unoptimised(dlhmc.build_trajectory)(
        target, "dense", layers=1, hidden=(1,), rule=dlhmc.Shift(), step_size=float(np.exp(log_step))
    )


def log_step(trajectory):
    """Log ε, from how far a trajectory goes where nothing pulls."""
    x, v = jnp.zeros((2, 1)), jnp.ones((2, 1))
    return float(jnp.log(eqx.filter_jit(trajectory.forward)(FLAT, x, v).x[0, 0]))


def train(until, **more):
    """With γ = ½ for some steps."""
    gamma = dlhmc.Knots([(0, 0.5), (until, 0.5), (until + 1, 1.0)])
    amount = {"steps": STEPS, "chains": 4, "burn_in": 0, "start": "cold", "progress": False}
    return dlhmc.train(FLAT, layers(FLAT, FIRST), loss=loss, optimiser=MOVES, gamma=gamma, **amount, **more)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("training") / "run"
    return train(1, out=path), path


def test_the_parameters_go_where_they_should(run):
    """Otherwise the tests below show nothing."""
    expected = np.repeat([FIRST, BEST, LAST], [451, 300, 249])
    np.testing.assert_allclose(run[0].data["loss"].values[2:], (expected[2:] - BEST) ** 2, atol=1e-3)


def test_the_best_parameters_are_kept(run):
    assert log_step(run[0].trajectory) == pytest.approx(KEPT, abs=1e-3)


def test_the_model_on_disk_has_the_best_parameters(run, tmp_path):
    trained, path = run
    trained.save(tmp_path / "model.safetensors")
    for file in (path, tmp_path / "model.safetensors"):
        kernel = dlhmc.load_kernel(file, FLAT, like=layers(FLAT, FIRST))
        assert log_step(kernel.trajectory) == pytest.approx(KEPT, abs=1e-3)


def test_what_was_before_the_end_of_the_schedules_is_not_compared():
    assert log_step(train(200).trajectory) == pytest.approx(KEPT, abs=1e-3)


def test_training_goes_on_after_a_restoration():
    """Parameters that are hardly good enough, spoiled by the first step and restored after a hundred.

    They are judged by what they do from then on, and not given up for what the spoiled ones did.
    """
    target = dlhmc.Gaussian(np.ones(32))
    amount = {"steps": 300, "burn_in": 0, "progress": False}
    spoiled = moves({0: 9.0})
    trained = dlhmc.train(target, layers(target, 0.25), loss="jump", optimiser=spoiled, gamma=1.0, **amount)
    acceptance = trained.data["acceptance"].values
    assert len(acceptance) == amount["steps"]
    assert acceptance[1:100].max() < 1e-3
    # The mean of these is 0.146, with a standard error of about 0.005.
    assert 0.1 < acceptance[150:].mean() < 0.2


def test_a_trained_kernel_is_not_annealed():
    """After training at γ < 1 it samples the target, and not what it was trained for at first."""
    target = dlhmc.Gaussian(np.ones(2))
    trained = dlhmc.train(target, layers(target, -0.5), gamma=0.5, steps=4, chains=4, burn_in=0, progress=False)
    assert float(trained.kernel.target.gamma) == 1
