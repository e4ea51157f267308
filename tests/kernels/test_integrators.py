import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.actions import Plaquette
from dlhmc.kernels.integrators import INTEGRATORS, integrate
from dlhmc.targets import energy_change
from dlhmc.theories.gauge.field import U1, GaugeField

compiled = eqx.filter_jit(integrate)
ALL = pytest.mark.parametrize("name", sorted(INTEGRATORS))


def trajectory(target, name, x, v, step_size, steps):
    return compiled(target, INTEGRATORS[name], x, v, jnp.asarray(step_size, x.dtype), jnp.int32(steps))[:2]


def equilibrium(lattice, beta, chains, dtype):
    target = U1(lattice, beta)
    x = jax.jit(lambda draws, key: draws.draw(key, chains, dtype))(target.exact_draws(), jax.random.key(0))
    return target, x, target.geometry.momentum(jax.random.key(1), x)


@ALL
@pytest.mark.parametrize("steps", [1, 2, 40])
def test_reversible_in_double_precision(name, steps, x64):
    target, x, v = equilibrium((8, 6), 5.0, 4, jnp.float64)
    there = trajectory(target, name, x, v, 0.1, steps)
    assert np.abs(there[0] - x).max() > 0.01
    back = trajectory(target, name, there[0], -there[1], 0.1, steps)
    assert np.abs(back[0] - x).max() <= 1e-12
    assert np.abs(back[1] + v).max() <= 1e-12


@ALL
def test_reversible_in_single_precision(name):
    target, x, v = equilibrium((16, 16), 7.0, 32, jnp.float32)
    there = trajectory(target, name, x, v, 0.1, 40)
    back = trajectory(target, name, there[0], -there[1], 0.1, 40)
    assert np.abs(back[0] - x).max() <= 1e-4
    assert np.abs(back[1] + v).max() <= 1e-4


@ALL
def test_energy_violation_is_of_the_order_of_the_integrator(name, x64):
    """⟨|ΔH|⟩ ∝ ε², or ε⁴, at fixed length, to 5 %."""
    target, x, v = equilibrium((8, 8), 4.0, 256, jnp.float64)
    steps = np.array([40, 56, 80, 112])
    violation = [
        float(jnp.abs(energy_change(target, (x, v), trajectory(target, name, x, v, 2.0 / n, n))).mean()) for n in steps
    ]
    order = -np.polyfit(np.log(steps), np.log(violation), 1)[0]
    assert order == pytest.approx(4.0 if name == "omelyan4" else 2.0, rel=0.05)


def test_leapfrog_is_the_one_of_the_paper(x64):
    """Appendix A.1 written out, without merged kicks."""
    target, x, v = equilibrium((4, 6), 3.0, 2, jnp.float64)
    y, w = x, v
    for _ in range(7):
        half = w - 0.5 * 0.2 * target.force(y)
        y = y + 0.2 * half
        w = half - 0.5 * 0.2 * target.force(y)
    found = trajectory(target, "leapfrog", x, v, 0.2, 7)
    np.testing.assert_allclose(found[0], y, atol=1e-13)
    np.testing.assert_allclose(found[1], w, atol=1e-13)


@ALL
def test_fractions_add_up(name):
    integrator = INTEGRATORS[name]
    assert sum(integrator.kicks) == pytest.approx(1.0)
    assert sum(integrator.drifts) == pytest.approx(1.0)
    assert integrator.kicks == integrator.kicks[::-1]
    assert integrator.drifts == integrator.drifts[::-1]


@ALL
def test_number_of_forces(name):
    """N steps cost N·forces_per_step + 1 forces, none twice."""

    calls = []

    class Counting(Plaquette):
        def force(self, geometry, x):
            jax.debug.callback(lambda: calls.append(1))
            return super().force(geometry, x)

    target = GaugeField("u1", (4, 4), [Counting(2.0)])
    x = target.start(jax.random.key(0), "hot", 1, jnp.float32)
    integrate(target, INTEGRATORS[name], x, x, jnp.float32(0.1), jnp.int32(6))
    jax.effects_barrier()
    assert len(calls) == 6 * INTEGRATORS[name].forces_per_step + 1
