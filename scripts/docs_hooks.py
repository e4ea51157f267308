"""What the site does to pages: equations become drawings, and the options of commands are those they have."""

import contextlib
import html
import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import math_to_image
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from dlhmc.cli import run
from dlhmc.cli.commands import COMMANDS
from dlhmc.models.architectures import ARCHITECTURES

_OPTIONS = "<!-- options -->"
# Pages that stand beside the folder of documentation, and are linked from it.
_BESIDE = ("SECURITY.md", "CHANGELOG.md")
# Any colour that is in no drawing otherwise.
_INK = "#123456"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Blocks of `math`, which GitHub shows as equations, need no program in the reader's browser."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    fences.append({"name": "math", "class": "math", "format": _draw})
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Take the pages in that stand outside."""
    for name in _BESIDE:
        text = (Path(config.docs_dir).parent / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The help of every command in place of a mark, and links to where pages are on the site."""
    up = "../" * page.file.src_uri.count("/")
    for name in _BESIDE:
        markdown = markdown.replace(f"]({up}../{name})", f"]({up}{name})")
    if page.file.src_uri in _BESIDE:
        markdown = markdown.replace("](docs/", "](")
    return markdown.replace(_OPTIONS, _options()) if _OPTIONS in markdown else markdown


def _draw(source: str, *_: Any, **__: Any) -> str:
    """An SVG in the colour of the text; readers that speak get the source."""
    drawing = io.StringIO()
    with mpl.rc_context({"mathtext.fontset": "cm", "svg.fonttype": "path", "svg.hashsalt": "dlhmc"}):
        math_to_image(f"${' '.join(source.split())}$", drawing, FontProperties(size=14), format="svg", color=_INK)
    svg = drawing.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    label = html.escape(source.strip(), quote=True)
    return f'<div class="equation" role="img" aria-label="{label}">{svg}</div>'


def _options() -> str:
    """The options of all commands: those of a theory in two dimensions, and of every network."""
    pages = [["train", "u1", name] for name in ARCHITECTURES]
    for name, command in COMMANDS.items():
        pages += [] if name == "train" else [[name, *(["u1"] if command.words else [])]]
    return "\n\n".join(f"## {' '.join(page)}\n\n```text\n{_help([*page, '--help-all'])}```" for page in pages)


def _help(arguments: list[str]) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        run(arguments)
    return text.getvalue()
