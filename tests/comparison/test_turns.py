"""Which HMC goes on, equal times, and limits of what did not move."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from dlhmc.actions import Action
from dlhmc.comparison.comparing import _learn_variance
from dlhmc.comparison.lineup import Competitor
from dlhmc.comparison.turns import Sampler, select, take_turns
from dlhmc.geometry.flat import FlatSpace
from dlhmc.kernels import Info, Kernel
from dlhmc.targets import Known, Target

ROWS, CHAINS = 500, 2


class Well(Action):
    """x²/2."""

    def terms(self, x):
        return 0.5 * x * x


def Rounded(given=None):  # noqa: N802
    """A normal of width 0.3, rounded: 0 in nine cases of ten, with σ² = 2(1 − Φ(0.5/0.3)) = 0.0956."""
    known = Known({}, lambda target: {"side": 0.0}, "side", slow_variance=lambda target, name: given)
    return Target(FlatSpace((3,)), [Well()], lambda x: {"x": x[0], "side": jnp.round(0.3 * x[0])}, known)


class Counted(NamedTuple):
    """A state of its own."""

    x: Array
    steps: Array


class Moves(Kernel):
    """A fresh x every so many trajectories; 0 for never."""

    target: Target
    period: int

    def init(self, x):
        return Counted(x, jnp.zeros((), jnp.int32))

    def step(self, key, state):
        move = (self.period > 0) & (state.steps % max(self.period, 1) == 0)
        ones = jnp.ones(state.x.shape[-1], state.x.dtype)
        info = Info(ones, ones > 0, 0 * ones, ones < 0)
        x = jnp.where(move, jax.random.normal(key, state.x.shape, state.x.dtype), state.x)
        return Counted(x, state.steps + 1), info

    @property
    def leapfrog_steps(self):
        return 1


def sampler(target, period, kind="hmc", slow=("side",)):
    competitor = Competitor("HMC", f"every {period}", kind, Moves(target, period))
    x = target.start(jax.random.key(0), "cold", CHAINS, np.float32)
    made = Sampler(competitor, dict.fromkeys(slow, 0.0), ("x", "side"), x, seed=1)
    made.compile()
    return made


def moved(target, period):
    """After so many trajectories."""
    made = sampler(target, period)
    made._advance(ROWS)
    made.pace = [1.0]
    made.look(lambda name: target.known.slow_variance(target, name), now=True)
    return made


def variance_free(name):
    return None


def never():
    return False


def test_of_hmc_the_few_that_move_fastest_go_on_and_all_others():
    target = Rounded()
    candidates = [sampler(target, period) for period in (0, 64, 1, 16)]
    model = sampler(target, 0, kind="model")
    for one in candidates:
        one.take_turn = lambda seconds, one=one: (one._advance(ROWS), one.pace.append(1.0))
    chosen = select([*candidates, model], 1.0, never)
    assert chosen == [candidates[2], candidates[3], model]
    # Speeds are compared turn by turn: nobody is a turn ahead.
    assert [one.pace for one in chosen] == [[], [], []]


def test_where_the_sector_did_not_move_at_all_the_next_observable_decides():
    target = Rounded()
    candidates = [sampler(target, period, slow=("side", "x")) for period in (0, 64, 1)]
    for one in candidates:
        one.take_turn = lambda seconds, one=one: (one._advance(ROWS), one.pace.append(1.0))
        one._chunks["side"] = [np.zeros((0, CHAINS), np.float32)]
    for one in candidates:
        record = one._advance

        def without_sector(count, one=one, record=record):
            record(count)
            one._chunks["side"] = [np.zeros_like(chunk) for chunk in one._chunks["side"]]

        one._advance = without_sector
    assert select(candidates, 1.0, never) == candidates[1:]


def test_all_have_equal_times_and_a_measured_sampler_goes_on():
    target = Rounded()
    fast, frozen = sampler(target, 1), sampler(target, 0)
    seconds = take_turns([fast, frozen], 0.5, 0.0, variance_free, never, lambda elapsed, facts: None)
    assert len(fast.pace) == len(frozen.pace) >= 8
    assert fast.is_known_to(0.5)
    assert not frozen.is_known_to(0.5)
    assert seconds > 0


def test_a_signal_ends_it_with_what_there_is():
    one = sampler(Rounded(), 1)
    take_turns([one], 0.5, 100.0, variance_free, lambda: bool(one.pace), lambda elapsed, facts: None)
    assert len(one.pace) == 1
    assert one.taus


@pytest.mark.parametrize("given", [None, 0.09])
def test_limits_of_frozen_samplers_take_the_variance_that_another_has_measured(given):
    target = Rounded(given)
    frozen, free = moved(target, 0), moved(target, 1)
    steps = (frozen.rows - 1) * CHAINS

    def limit(variance):
        return 2 * variance * steps / np.log(20) - 0.5

    assert frozen.taus["side"].lower_bound == pytest.approx(limit(given or 0.5))
    _learn_variance(target, [frozen, free])
    if given is None:
        assert limit(0.06) < frozen.taus["side"].lower_bound < limit(0.0956)
    else:
        assert frozen.taus["side"].lower_bound == pytest.approx(limit(given))
