"""Tables as text."""

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

#: sub- and superscripts in labels, which are plain text otherwise
SCRIPT = re.compile(r"([_^])\{((?:[^\W_]|[ ,.+*/−-])+)\}")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for Markdown, without a line break at its end.

    >>> print(markdown(["κ", "τ"], [["7", "3.1(1)"]]))
    | κ | τ |
    | --- | --- |
    | 7 | 3.1(1) |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def comma_separated(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table for spreadsheets."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows([header, *rows])
    return buffer.getvalue()


def plain(label: str) -> str:
    """A label without marks for sub- and superscripts.

    >>> plain("N_{LF} τ")
    'N_LF τ'
    """
    return SCRIPT.sub(r"\1\2", label)


def superscript(exponent: int) -> str:
    """A power in one line of text.

    >>> "10" + superscript(-5)
    '10⁻⁵'
    """
    return str(exponent).translate(_SUPERSCRIPTS)
