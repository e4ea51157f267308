"""An observable against the Monte Carlo step."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dlhmc.report.charts import Chart, Kind, Panel, Series

SHOWN_STEPS = 1000
STEP = "Monte Carlo step (trajectories)"


class Chain(NamedTuple):
    """An observable along one chain of a sampler."""

    label: str
    values: NDArray[Any]
    colour: str


def history_chart(name: str, title: str, caption: str, label: str, chains: Sequence[Chain]) -> Chart:
    """The observable of one chain for each sampler, one below the other, on the same axes."""
    chains = [chain._replace(values=chain.values[:SHOWN_STEPS]) for chain in chains]
    steps = (0.0, float(max(len(chain.values) for chain in chains)))
    lowest = float(min(chain.values.min() for chain in chains))
    highest = float(max(chain.values.max() for chain in chains))
    margin = 0.05 * (highest - lowest) or 0.5
    limits = (lowest - margin, highest + margin)
    panels = [
        Panel(STEP, label, [history_series(*chain)], chain.label, x_limits=steps, y_limits=limits) for chain in chains
    ]
    return Chart(name, title, caption, panels, columns=1)


def history_series(label: str, values: NDArray[Any], colour: str) -> Series:
    """One chain: steps where all values are whole numbers, else a line."""
    values = values[:SHOWN_STEPS]
    whole = bool(np.all(values == np.round(values)))
    kind: Kind = "steps" if whole else "line"
    shown = values.astype(int) if whole else values
    return Series(label, list(range(1, len(values) + 1)), shown.tolist(), kind, colour)
