"""The charge against the Monte Carlo step."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from dlhmc.report.charts import Chart, Panel, Series

Q_Z, Q_R = "Q_{ℤ}", "Q_{ℝ}"
_SHOWN_STEPS = 1000


class Charges(NamedTuple):
    """The charges of one chain."""

    label: str
    values: NDArray[Any]
    colour: str


def charge_chart(name: str, title: str, histories: Sequence[Charges]) -> Chart:
    """Q_Z of one chain for each sampler, one below the other."""
    histories = [chain._replace(values=chain.values[:_SHOWN_STEPS].astype(int)) for chain in histories]
    longest = max(len(chain.values) for chain in histories)
    limits = (
        float(min(chain.values.min() for chain in histories)) - 0.5,
        float(max(chain.values.max() for chain in histories)) + 0.5,
    )
    panels = []
    for label, charges, colour in histories:
        series = Series(label, list(range(1, len(charges) + 1)), charges.tolist(), "steps", colour)
        steps = (0.0, float(longest))
        panels.append(Panel("Monte Carlo step (trajectories)", Q_Z, [series], label, x_limits=steps, y_limits=limits))
    caption = "The charge of one chain after each trajectory: HMC stays in its sector, the trained sampler moves."
    return Chart(name, title, caption, panels, columns=1)
