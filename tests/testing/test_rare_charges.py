"""Rare charges neither raise false alarms nor go unseen."""

import numpy as np
from scipy import stats

from dlhmc.testing.stationarity import covariance_of

CHAINS = 10_000
RARE = 1.35e-3


def p_values(probability, repeats):
    """Of an indicator with the given probability and a normal, tested as having RARE and 0."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(repeats):
        sample = np.stack([rng.random(CHAINS) < probability, rng.standard_normal(CHAINS)]) - [[RARE], [0.0]]
        covariance = covariance_of(sample, np.array([RARE, 0.0])) / CHAINS
        mean = sample.mean(axis=1)
        found.append(stats.chi2.sf(mean @ np.linalg.solve(covariance, mean), 2))
    return np.array(found)


def test_false_alarms_are_as_rare_as_stated():
    # At level 0.01, 20 of 2000 are expected; more than 38 come about at a new seed with probability 1e-4. With the
    # variance of the sample there are 67.
    assert np.sum(p_values(RARE, 2000) < 0.01) <= 38


def test_a_wrong_frequency_is_seen():
    assert np.median(p_values(3 * RARE, 20)) < 1e-9
