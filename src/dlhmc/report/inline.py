"""Charts and films on the page: each panel as an SVG element, drawn like the picture for print.

The page's script hides series, changes frames and marks points by what elements say of themselves: `data-series` and
`data-frame` of what is drawn, the box of the axes, and their limits.
"""

import dataclasses
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar
from xml.etree import ElementTree

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from dlhmc.report.charts import BLACK, Chart, Film, Frame, HeatMap, Panel, Series
from dlhmc.report.draw import ROW, add, add_map, colour_bar, colour_of, scale, short
from dlhmc.storage.tables import plain

T = TypeVar("T")
#: inches of a panel, by how many stand in a row
_SIZES = {1: (7.6, 2.4), 2: (4.7, 3.0), 3: (3.6, 2.7)}
_SWATCH = Markup('<svg class="swatch" aria-hidden="true" viewBox="0 0 26 14" color="{}" stroke-dasharray="{}">{}</svg>')
_MARKERS = {
    "o": "M9 7a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "s": "M9 3h8v8h-8z",
    "^": "M13 2l5 9h-10z",
    "v": "M13 12l5-9h-10z",
    "D": "M13 2l5 5l-5 5l-5-5z",
    "x": "M9 3l8 8m0-8l-8 8",
}
_SWATCHES = {
    "line": Markup('<path d="M0 7H26" fill="none" stroke="currentColor" stroke-width="2"/>'),
    "steps": Markup('<path d="M0 11H13V3H26" fill="none" stroke="currentColor" stroke-width="2"/>'),
    "bars": Markup('<path d="M2 1H24V13H2z" fill="currentColor" fill-opacity="0.45"/>'),
    **{
        marker: Markup('<path d="{}" fill="currentColor" stroke="currentColor"/>').format(path)
        for marker, path in _MARKERS.items()
    },
    "band": Markup('<path d="M2 1H24V13H2z" fill="currentColor" fill-opacity="0.25"/>'),
}


class Drawn(NamedTuple):
    """A panel or heat map on the page: what stands at one place in all frames."""

    title: str
    x_label: str
    y_label: str
    svg: Markup
    has_rows: bool = False


def inline(block: Chart | Film, prefix: str) -> list[Drawn]:
    """The panels for a page, films with all of their frames; identifiers within the page follow from the prefix."""
    numbers = {name: number for number, name in enumerate(_by_name(block))}
    frames = [Frame("", block.panels)] if isinstance(block, Chart) else block.frames
    columns = columns_of(block)
    found = []
    for place, panels in enumerate(_places([frame.panels for frame in frames])):
        panel = next(iter(panels.values()))
        with _styled(f"{prefix}-panel-{place}"):
            svg = _panel_svg(
                panels, numbers, *((0, columns) if isinstance(block, Chart) else (block.first, max(2, columns)))
            )
        found.append(Drawn(panel.title, panel.x_label, panel.y_label, svg, bool(panel.rows)))
    if isinstance(block, Film):
        for place, maps in enumerate(_places([frame.maps for frame in frames])):
            with _styled(f"{prefix}-map-{place}"):
                svg = _map_svg(maps, block)
            found.append(Drawn(next(iter(maps.values())).title, block.colour_label, "", svg))
    return found


def columns_of(block: Chart | Film) -> int:
    """How many panels stand in a row."""
    if isinstance(block, Chart):
        return max(1, min(block.columns, len(block.panels), 3))
    return max([1, *(min(len(frame.panels) + len(frame.maps), 3) for frame in block.frames)])


def legend(block: Chart | Film) -> list[tuple[str, Markup]]:
    """Names of series and a small picture of each."""
    found = []
    for name, series in _by_name(block).items():
        kinds = [one.marker if one.kind == "points" else one.kind for one in series]
        shapes = dict.fromkeys([*kinds, *("line" for one in series if one.joined)])
        picture = Markup("").join(_SWATCHES[shape] for shape in shapes)
        dashes = "6 3" if any(one.dashed for one in series) else "none"
        found.append((name, _SWATCH.format(_attribute(colour_of(series[0])), dashes, picture)))
    return found


def _places(frames: Sequence[Sequence[T]]) -> list[dict[int, T]]:
    """What stands at each place, by the number of its frame."""
    most = max(map(len, frames), default=0)
    return [
        {number: frame[place] for number, frame in enumerate(frames) if place < len(frame)} for place in range(most)
    ]


def _styled(prefix: str) -> AbstractContextManager[None]:
    """Texts stay texts, which a reader can select; each frame of a film stays a picture of its own."""
    return mpl.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": prefix, "image.composite_image": False, "font.size": 9.5}
    )


def _by_name(block: Chart | Film) -> dict[str, list[Series]]:
    """All series by their name: its number is how a page finds them."""
    panels = block.panels if isinstance(block, Chart) else [panel for frame in block.frames for panel in frame.panels]
    found: dict[str, list[Series]] = {}
    for series in (series for panel in panels for series in panel.series):
        found.setdefault(series.name, []).append(series)
    return found


