"""`dlhmc report`: the page, and the figures on it as files."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console

from dlhmc.errors import UserError
from dlhmc.report.contents import build_page
from dlhmc.report.curves import read_curves
from dlhmc.report.page import render, svg
from dlhmc.storage.files import write_whole


def report(paths: Sequence[Path], out: Path, console: Console, curves: Path | None = None) -> None:
    """Write the page, and the figures as PNG and SVG into a folder beside it; `curves` are for reference."""
    with console.status("") as status:
        tell = status.update if console.is_terminal else console.out
        page = build_page(paths, [] if curves is None else read_curves(curves), tell)
        tell("writing figures and page …")
        try:
            for picture in page.pictures:
                save(picture.name, picture.figure, out.parent / "figures")
            write_whole(out, render(page).encode())
        except OSError as error:
            raise UserError(f"{out} cannot be written: {error.strerror or error}.") from error
    console.out(f"report: {out}", highlight=False)


def save(name: str, figure: Figure, folder: Path) -> Path:
    """Write a figure as PNG and SVG; the path of the first."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / f"{name}.svg", svg(figure, name).encode())
    figure.savefig(folder / f"{name}.png", dpi=130)
    return folder / f"{name}.png"
