"""The configurational temperature is 1 where samples, action and force belong together, and nowhere else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlhmc
from dlhmc import HMC, U1, Gaussian, Schwinger, wilson
from dlhmc.actions import Cosine, Plaquette
from dlhmc.kernels import Exact
from dlhmc.statistics import check_temperature
from dlhmc.targets.contract import with_gamma
from dlhmc.targets.temperature import CURVATURE, slope_and_curvature
from dlhmc.testing.checks import evaluate, example
from dlhmc.theories.gauge.fermions import with_determinant
from dlhmc.theories.gauge.field import GaugeField
from examples_of_targets import EXAMPLES
from guest_theories import Ring

KINDS = {name: EXAMPLES[name] for name in ("u1", "u2", "su3", "cpn", "schwinger", "log-density")} | {
    "determinant": lambda: with_determinant(Schwinger((4, 4), 2.0, 0.1)),
    "ring": lambda: Ring(3, beta=1.5),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", KINDS)
def test_the_laplacian_is_made_of_second_derivatives_along_geodesics(name):
    target, key = KINDS[name](), jax.random.key(1)
    x = example(target)
    fields_key, direction_key = jax.random.split(key)
    drawn, h = evaluate(target.refresh, fields_key, x)[0], 1e-3
    direction = evaluate(target.geometry.momentum, direction_key, x)

    def along(step):
        return np.asarray(evaluate(drawn.action, evaluate(target.geometry.moved, x, step * direction)))

    weights = {0: -5 / 2, 1: 4 / 3, 2: -1 / 12}  # fourth order
    sides = [weights[k] * (along(k * h) + along(-k * h)) for k in (1, 2)]
    wanted = (weights[0] * along(0) + sum(sides)) / h**2
    found = evaluate(slope_and_curvature, target, key, x)[CURVATURE]
    # Solutions of the Dirac equation in forces are less precise than in the action.
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def measured(target, x):
    """T as runs measure it, of independent configurations."""
    found = evaluate(slope_and_curvature, target, jax.random.key(5), x)
    return check_temperature(*(np.asarray(values, np.float64)[None] for values in found.values()))


def draws(target, number=20_000):
    return evaluate(target.exact_draws().draw, jax.random.key(1), number, jnp.dtype(jnp.float32))


EXACT = {
    "u1": U1((8, 8), 3.0),
    "su2": wilson("su2", (4, 4), 4.0),
    "u2": wilson("u2", (4, 4), 6.0),
    "gaussian": Gaussian(np.linspace(1, 4, 30)),
}


# A new seed would raise an alarm with probability 6e-5.
@pytest.mark.statistical
@pytest.mark.parametrize("name", EXACT)
def test_it_is_one_for_exact_draws(name):
    assert measured(EXACT[name], draws(EXACT[name])).alarms == ()


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["u1", "su2", "u2"])
@pytest.mark.parametrize("factor", [0.98, 1.02])
def test_a_coupling_that_is_off_by_two_percent_is_seen(name, factor):
    other = with_gamma(EXACT[name], factor)
    (alarm,) = measured(other, draws(EXACT[name])).alarms
    assert alarm.startswith("⟨|∇S|²⟩/⟨ΔS⟩ = ")


class Strong(Plaquette):
    """Its force is 2 % too large."""

    def force(self, geometry, x):
        return 1.02 * super().force(geometry, x)


@pytest.mark.statistical
@pytest.mark.parametrize("actions", [[Strong(3.0)], [Plaquette(3.0), Cosine(0.3)]], ids=["force", "draws"])
def test_a_force_or_draws_of_another_action_are_seen(actions):
    wrong = GaugeField("u1", (8, 8), actions)
    assert measured(wrong, draws(U1((8, 8), 3.0))).alarms


@pytest.mark.statistical
@pytest.mark.parametrize(
    "kernel",
    [
        HMC(wilson("su3", (2, 2), 6.0), 0.15, 8),
        HMC(Schwinger((4, 4), 2.0, 0.1), 0.2, 4),
        HMC(with_determinant(Schwinger((4, 4), 2.0, 0.1)), 0.2, 4),
    ],
    ids=["su3", "pseudofermions", "determinant"],
)
def test_it_is_one_in_runs_that_have_reached_equilibrium(kernel):
    samples = dlhmc.sample(kernel, chains=64, trajectories=150, warmup=100, temperature_every=3, progress=False)
    summary = samples.summary()
    assert summary["alarms"] == []
    assert abs(summary["temperature"]["mean"] - 1) < 4 * summary["temperature"]["error"] < 0.1


@pytest.mark.statistical
def test_a_run_with_draws_of_another_coupling_ends_with_an_alarm():
    target = U1((8, 8), 3.0)
    kernel = Exact(target, U1((8, 8), 3.06).exact_draws())
    with pytest.warns(UserWarning, match="is not compatible with 1"):
        dlhmc.sample(kernel, trajectories=400, temperature_every=4, progress=False)


def test_nothing_is_recorded_where_it_is_not_wanted():
    kernel = HMC(Gaussian([1.0, 2.0]), 0.3, 4)
    without = dlhmc.sample(kernel, chains=4, trajectories=4, warmup=2, temperature_every=0, progress=False)
    assert CURVATURE not in without.data
    assert "temperature" not in without.summary()
    beside = dlhmc.sample(kernel, chains=4, trajectories=4, warmup=2, progress=False)
    assert "⟨|∇S|²⟩/⟨ΔS⟩" in repr(beside)
    np.testing.assert_array_equal(beside.data["squared_norm"], without.data["squared_norm"])
    assert CURVATURE not in beside.observables


def test_a_flat_action_has_none():
    flat = with_gamma(U1((4, 4), 1.0), 0.0)
    assert np.isinf(measured(flat, draws(U1((4, 4), 1.0), 8)).value.error)
