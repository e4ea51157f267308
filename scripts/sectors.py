"""How far ⟨Q²⟩ is off in units of its error where sectors change rarely: docs/guides/errors.md has the result.

Metropolis steps of ±1 on the integers and between two states, from exact draws:

    python scripts/sectors.py CHAINS STEPS ENSEMBLES
"""

import sys

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dlhmc.statistics import gamma_method
from dlhmc.statistics.uncertainty import FEWEST_SECTOR_CHANGES, error_of_mean, independent_sector_changes

INTEGERS = np.arange(-12, 13)
# Expected changes in all, in units of 8σ² (at least 1).
CHANGES = (0, 3, 10, 20, 30, 45, 60, 80, 120, 200, 400)


def simulate(
    values: NDArray[np.int64], weights: NDArray[np.float64], rate: float, shape: tuple[int, int], seed: int
) -> NDArray[np.float64]:
    """Histories [step, chain] in which `rate` of the steps propose a neighbour."""
    rng = np.random.default_rng(seed)
    padded = np.pad(weights, 1)
    state = rng.choice(len(values), size=shape[1], p=weights) + 1
    history = np.empty(shape)
    for row in history:
        row[:] = values[state - 1]
        proposal = state + rng.choice([-1, 1], size=shape[1])
        accepted = rng.random(shape[1]) < rate * np.minimum(1, padded[proposal] / padded[state])
        state = np.where(accepted, proposal, state)
    return history


def main(chains: int, steps: int, ensembles: int) -> None:
    """Print how many deviations are beyond 3σ, with and without the rule."""
    targets = []
    for variance in (0.1, 0.2, 0.4, 1, 3, 8):
        weights = np.exp(-(INTEGERS**2) / (2 * variance))
        targets.append((INTEGERS, weights / weights.sum()))
    targets += [(np.arange(2), np.array([1 - share, share])) for share in (0.02, 0.1, 0.5)]
    found = []
    for values, weights in targets:
        exact = float(weights @ values**2)
        variance = exact - float(weights @ values) ** 2
        acceptance = float(np.minimum(weights[1:], weights[:-1]).sum())
        for number in CHANGES:
            rate = number * max(1, 8 * variance) / (chains * steps * acceptance)
            if rate > 1:
                continue
            histories = simulate(values, weights, rate, (steps, chains * ensembles), seed=number)
            for sector in np.split(histories, ensembles, axis=1):
                analysis = gamma_method(sector**2)
                error = error_of_mean(analysis)
                if np.isfinite(error):
                    changes = independent_sector_changes(sector, analysis.tau.value, equilibrium_start=True)
                    found.append((changes, abs(analysis.mean - exact) / error))
    changes, pulls = np.array(found).T
    least = FEWEST_SECTOR_CHANGES
    for name, chosen in (
        (f"{least} changes of sector or more", changes >= least),
        (f"{least} to {2 * least}", (changes >= least) & (changes < 2 * least)),
        ("40 or more", changes >= 40),
        ("40 to 80", (changes >= 40) & (changes < 80)),
        (f"fewer than {least}", changes < least),
    ):
        share = np.mean(pulls[chosen] > 3)
        Console().out(f"{name}: {chosen.sum()} ensembles, {share:.2%} beyond 3σ, at most {pulls[chosen].max():.1f}σ")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
