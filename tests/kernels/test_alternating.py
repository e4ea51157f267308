"""Kernels that take turns: both are watched."""

import contextlib

import jax.numpy as jnp
import pytest

import dlhmc
from dlhmc.kernels.alternating import Alternating
from dlhmc.kernels.contract import Kernel


class Heated(Kernel):
    """HMC that says of each proposal that it costs less than it does, as without its Jacobian."""

    kernel: dlhmc.HMC

    @property
    def target(self):
        return self.kernel.target

    def step(self, key, state):
        state, info = self.kernel.step(key, state)
        return state, info._replace(energy_change=info.energy_change - jnp.float32(0.5))


@pytest.mark.parametrize("moves_are_sound", [True, False])
def test_moves_that_are_not_exact_raise_an_alarm_of_their_own(moves_are_sound):
    target = dlhmc.U1((4, 4), 2.0)
    hmc, move = dlhmc.HMC(target, 0.2, 4), dlhmc.HMC(target, 0.3, 3)
    kernel = Alternating(hmc, move if moves_are_sound else Heated(move), 2)
    with contextlib.nullcontext() if moves_are_sound else pytest.warns(UserWarning, match="^Moves: "):
        summary = dlhmc.sample(kernel, chains=64, trajectories=100, progress=False).summary()
    assert summary["exp_minus_dh"]["mean"] == pytest.approx(1, abs=0.1)
    assert summary["exp_minus_dh_of_moves"]["mean"] == pytest.approx(1 if moves_are_sound else 1.65, abs=0.15)
    assert bool(summary["alarms"]) != moves_are_sound
    assert all(alarm.startswith("Moves: ⟨") for alarm in summary["alarms"])
