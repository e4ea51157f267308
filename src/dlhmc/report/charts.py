"""What a chart shows, without how it is drawn: `draw` makes pictures of it, for print and for the page.

Labels are plain text in which _{…} and ^{…} are sub- and superscripts.
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal

from dlhmc.storage import tables
from dlhmc.storage.tables import plain

# Okabe and Ito's palette, which colour-blind readers can tell apart, and one of Tol's.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#8A8A8A"
WINE = "#882255"

Kind = Literal["line", "steps", "points", "bars", "band"]
Marker = Literal["o", "s", "^", "v", "D", "x"]


@dataclasses.dataclass(frozen=True)
class Series:
    """Numbers with a name; series of one name in several panels are shown and hidden together."""

    name: str
    x: Sequence[float]
    #: None where there is nothing to draw
    y: Sequence[float | None]
    kind: Kind = "line"
    colour: str = BLACK
    #: of points: symmetric error bars
    error: Sequence[float | None] | None = None
    #: of points: whether the value is only a lower limit, drawn with an arrow upwards
    is_limit: Sequence[bool] | None = None
    #: of a band: from y up to this
    upper: Sequence[float | None] | None = None
    marker: Marker = "o"
    #: points are joined by a line
    joined: bool = False
    dashed: bool = False
    #: what a reader sees who points at a point: one text for each
    notes: Sequence[str] | None = None


@dataclasses.dataclass(frozen=True)
class Panel:
    """A pair of axes."""

    x_label: str
    y_label: str
    series: Sequence[Series]
    title: str = ""
    x_log: bool = False
    y_log: bool = False
    #: fixed limits of an axis; None leaves them to the data
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    #: names of the rows y = 0, 1, … from above, in place of a scale; errors and limits of points then lie along x
    rows: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Chart:
    """Panels side by side, with a caption that says what one sees."""

    #: also the name of its files
    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    #: panels in a row
    columns: int = 2


@dataclasses.dataclass(frozen=True)
class HeatMap:
    """Numbers on a grid."""

    title: str
    #: values[i][j] at column i from the left and row j from below
    values: Sequence[Sequence[float]]
    #: places (i, j) to be outlined
    marked: Sequence[tuple[int, int]] = ()


@dataclasses.dataclass(frozen=True)
class Frame:
    """One position of a film's slider: panels or heat maps."""

    label: str
    panels: Sequence[Panel] = ()
    maps: Sequence[HeatMap] = ()


@dataclasses.dataclass(frozen=True)
class Film:
    """Frames to step through with a slider; in print some of them side by side."""

    name: str
    title: str
    caption: str
    frames: Sequence[Frame]
    #: range of the colours of heat maps, an angle: both ends have the same colour
    colour_range: tuple[float, float] = (-3.141592653589793, 3.141592653589793)
    colour_label: str = ""
    #: number of the frame that is shown at first, the most telling one
    first: int = 0


@dataclasses.dataclass(frozen=True)
class Table:
    """Text in rows; the first column names the row."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: numbers of rows to look at first
    marked: Sequence[int] = ()

    def markdown(self) -> str:
        """For documents."""
        return f"{tables.markdown(*self._plain())}\n\n{plain(self.caption)}\n"

    def comma_separated(self) -> str:
        """For spreadsheets."""
        return tables.comma_separated(*self._plain())

    def _plain(self) -> tuple[list[str], list[list[str]]]:
        return [plain(name) for name in self.header], [[plain(cell) for cell in row] for row in self.rows]


@dataclasses.dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclasses.dataclass(frozen=True)
class Code:
    """Commands or settings, to be copied."""

    caption: str
    text: str


Block = Chart | Film | Table | Text | Code


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    heading: str
    blocks: Sequence[Block]


@dataclasses.dataclass(frozen=True)
class Page:
    """The whole report: the question, the answer with a line for each theory or family, and everything behind it."""

    title: str
    question: str
    answer: str
    sections: Sequence[Section]
