"""`dlhmc report`: the page, and the figures on it as files."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from dlhmc.errors import UserError
from dlhmc.report import draw
from dlhmc.report.contents import build_page, drawn
from dlhmc.report.curves import read_curves
from dlhmc.report.page import render
from dlhmc.storage.files import write_whole


def report(paths: Sequence[Path], out: Path, console: Console, curves: Path | None = None) -> None:
    """Write the page, and the figures as PNG and SVG into a folder beside it; `curves` are for reference."""
    page = build_page(paths, [] if curves is None else read_curves(curves))
    figures = out.parent / "figures"
    try:
        figures.mkdir(parents=True, exist_ok=True)
        for block in drawn(page):
            draw.save(block, figures)
        write_whole(out, render(page).encode())
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror or error}.") from error
    console.out(f"report: {out}", highlight=False)
