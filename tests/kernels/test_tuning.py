"""Dual averaging against its equations; that it finds a step size is tested with HMC."""

import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.kernels.tuning import StepSizeTuner
from unoptimised import unoptimised

update = unoptimised(lambda tuner, acceptance, wanted: tuner.update(acceptance, wanted))


def test_updates_are_those_of_hoffman_and_gelman():
    """Eq. (6) with μ = log 2ε, t₀ = 10, κ = ¾ and γ = 0.2, for the acceptance of each trajectory over all chains."""
    acceptances = np.random.default_rng(0).uniform(0.3, 1, (6, 5)).astype(np.float32)
    tuner = StepSizeTuner.start(jnp.float32(0.3))
    assert tuner.step_size == tuner.result == pytest.approx(0.3)
    mismatch, average = 0.0, np.log(0.3)
    for t, acceptance in enumerate(acceptances, start=1):
        tuner = update(tuner, acceptance, jnp.float32(0.8))
        mismatch = (1 - 1 / (t + 10)) * mismatch + (0.8 - acceptance.mean()) / (t + 10)
        step = np.log(0.6) - np.sqrt(t) / 0.2 * mismatch
        average = t**-0.75 * step + (1 - t**-0.75) * average
        assert tuner.step_size == pytest.approx(np.exp(step), rel=2e-3)
        assert tuner.result == pytest.approx(np.exp(average), rel=2e-3)


def test_chains_may_be_spread_over_devices_in_any_order():
    acceptance = np.random.default_rng(0).uniform(size=1000).astype(np.float32)
    start = StepSizeTuner.start(jnp.float32(0.3))
    steps = {float(update(start, np.roll(np.sort(acceptance), 99 * i), jnp.float32(0.8)).log_step) for i in range(9)}
    assert len(steps) == 1
