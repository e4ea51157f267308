"""Tables as text."""

from collections.abc import Sequence


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for Markdown, without a line break at its end.

    >>> print(markdown(["κ", "τ"], [["7", "3.1(1)"]]))
    | κ | τ |
    | --- | --- |
    | 7 | 3.1(1) |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
