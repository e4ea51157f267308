"""The Wilson action in motion: reversible, of second order, the same as the fast U(1), and in the group for ever."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlhmc
from dlhmc import UserError
from dlhmc.exact.characters import plaquette
from dlhmc.kernels import HMC, State
from dlhmc.kernels.integrators import INTEGRATORS, integrate
from dlhmc.targets import energy_change
from dlhmc.testing.checks import evaluate
from dlhmc.testing.target import TARGET_CHECKS
from dlhmc.theories.gauge.field import wilson

compiled = eqx.filter_jit(integrate)
step = eqx.filter_jit(lambda kernel, key, state: kernel.step(key, state))


def trajectory(target, x, v, step_size, steps, integrator="leapfrog"):
    return compiled(target, INTEGRATORS[integrator], x, v, jnp.asarray(step_size, v.dtype), jnp.int32(steps))[:2]


def phase_space(target, chains, dtype=jnp.float64):
    """Not in equilibrium, but as rough as it is there: a little way from cold."""
    x = evaluate(target.start, jax.random.key(0), "cold", chains, jnp.dtype(dtype))
    of_x, of_v = (target.geometry.momentum(jax.random.key(seed), x) for seed in (1, 2))
    return evaluate(target.geometry.moved, x, of_x), of_v


# The groups that come as theories are held to the whole contract in tests/targets.
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("group", "sides"), [("u1", (3, 4)), ("u3", (2, 3)), ("su4", (3, 2))])
def test_force_of_other_groups(group, sides):
    target = wilson(group, sides, beta=4.0, gamma=0.7, matrices=True)
    x, _ = phase_space(target, 3)
    for check in ("force", "finite differences"):
        assert list(TARGET_CHECKS[check](target, x)) == []


@pytest.mark.parametrize(
    ("group", "sides", "integrator"), [("u2", (4, 3), "omelyan"), ("su3", (2, 2, 3, 2), "leapfrog")]
)
def test_reversible(group, sides, integrator, x64):
    target = wilson(group, sides, 5.0, matrices=True)
    x, v = phase_space(target, 2)
    there = trajectory(target, x, v, 0.1, 10, integrator)
    assert np.abs(there[0] - x).max() > 0.1
    back = trajectory(target, there[0], -there[1], 0.1, 10, integrator)
    assert np.abs(back[0] - x).max() < 1e-13
    assert np.abs(back[1] + v).max() < 1e-12


def test_energy_violation_is_second_order(x64):
    """⟨|ΔH|⟩ ∝ ε² at fixed length, to 5 %."""
    target = wilson("u2", (4, 4), 6.0)
    x, v = phase_space(target, 64)
    steps = np.array([16, 23, 32])
    violation = [
        float(jnp.abs(evaluate(energy_change, target, (x, v), trajectory(target, x, v, 1.0 / n, n))).mean())
        for n in steps
    ]
    assert -np.polyfit(np.log(steps), np.log(violation), 1)[0] == pytest.approx(2.0, rel=0.05)


def test_the_same_trajectory_as_the_fast_u1(x64):
    """Links e^{ix} and the momenta of the angles."""
    fast, general = dlhmc.U1((4, 6), 2.5), dlhmc.wilson("u1", (4, 6), 2.5, matrices=True)
    x = fast.start(jax.random.key(0), "hot", 3, jnp.dtype(jnp.float64))
    v = fast.geometry.momentum(jax.random.key(1), x)
    links = jax.lax.complex(jnp.cos(x), jnp.sin(x))[None, None]
    x_end, v_end = trajectory(fast, x, v, 0.1, 20)
    links_end, v_links = trajectory(general, links, v[None], 0.1, 20)
    np.testing.assert_allclose(v_links[0], v_end, atol=1e-12)
    np.testing.assert_allclose(links_end[0, 0], np.exp(1j * np.asarray(x_end)), atol=1e-12)
    wanted = evaluate(energy_change, fast, (x, v), (x_end, v_end))
    change = evaluate(energy_change, general, (links, v[None]), (links_end, v_links))
    np.testing.assert_allclose(change, wanted, atol=1e-11)
    found, expected = evaluate(general.observables, links_end), evaluate(fast.observables, x_end)
    for name in ("plaquette", "charge", "sine_charge"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-12)
    values = general.exact()
    for name, value in fast.exact().items():
        assert values.get(name, value) == pytest.approx(value, rel=1e-9), name
    assert {"plaquette", "charge_squared"} <= values.keys()


@pytest.mark.parametrize("group", ["u2", "su3"])
def test_rejected_chains_do_not_move_and_accepted_ones_are_in_the_group(group):
    target = wilson(group, (4, 2), 6.0, matrices=True)
    x, _ = phase_space(target, 32, jnp.float32)
    new, info = step(HMC(target, 0.45, 4), jax.random.key(1), State.at(target, x))
    moved = np.any(np.asarray(new.x != x), axis=(0, 1, 2, 3, 4))
    np.testing.assert_array_equal(moved, info.accepted)
    assert 0 < moved.mean() < 1
    assert drift(new.x) < 1e-6
    same, info = step(HMC(target, jnp.float32(1e30), 4), jax.random.key(1), State.at(target, x))
    np.testing.assert_array_equal(same.x, x)
    assert bool(info.nonfinite.all())


def drift(x):
    """The largest entry of U U† − 1."""
    u = np.moveaxis(np.asarray(x, np.complex128), (0, 1), (-2, -1))
    return np.abs(u @ u.conj().swapaxes(-1, -2) - np.eye(u.shape[-1])).max()


@pytest.mark.slow
@pytest.mark.parametrize("group", ["su2", "su3"])
def test_links_stay_in_the_group(group):
    """In single precision, after 10⁴ trajectories."""
    target = wilson(group, (2, 2, 2, 2), 2.0 * int(group[-1]))
    kernel = HMC(target, 0.15, 4)
    x = evaluate(target.start, jax.random.key(0), "hot", 2, jnp.dtype(jnp.float32))

    @jax.jit
    def run(state):
        def body(i, carry):
            state, accepted = carry
            state, info = kernel.step(jax.random.key(i), state)
            return state, accepted + info.accepted.mean()

        return jax.lax.fori_loop(0, 10_000, body, (state, jnp.float32(0)))

    state, accepted = run(kernel.init(x))
    assert 0.5 < float(accepted) / 10_000 < 1
    assert drift(state.x) < 1e-5
    u = np.moveaxis(np.asarray(state.x, np.complex128), (0, 1), (-2, -1))
    assert np.abs(np.linalg.det(u) - 1).max() < 1e-5


def test_what_is_known_exactly():
    """Nothing beyond two dimensions but the centre; no loop that touches itself around the lattice."""
    assert set(wilson("su3", (4, 4, 4), 5.0).exact().values()) == {0.0}
    small, large = wilson("su2", (2, 4), 4.0).exact(), wilson("su2", (3, 4), 4.0, gamma=0.5).exact()
    assert not [name for name in small if name.startswith("loop")]
    assert {"loop 1x2", "loop 2x2"} <= large.keys()
    assert large["plaquette"] == plaquette(2, True, 2.0, 12)
    assert not [name for name in large if name.endswith("im")]


def test_lattices_and_groups_that_there_are_not():
    for sides in ((4,), (4, 1), (2, 2, 2, 2, 2)):
        with pytest.raises(UserError, match=r"^lattice is .* must be a list of whole numbers"):
            wilson("su2", sides, 2.0)
    for group in ("su1", "so3", "su7", "u0", "SU3"):
        with pytest.raises(ValueError, match="is not known"):
            wilson(group, (4, 4), 2.0)
