"""The report as one HTML file that needs nothing else: plots that respond to the reader, and show without.

Texts may come from the files of a stranger's run: they are escaped, and the page forbids all scripts but its own.
"""

import base64
import dataclasses
import functools
import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from importlib import resources

import jinja2
import numpy as np
from markupsafe import Markup, escape

from dlhmc.report.charts import Chart, Film, HeatMap, Page, Table
from dlhmc.report.inline import columns_of, inline, legend
from dlhmc.storage.tables import plain

_SCRIPT = re.compile(r"([_^])\{([^{}]*)\}")
_BEFORE_PERCENT = re.compile(r"(?<=\d) (?=%)")
_NUMBER = re.compile(r"[<>≤≥≈~±+\-−\s]*[\d.]")
#: a colour shows no more digits than these
_DIGITS_OF_MAPS = 5


def render(page: Page) -> str:
    """The page."""
    style, script = _resource("page.css"), _resource("page.js")
    policy = (
        f"default-src 'none'; script-src {_source_hash(script)}; style-src {_source_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return _template().render(page=page, style=style, script=script, policy=policy)


def data(figure: Chart | Film) -> str:
    """What the page's script draws, as JSON that is safe inside of a script element; not finite becomes null."""
    text = json.dumps(_as_json(figure), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", text)


def with_scripts(text: str) -> Markup:
    """The text as HTML, _{…} and ^{…} as sub- and superscripts."""
    text = _BEFORE_PERCENT.sub("\u00a0", text)  # no line ends between a number and its unit
    parts: list[Markup] = []
    end = 0
    for found in _SCRIPT.finditer(text):
        element = Markup("<sub>{}</sub>") if found[1] == "_" else Markup("<sup>{}</sup>")
        parts += [escape(text[end : found.start()]), element.format(found[2])]
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def numeric_columns(table: Table) -> list[bool]:
    """Which columns hold numbers, to be aligned on the right; cells without a letter or digit say nothing."""

    def holds_numbers(cells: Sequence[str]) -> bool:
        telling = [cell for cell in cells if any(map(str.isalnum, cell))]
        return bool(telling) and all(_NUMBER.match(cell) for cell in telling)

    columns = range(len(table.header))
    return [holds_numbers([row[column] for row in table.rows if column < len(row)]) for column in columns]


def _as_json(value: object) -> object:
    """Dataclasses, sequences and NumPy's numbers as what JSON knows."""
    if isinstance(value, HeatMap):
        values = [[_rounded(number) for number in column] for column in value.values]
        return {"title": value.title, "values": values}
    if dataclasses.is_dataclass(value):
        return {field.name: _as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_as_json(element) for element in value]
    return value


def _rounded(value: float) -> float | None:
    return float(f"{value:.{_DIGITS_OF_MAPS}g}") if math.isfinite(value) else None


def _anchor(heading: str, number: int) -> str:
    """A name for links that stays readable; the number makes it unique."""
    words = re.findall(r"[a-z0-9]+", plain(heading).lower())
    return "-".join([*words, str(number)])


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _resource(name: str) -> str:
    return resources.files("dlhmc.report").joinpath(name).read_text("utf-8")


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "scripts": with_scripts,
        "plain": plain,
        "data": data,
        "drawn": inline,
        "legend": legend,
        "columns": columns_of,
        "numeric_columns": numeric_columns,
        "anchor": _anchor,
        "kind": lambda block: type(block).__name__.lower(),
    }
    return environment.from_string(_resource("page.html.jinja"))
