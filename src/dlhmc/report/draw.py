"""Charts and films as pictures for print, PNG and SVG; `inline` draws the same for a page."""

import functools
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from dlhmc.report.charts import BLACK, Chart, Film, HeatMap, Panel, Series
from dlhmc.storage.tables import superscript

_STILLS = 5
_PARSER = MathTextParser("path")
#: inches that one row of a panel with named rows takes
ROW = 0.23
_LONGEST_ROW = 46


def short(row: str) -> str:
    """The name of a row, which leaves room for its points: a folder may have any name.

    >>> short("leapfrog 0.5/2 + 2× model trained-on-a-large-lattice, 6 layers")
    'leapfrog 0.5/2 + 2× model …e-lattice, 6 layers'
    """
    return row if len(row) <= _LONGEST_ROW else f"{row[:26]}…{row[26 - _LONGEST_ROW + 1 :]}"


def save(block: Chart | Film, folder: Path) -> tuple[Path, Path]:
    """Write the picture as PNG and SVG."""
    png, svg = (folder / f"{block.name}{suffix}" for suffix in (".png", ".svg"))
    figure = draw(block)
    # `Figure.savefig` would draw everything twice for each file.
    FigureCanvasAgg(figure).print_png(png)
    figure.set_layout_engine("none")  # it has been found
    # Without a date, the same numbers give the same file.
    FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None})
    return png, svg


def draw(block: Chart | Film) -> Figure:
    """A chart, or some frames of a film side by side."""
    return _chart(block) if isinstance(block, Chart) else _stills(block)


