"""`dlhmc report`: the page, and the figures on it as files."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from dlhmc.errors import UserError
from dlhmc.report import draw
from dlhmc.report.contents import build_page, drawn
from dlhmc.report.curves import read_curves
from dlhmc.report.page import render
from dlhmc.runs.progress import Display
from dlhmc.storage.files import write_whole


def report(paths: Sequence[Path], out: Path, console: Console, curves: Path | None = None) -> None:
    """Write the page, and the figures as PNG and SVG into a folder beside it; `curves` are for reference."""
    with console.status("") as status:
        tell = status.update if console.is_terminal else console.out
        page = build_page(paths, [] if curves is None else read_curves(curves), tell)
    figures, blocks = out.parent / "figures", drawn(page)
    display = Display(console, "report", len(blocks) + 1)
    try:
        figures.mkdir(parents=True, exist_ok=True)
        with display.running(0):
            for number, block in enumerate(blocks):
                display.update(number, f"drawing {block.name}")
                draw.save(block, figures)
            display.update(len(blocks), "writing the page")
            write_whole(out, render(page).encode())
            display.update(len(blocks) + 1, "done")
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror or error}.") from error
    console.out(f"report: {out}", highlight=False)
