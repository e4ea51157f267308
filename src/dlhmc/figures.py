"""Figures, for print and screen, in colours that colour-blind readers can tell apart."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

# Okabe and Ito's palette.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00"


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and SVG."""
    paths = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for file in paths:
        figure.savefig(file, dpi=160, bbox_inches="tight")
    return paths


def charge_histories(histories: Mapping[str, NDArray[Any]], title: str) -> Figure:
    """Q_Z against the Monte Carlo step, one panel for each sampler, one line for each chain given."""
    colours = (BLACK, BLUE, ORANGE, GREEN)
    figure = Figure(figsize=(9, 1.2 + 1.9 * len(histories)), layout="constrained")
    axes = figure.subplots(len(histories), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axis, (label, charges), colour in zip(axes, histories.items(), colours, strict=False):
        steps = np.arange(1, len(charges) + 1)
        axis.plot(steps, charges, color=colour, linewidth=0.9, drawstyle="steps-mid")
        axis.set_title(label, loc="left", fontsize=11, color=colour)
        axis.set_ylabel(r"$\mathcal{Q}_{\mathbb{Z}}$", fontsize=14)
        axis.grid(axis="y", alpha=0.25)
        axis.yaxis.get_major_locator().set_params(integer=True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[-1].set_xlabel("Monte Carlo step (trajectories)")
    axes[-1].set_xlim(0, max(len(charges) for charges in histories.values()) + 1)
    figure.suptitle(title, fontsize=12)
    return figure