def _chart(chart: Chart) -> Figure:
    columns = min(chart.columns, len(chart.panels))
    rows = math.ceil(len(chart.panels) / columns)
    width = 9.5 if columns > 1 else 8.0
    height = 3.4 if columns > 1 else 2.3 if len(chart.panels) > 1 else 3.6
    height = max([height, *(ROW * len(panel.rows) + 0.9 for panel in chart.panels if panel.rows)])
    figure = Figure(figsize=(width, height * rows + 0.5), dpi=130, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, panel in zip(axes, chart.panels, strict=False):
        _fill(axis, panel)
    for axis in axes[len(chart.panels) :]:
        axis.set_visible(False)
    figure.suptitle(with_scripts(chart.title), fontsize=12)
    found: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    # In the order of the series: Matplotlib has lines before points.
    names = dict.fromkeys(with_scripts(series.name) for panel in chart.panels for series in panel.series)
    handles = {name: found[name] for name in names if name in found}
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
        add(axis, series, panel)
    scale(axis, panel)
    axis.set_xlabel(with_scripts(panel.x_label))
    axis.set_ylabel(with_scripts(panel.y_label))
    axis.set_title(with_scripts(panel.title), fontsize=10, loc="left")


def scale(axis: Any, panel: Panel) -> None:
    """Scales, limits, ticks and grid, after the series."""
    for one, is_log, set_scale in (
        (axis.xaxis, panel.x_log, axis.set_xscale),
        (axis.yaxis, panel.y_log, axis.set_yscale),
    ):
        if is_log:
            set_scale("log")
            one.set_minor_formatter(NullFormatter())
            one.set_major_formatter(lambda value, _: _power(value))
    axis.set_xlim(panel.x_limits)
    axis.set_ylim(panel.y_limits)
    for one, is_log in ((axis.xaxis, panel.x_log), (axis.yaxis, panel.y_log)):
        low, high = sorted(one.get_view_interval())
        if is_log and high < 100 * low:
            one.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    if panel.rows:
        axis.set_yticks(range(len(panel.rows)), [with_scripts(short(row)) for row in panel.rows])
        axis.set_ylim(len(panel.rows) - 0.4, -0.6)
        axis.tick_params(axis="y", length=0)
    elif not panel.y_log and _are_whole(value for series in panel.series for value in series.y):
        axis.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    if not panel.x_log:
        whole = _are_whole(value for series in panel.series for value in series.x)
        axis.xaxis.set_major_locator(MaxNLocator(nbins=3 if panel.rows else 6, integer=whole))
    axis.grid(alpha=0.2)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _are_whole(values: Iterable[float | None]) -> bool:
    return all(value is None or float(value).is_integer() for value in values)


def _power(value: float) -> str:
    """A tick of a logarithmic axis.

    >>> _power(20.0), _power(1e5), _power(2e-4)
    ('20', '10⁵', '2·10⁻⁴')
    """
    if 1e-3 < value < 1e4:
        return f"{value:g}"
    digit, _, exponent = f"{value:.0e}".partition("e")
    power = "10" + superscript(int(exponent))
    return power if digit == "1" else f"{digit}·{power}"


def colour_of(series: Series) -> str:
    """Black for what is no colour."""
    return series.colour if re.fullmatch("#[0-9A-Fa-f]{6}", series.colour) else BLACK


def add(axis: Any, series: Series, panel: Panel, gid: str | None = None) -> None:
    """Draw a series; in an SVG file its parts bear the identifier."""
    x, y = np.asarray(series.x, float), _numbers(series.y)
    label, colour = with_scripts(series.name), colour_of(series)
    if not x.size:
        return
    if series.kind == "band":
        upper = _numbers(series.upper or series.y)
        artists = [axis.fill_between(x, y, upper, color=colour, alpha=0.25, linewidth=0, label=label)]
    elif series.kind == "bars":
        width = 0.8 * float(np.min(np.diff(np.unique(x)), initial=math.inf)) if len(x) > 1 else 0.8
        width = width if math.isfinite(width) else 0.8
        artists = list(axis.bar(x, np.nan_to_num(y), width=width, color=colour, alpha=0.45, label=label))
    elif series.kind == "points":
        line = ("--" if series.dashed else "-") if series.joined else "none"
        style = {"color": colour, "marker": series.marker, "linestyle": line, "markersize": 5.5, "linewidth": 1.2}
        value, is_log = (x, panel.x_log) if panel.rows else (y, panel.y_log)
        error = np.zeros(len(x)) if series.error is None else np.nan_to_num(_numbers(series.error))
        limits = np.asarray([False] * len(x) if series.is_limit is None else series.is_limit, bool) & np.isfinite(value)
        reach = 0.8 * value if is_log else 0.1 * float(np.nanmax(value) - np.nanmin(value) or 1.0)
        error = np.where(limits, reach, error)
        style |= {"xerr": error, "xlolims": limits} if panel.rows else {"yerr": error, "lolims": limits}
        points, caps, bars = axis.errorbar(x, y, capsize=2, elinewidth=1, label=label, **style)
        artists = [*bars, *caps, points]
    else:
        draw_style = "steps-mid" if series.kind == "steps" else "default"
        dashes = "--" if series.dashed else "-"
        artists = axis.plot(x, y, color=colour, linestyle=dashes, linewidth=1.1, drawstyle=draw_style, label=label)
    for artist in artists:
        artist.set_gid(gid)


def _stills(film: Film) -> Figure:
    """Frames from first to last, evenly spaced."""
    number = min(_STILLS, len(film.frames))
    chosen = [film.frames[i] for i in np.unique(np.linspace(0, len(film.frames) - 1, number).round().astype(int))]
    rows = max(len(frame.maps) or len(frame.panels) for frame in chosen)
    figure = Figure(figsize=(11, 2.5 * rows + 0.6), dpi=130, layout="constrained")
    axes = figure.subplots(rows, len(chosen), squeeze=False, sharey="row" if chosen[0].panels else False)
    image = None
    for place, frame in enumerate(chosen):
        column = axes[:, place]
        for axis, heat in zip(column, frame.maps, strict=False):
            image = add_map(axis, heat, film)
        for axis, panel in zip(column, frame.panels, strict=False):
            _fill(axis, panel)
            if not panel.x_log:
                axis.locator_params(axis="x", nbins=3)  # more labels than that would touch
            if place:
                axis.set_ylabel("")
        column[0].set_title(with_scripts(frame.label), fontsize=10)
    if image is not None:
        colour_bar(figure, image, film, axes).set_label(with_scripts(film.colour_label))
    figure.suptitle(with_scripts(film.title), fontsize=12, color=BLACK)
    return figure


def add_map(axis: Any, heat: HeatMap, film: Film, gid: str | None = None) -> Any:
    """Draw a heat map, likewise."""
    low, high = film.colour_range
    style: Any = {"origin": "lower", "cmap": "twilight_shifted", "vmin": low, "vmax": high, "interpolation": "none"}
    image = axis.imshow(np.asarray(heat.values, float).T, **style)
    image.set_gid(gid)
    for i, j in heat.marked:
        outline = Rectangle((i - 0.5, j - 0.5), 1, 1, fill=False, edgecolor="#00C2A0", linewidth=1.6, gid=gid)
        axis.add_patch(outline)
    axis.set_xticks([])
    axis.set_yticks([])
    return image


def colour_bar(figure: Figure, image: Any, film: Film, axes: Any) -> Any:
    """The colours of heat maps beside the axes."""
    bar = figure.colorbar(image, ax=axes, shrink=0.75)
    low, high = film.colour_range
    middle = 0.5 * (low + high)
    names = (
        ["−π", "0", "π"] if math.isclose(high, math.pi) and middle == 0 else [f"{v:.3g}" for v in (low, middle, high)]
    )
    bar.set_ticks([low, middle, high], labels=names)
    return bar


def _numbers(values: Sequence[float | None]) -> Any:
    return np.array([math.nan if value is None else value for value in values], float)


@functools.cache
def with_scripts(label: str) -> str:
    r"""A label for matplotlib.

    >>> with_scripts("N_{LF}")
    'N$_{\\mathregular{LF}}$'
    """
    plain = label.replace("$", r"\$")
    text = re.sub(r"([_^])\{(.*?)\}", r"$\1{\\mathregular{\2}}$", plain)
    try:
        if text != plain:
            _PARSER.parse(text)
    except ValueError:  # names of someone's own may look like scripts, and be none
        return plain
    return text
