"""What a report shows of comparisons on U(1): the charge beside exact results, and tunnelling layer by layer."""

import math
from typing import Any

import numpy as np

from dlhmc.exact import characters as exact
from dlhmc.report.compared import ComparedRun
from dlhmc.report.page import Block, Picture
from dlhmc.report.plots import BLUE, COLOURS, GREEN, add_legend, draw_histories, mathtext, panels
from dlhmc.theories.gauge.figures import GaugeFigures
from dlhmc.theories.u1.layers import layer_blocks
from dlhmc.theories.u1.theory import SYMBOLS, U1Settings

Q_Z = SYMBOLS["charge"]


class U1Figures(GaugeFigures):
    """Those of the paper."""

    def compared(self, run: ComparedRun) -> list[Block]:
        """The charge of one chain, how often each charge occurred, and what the layers do."""
        charges = {name: run.history(entry, "charge") for name, entry in run.contenders.items()}
        caption = "The charge of one chain after each trajectory. A flat line is a chain that stays in its sector."
        histories = draw_histories({name: values[:, 0] for name, values in charges.items()}, Q_Z)
        return [
            Picture("charge-history", f"Topological charge of one chain, {run.where}", caption, histories),
            _distribution(run, charges),
            *layer_blocks(run),
        ]


def in_words(settings: U1Settings) -> str:
    """16×16 at β = 7."""
    return f"{'×'.join(map(str, settings.lattice))} at β = {settings.beta:g}"


def _distribution(run: ComparedRun, charges: dict[str, Any]) -> Picture:
    described = run.results.target
    reach = min(100, max(int(np.abs(values).max()) for values in charges.values()) + 1)
    sectors = np.arange(-reach, reach + 1)
    figure, (axis,) = panels(1, 1, 8.0, 3.4)
    probabilities = exact.charge_distribution(1, described["beta"], math.prod(described["lattice"]), sectors)
    axis.bar(sectors, np.asarray(probabilities), color=GREEN, alpha=0.45, label="exact P(Q)")
    for number, ((name, values), colour) in enumerate(zip(charges.items(), (BLUE, *COLOURS), strict=False)):
        # The error of a frequency is that of the average of a 0/1 series; chains are independent of each other.
        each = np.stack([(values == sector).mean(axis=0) for sector in sectors])
        error = each.std(axis=1, ddof=1) / math.sqrt(each.shape[1])
        places = sectors + 0.12 * (number - 0.5 * (len(charges) - 1))
        axis.errorbar(places, each.mean(axis=1), error, fmt="o", markersize=4, color=colour, label=mathtext(name))
    axis.set(xlabel=mathtext(Q_Z), ylabel=mathtext(f"P({Q_Z})"), yscale="log", ylim=(1e-6, 1.5))
    add_legend(figure)
    caption = (
        "Frequencies of the charge with errors from the spread of the chains, against the exact distribution (bars). "
        "The chains start from exact configurations, so even a frozen sampler is right on average; its errors are what "
        "its starts left it."
    )
    return Picture("charge-distribution", f"Distribution of the charge, {run.where}", caption, figure)
