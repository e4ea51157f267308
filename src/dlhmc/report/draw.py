"""Charts and films as pictures for print, PNG and SVG."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from matplotlib.ticker import MaxNLocator

from dlhmc.report.charts import BLACK, Chart, Film, Panel, Series

_STILLS = 5
_PARSER = MathTextParser("path")


def save(block: Chart | Film, folder: Path) -> tuple[Path, Path]:
    """Write the picture as PNG and SVG."""
    png, svg = (folder / f"{block.name}{suffix}" for suffix in (".png", ".svg"))
    figure = draw(block)
    figure.savefig(png, dpi=130)
    # Without a date, the same numbers give the same file.
    figure.savefig(svg, metadata={"Date": None})
    return png, svg


def draw(block: Chart | Film) -> Figure:
    """A chart, or some frames of a film side by side."""
    return _chart(block) if isinstance(block, Chart) else _stills(block)


def _chart(chart: Chart) -> Figure:
    columns = min(chart.columns, len(chart.panels))
    rows = math.ceil(len(chart.panels) / columns)
    width = 9.5 if columns > 1 else 8.0
    height = 3.4 if columns > 1 else 2.3 if len(chart.panels) > 1 else 3.6
    figure = Figure(figsize=(width, height * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, panel in zip(axes, chart.panels, strict=False):
        _fill(axis, panel)
    for axis in axes[len(chart.panels) :]:
        axis.set_visible(False)
    figure.suptitle(with_scripts(chart.title), fontsize=12)
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    # A panel with one series has its name on the axis.
    if any(len({series.name for series in panel.series}) > 1 for panel in chart.panels):
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=min(4 if columns > 1 else 3, len(handles)),
            frameon=False,
        )
    return figure


def _fill(axis: Any, panel: Panel) -> None:
    for series in panel.series:
        _add(axis, series, panel)
    if panel.x_log:
        axis.set_xscale("log")
    if panel.y_log:
        axis.set_yscale("log")
    elif all(value is None or float(value).is_integer() for series in panel.series for value in series.y):
        axis.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.set_xlim(panel.x_limits)
    axis.set_ylim(panel.y_limits)
    axis.set_xlabel(with_scripts(panel.x_label))
    axis.set_ylabel(with_scripts(panel.y_label))
    axis.set_title(with_scripts(panel.title), fontsize=10, loc="left")
    axis.grid(alpha=0.2)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _add(axis: Any, series: Series, panel: Panel) -> None:
    x, y = np.asarray(series.x, float), _numbers(series.y)
    label, colour = with_scripts(series.name), series.colour
    if not x.size:
        return
    if series.kind == "band":
        axis.fill_between(x, y, _numbers(series.upper or series.y), color=colour, alpha=0.25, linewidth=0, label=label)
    elif series.kind == "bars":
        width = 0.8 * float(np.min(np.diff(np.unique(x)), initial=math.inf)) if len(x) > 1 else 0.8
        axis.bar(x, y, width=width if math.isfinite(width) else 0.8, color=colour, alpha=0.45, label=label)
    elif series.kind == "points":
        line = ("--" if series.dashed else "-") if series.joined else "none"
        style = {"color": colour, "marker": series.marker, "linestyle": line, "markersize": 5.5, "linewidth": 1.2}
        error = None if series.error is None else np.nan_to_num(_numbers(series.error))
        axis.errorbar(x, y, yerr=error, capsize=2, elinewidth=1, label=label, **style)
        limits = np.asarray(series.is_limit or [False] * len(x), bool) & np.isfinite(y)
        for position, value in zip(x[limits], y[limits], strict=True):
            top = value * 1.8 if panel.y_log else value + 0.1 * float(np.nanmax(y) - np.nanmin(y) or 1.0)
            axis.annotate(
                "", (position, top), (position, value), arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.2}
            )
    else:
        draw_style = "steps-mid" if series.kind == "steps" else "default"
        dashes = "--" if series.dashed else "-"
        axis.plot(x, y, color=colour, linestyle=dashes, linewidth=1.1, drawstyle=draw_style, label=label)


def _stills(film: Film) -> Figure:
    """Frames from first to last, evenly spaced."""
    number = min(_STILLS, len(film.frames))
    chosen = [film.frames[i] for i in np.unique(np.linspace(0, len(film.frames) - 1, number).round().astype(int))]
    rows = max(len(frame.maps) or len(frame.panels) for frame in chosen)
    figure = Figure(figsize=(11, 2.5 * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, len(chosen), squeeze=False, sharey="row" if chosen[0].panels else False)
    image = None
    for place, frame in enumerate(chosen):
        column = axes[:, place]
        for axis, heat in zip(column, frame.maps, strict=False):
            low, high = film.colour_range
            values = np.asarray(heat.values).T
            image = axis.imshow(values, origin="lower", cmap="twilight_shifted", vmin=low, vmax=high)
            axis.set_xticks([])
            axis.set_yticks([])
        for axis, panel in zip(column, frame.panels, strict=False):
            _fill(axis, panel)
            if place:
                axis.set_ylabel("")
        column[0].set_title(with_scripts(frame.label), fontsize=10)
    if image is not None:
        bar = figure.colorbar(image, ax=axes, shrink=0.75)
        low, high = film.colour_range
        bar.set_ticks([low, 0.5 * (low + high), high], labels=[r"$-\pi$", "0", r"$\pi$"])
        bar.set_label(with_scripts(film.colour_label))
    figure.suptitle(with_scripts(film.title), fontsize=12, color=BLACK)
    return figure


def _numbers(values: Sequence[float | None]) -> Any:
    return np.array([math.nan if value is None else value for value in values], float)


def with_scripts(label: str) -> str:
    r"""A label for matplotlib.

    >>> with_scripts("N_{LF}")
    'N$_{\\mathregular{LF}}$'
    """
    text = re.sub(r"([_^])\{(.*?)\}", r"$\1{\\mathregular{\2}}$", label.replace("$", r"\$"))
    try:
        _PARSER.parse(text)
    except ValueError:  # names of someone's own may look like scripts, and be none
        return label.replace("$", r"\$")
    return text