def _panel_svg(panels: Mapping[int, Panel], numbers: Mapping[str, int], first: int, columns: int) -> Markup:
    """What stands at one place in all frames, on the same axes; `first` is the frame that is seen."""
    panel = next(iter(panels.values()))
    (width, height), left = _SIZES[columns], 0.55
    if panel.rows:
        height, left = ROW * len(panel.rows) + 0.4, 0.068 * max(len(plain(short(row))) for row in panel.rows) + 0.1
    figure = Figure(figsize=(width, height))
    axis = figure.add_axes((left / width, 0.32 / height, 1 - (left + 0.2) / width, 1 - 0.5 / height))
    for frame, one in panels.items():
        for series in one.series:
            add(axis, series, one, f"drawn {numbers[series.name]} {frame}")
    # Ticks that suit all frames.
    scale(axis, dataclasses.replace(panel, series=[series for one in panels.values() for series in one.series]))
    names = ", ".join(dict.fromkeys(plain(series.name) for series in panel.series if series.name))
    y = "" if panel.rows else f", {_range(axis.get_ylim())}"
    label = f"{plain(panel.y_label or panel.title)}{y}, against {plain(panel.x_label)}, {_range(axis.get_xlim())}."
    return _element(axis, f"{label} Shown: {names}." if names else label, first, (panel.x_log, panel.y_log))


def _map_svg(maps: Mapping[int, HeatMap], film: Film) -> Markup:
    """Heat maps of all frames, one above the other."""
    figure = Figure(figsize=(4.0, 2.7))
    axis = figure.add_axes((0.02, 0.02, 0.8, 0.96))
    images = [add_map(axis, heat, film, f"drawn 0 {frame}") for frame, heat in maps.items()]
    colour_bar(figure, images[0], film, axis)
    axis.apply_aspect()
    heat = next(iter(maps.values()))
    size = f"{len(heat.values)} by {max(map(len, heat.values), default=0)} values"
    return _element(axis, f"{plain(heat.title)}: {size}, {plain(film.colour_label)}.", film.first)


def _range(limits: tuple[float, float]) -> str:
    low, high = (f"{value:.3g}".replace("-", "−") for value in sorted(limits))
    return f"{low} to {high}"


def _element(axis: Any, label: str, first: int, is_log: tuple[bool, bool] = (False, False)) -> Markup:
    """The figure as an SVG element for HTML, without style attributes, which the page forbids."""
    buffer = io.StringIO()
    for patch in (axis.figure.patch, axis.patch):
        patch.set_visible(False)
    FigureCanvasSVG(axis.figure).print_svg(buffer)
    root = ElementTree.fromstring(buffer.getvalue())  # noqa: S314 - Matplotlib made it
    referenced = set(re.findall(r"#(\w+)", buffer.getvalue()))
    for parent in list(root.iter()):
        for child in [child for child in parent if _local(child.tag) in ("metadata", "style")]:
            parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = _attributes({_local(name): value for name, value in element.attrib.items()})
        kind, *numbers = attributes.get("id", "").split(" ")
        if kind not in referenced:
            attributes.pop("id", None)
        if kind == "drawn":
            attributes |= {"data-series": numbers[0], "data-frame": numbers[1]}
            attributes["display"] = "inline" if int(numbers[1]) == first else "none"
        element.attrib.clear()
        element.attrib.update(attributes)
    width, height = (float(value) for value in root.attrib["viewBox"].split()[2:])
    left, bottom, across, up = axis.get_position().bounds
    box = (left * width, (1 - bottom - up) * height, across * width, up * height)
    root.attrib.clear()
    root.attrib.update(
        {
            "viewBox": f"0 0 {width:g} {height:g}",
            "role": "img",
            "aria-label": label,
            "data-box": _spaced(box),
            "data-x": _spaced((*axis.get_xlim(), is_log[0])),
            "data-y": _spaced((*axis.get_ylim(), is_log[1])),
        }
    )
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 - it has been escaped


def _spaced(values: Iterable[float]) -> str:
    return " ".join(f"{float(value):.8g}" for value in values)


def _attributes(old: Mapping[str, str]) -> dict[str, str]:
    """Styles as attributes."""
    found = {name: value for name, value in old.items() if name != "style"}
    for part in old.get("style", "").split(";"):
        name, _, value = (piece.strip() for piece in part.partition(":"))
        if name == "font":
            found["font-size"] = value.split("px")[0].split()[-1]
        elif name and name != "font-family":
            found[name] = value
    return {name: _attribute(value) for name, value in found.items()}


def _attribute(value: str) -> str:
    """Black is the colour of text, whatever that is."""
    return "currentColor" if value == BLACK else value


def _local(name: str) -> str:
    return name.rpartition("}")[2]
