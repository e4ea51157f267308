"""What stands on the page, and the page: one HTML file with its figures inside, without a script.

Texts may come from the files of a stranger's run: they are escaped, and the page forbids scripts and whatever comes
from elsewhere.
"""

import functools
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jinja2
import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from dlhmc.files import write_whole
from dlhmc.tables import SCRIPT, plain


class Picture(NamedTuple):
    """A figure with a caption that says what one sees."""

    #: of its files
    name: str
    title: str
    caption: str
    figure: Figure


class Table(NamedTuple):
    """Text in rows; the first column names the row."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: numbers of rows to look at first
    marked: Sequence[int] = ()


class Code(NamedTuple):
    """Commands or settings, to be copied."""

    caption: str
    text: str


Block = Picture | Table | Code | str


class Section(NamedTuple):
    """A heading and what stands below it."""

    heading: str
    blocks: Sequence[Block]


class Page(NamedTuple):
    """The whole report: who won, and everything behind it."""

    title: str
    answers: Sequence[str]
    sections: Sequence[Section]

    @property
    def pictures(self) -> list[Picture]:
        """In their order."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Picture)]


def render(page: Page) -> str:
    """The page."""
    return _template().render(page=page)


def save(figure: Figure, name: str, folder: Path) -> Path:
    """Write a figure as PNG and SVG; the path of the first."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / f"{name}.svg", _svg(figure, name).encode())
    figure.savefig(folder / f"{name}.png", dpi=130)
    return folder / f"{name}.png"


def _svg(figure: Figure, name: str) -> str:
    """The same numbers give the same text."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(buffer, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return buffer.getvalue()


def _inline(picture: Picture) -> Markup:
    """The figure as an element, without names that parts of several figures have in common."""
    text = _svg(picture.figure, picture.name)
    element = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text[text.index("<svg") :])
    return Markup(element)  # noqa: S704 - Matplotlib has escaped it


def _html(text: str) -> Markup:
    """_{…} and ^{…} as sub- and superscripts."""
    tags = {"_": "sub", "^": "sup"}
    return Markup(SCRIPT.sub(lambda found: f"<{tags[found[1]]}>{found[2]}</{tags[found[1]]}>", escape(text)))  # noqa: S704


@functools.cache
def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("dlhmc.report", "")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"html": _html, "plain": plain, "inline": _inline}
    environment.filters["kind"] = lambda block: type(block).__name__
    return environment.get_template("page.html.jinja")
