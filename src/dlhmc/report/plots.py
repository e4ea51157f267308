"""How figures look, and the few marks that they share. Labels are plain text with _{…} and ^{…} for scripts."""

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from dlhmc.statistics.quantity import Quantity
from dlhmc.tables import SCRIPT

# Okabe and Ito's palette, which colour-blind readers can tell apart.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#8A8A8A"
#: of learned samplers
COLOURS = (VERMILION, PURPLE, ORANGE, SKY) * 3
_SHOWN_STEPS = 1000
_STYLE: Any = {"axes.grid": True, "grid.alpha": 0.2, "axes.axisbelow": True, "axes.formatter.useoffset": False} | {
    f"axes.spines.{side}": False for side in ("top", "right")
}


def panels(number: int, columns: int, width: float, height: float, **shared: Any) -> tuple[Figure, list[Any]]:
    """A figure with so many axes, each of this size in inches."""
    rows = -(-number // columns)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(columns * width, rows * height), layout="constrained")
        axes = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for axis in axes[number:]:
        axis.remove()
    return figure, axes[:number]


def mathtext(label: str) -> str:
    r"""A label for Matplotlib.

    >>> mathtext("N_{LF}")
    'N$_{\\mathregular{LF}}$'
    """
    return SCRIPT.sub(r"$\1{\\mathregular{\2}}$", label.replace("$", r"\$"))


def add_legend(figure: Figure) -> None:
    """One for all axes, below them; none for a single name."""
    found: dict[str, Any] = {}
    for axis in figure.axes:
        found |= {label: mark for mark, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if len(found) > 1:
        columns = 3 if figure.get_figwidth() > 8 else 2
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=columns, frameon=False)


def mark(axis: Any, points: Iterable[tuple[float, Quantity]], *, in_rows: bool = False, **style: Any) -> None:
    """Quantities at places with their errors; arrows from where only a lower limit is known."""
    known = [(place, quantity, quantity.figure) for place, quantity in points if quantity.figure is not None]
    places, values = [place for place, _, _ in known], [value for _, _, value in known]
    limits = [quantity.value is None for _, quantity, _ in known]
    errors = [0.8 * value if quantity.value is None else quantity.error or 0.0 for _, quantity, value in known]
    style = {"capsize": 2, "markersize": 5.5, "linewidth": 1.2, **style}
    if in_rows:
        axis.errorbar(values, places, xerr=errors, xlolims=limits, **style)
    else:
        axis.errorbar(places, values, yerr=errors, lolims=limits, **style)


def plot_history(axis: Any, values: ArrayLike, label: str, **style: Any) -> None:
    """The beginning of one chain; steps where all values are whole numbers."""
    shown = np.asarray(values, float)[:_SHOWN_STEPS]
    whole = bool(np.all(shown == np.round(shown)))
    axis.plot(range(1, len(shown) + 1), shown, drawstyle="steps-mid" if whole else "default", linewidth=1.1, **style)
    axis.yaxis.get_major_locator().set_params(integer=whole)
    axis.set(xlabel="Monte Carlo step (trajectories)", ylabel=mathtext(label))


def draw_histories(chains: Mapping[str, ArrayLike], label: str) -> Figure:
    """An observable along one chain of each sampler, one below the other on the same axes."""
    figure, axes = panels(len(chains), 1, 8.0, 2.0, sharex=True, sharey=True)
    for axis, colour, (title, values) in zip(axes, (BLUE, *COLOURS), chains.items(), strict=False):
        plot_history(axis, values, label, color=colour)
        axis.set_title(mathtext(title), fontsize=10, loc="left")
        axis.label_outer()
    return figure
