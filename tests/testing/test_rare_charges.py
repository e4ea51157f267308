"""Rare events neither raise false alarms nor hide what is wrong."""

import numpy as np

from dlhmc.testing.stationarity import p_value_of_means

CHAINS = 2000
# Like those of a lattice gauge theory: the charges ±3 come about in 4 chains, and ±4 in every other sample.
CHARGES = np.arange(-4, 5)
PROBABILITIES = np.array([1e-4, 1e-3, 0.03, 0.22])
PROBABILITIES = np.array([*PROBABILITIES, 1 - 2 * PROBABILITIES.sum(), *PROBABILITIES[::-1]])
SHOWN = (CHARGES >= -2) & (CHARGES <= 2)


def deviations(rng, probabilities):
    """Q², whether Q is 0, ±1 or ±2, and a normal number, minus what they are on average."""
    charge = rng.choice(CHARGES, CHAINS, p=probabilities)
    functions = [charge**2, *(charge == q for q in CHARGES[SHOWN]), rng.standard_normal(CHAINS)]
    means = [PROBABILITIES @ CHARGES**2, *PROBABILITIES[SHOWN], 0]
    return np.stack(functions) - np.array(means)[:, None]


def p_values(probabilities, repeats):
    rng = np.random.default_rng(1)
    pairs = ((deviations(rng, probabilities), deviations(rng, PROBABILITIES)) for _ in range(repeats))
    return np.array([p_value_of_means(*pair) for pair in pairs])


def test_false_alarms_are_as_rare_as_stated():
    # At level 0.01, 20 of 2000 are expected; more than 38 come about at a new seed with probability 1e-4. With all
    # combinations of the functions there are 54.
    assert np.sum(p_values(PROBABILITIES, 2000) < 0.01) <= 38


def test_a_wrong_frequency_is_seen():
    wrong = np.where(np.abs(CHARGES) == 2, 2, 1) * PROBABILITIES
    assert np.median(p_values(wrong / wrong.sum(), 20)) < 1e-9


def test_chains_that_are_not_finite_are_not_in_equilibrium():
    sample = deviations(np.random.default_rng(2), PROBABILITIES)
    broken = sample.copy()
    broken[0, 3] = np.nan
    assert p_value_of_means(broken, sample) == 0
