"""The help of a command: its options in sections, the common ones, or all."""

import inspect
import shutil
import textwrap
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from dlhmc.cli.listing import Option, unwrap

#: in this order, before those that theories and commands may have beside
_TITLES = {
    "what": "what",
    "sampler": "sampler",
    "training": "training",
    "how much": "how much",
    "measurement": "measurement",
    "options": "options",
    "machine": "machine and output",
}
_WIDEST, _COLUMN = 100, 24


def help_text(command: str, purpose: str, options: Sequence[Option], *, everything: bool = False) -> str:
    """What `dlhmc COMMAND --help` prints, or `--help-all`."""
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    words = [_value(option) for option in options if option.positional]
    lines = [" ".join([f"usage: dlhmc {command} [OPTIONS]", *words]), ""]
    paragraphs = ["\n".join(textwrap.wrap(part, width)) for part in inspect.cleandoc(purpose).split("\n\n")]
    lines.append("\n\n".join(paragraphs))
    sections: dict[str, list[Option]] = {name: [] for name in ("arguments", *_TITLES)}
    for option in options:
        if everything or not option.advanced:
            name = "arguments" if option.positional else option.section
            sections.setdefault(name, []).append(option)
    for name, members in sections.items():
        if members:
            lines += ["", _TITLES.get(name, name)]
            lines += [line for option in members for line in _entry(option, width, everything)]
    if (hidden := sum(option.advanced for option in options)) and not everything:
        lines += ["", f"--help-all lists {hidden} more option{'s' if hidden > 1 else ''}."]
    elif hidden:
        lines.append("")
    if chosen := [option.names[0] for option in options if any(option.choices.values())]:
        others = " ".join(f"{name} NAME" for name in chosen)
        kinds = " and ".join(f"{name.removeprefix('--')}s" for name in chosen)
        lines += [f"Other {kinds} have options of their own: see", f"'dlhmc {command} {others} --help'."]
    return "\n".join([*lines, ""])


def _entry(option: Option, width: int, everything: bool) -> list[str]:
    """An option and what it means, in one line if it can be."""
    names = [name for name in option.names if option.default or everything or not name.startswith("--no-")]
    spelled = _value(option) if option.positional else ", ".join(names or option.names)
    if not option.positional and not option.is_switch:
        spelled += f" {_value(option)}"
    meaning = option.meaning
    if option.choices and not everything and any(option.choices.values()):
        meaning += f": {', '.join(option.choices)}"
    if option.default not in (None, False, (), ""):
        meaning += f" (default {_shown(option.default)})"
    indent = " " * _COLUMN
    lines = textwrap.wrap(meaning, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    if len(spelled) + 4 <= _COLUMN:
        lines[0] = f"  {spelled:<{_COLUMN - 2}}{lines[0].lstrip()}"
    else:
        lines.insert(0, f"  {spelled}")
    if everything:
        for name, text in option.choices.items():
            if text:
                lines += textwrap.wrap(
                    f"{name}: {text}", width, initial_indent=indent + "  ", subsequent_indent=indent + "    "
                )
    return lines


def _value(option: Option) -> str:
    """What stands for the value."""
    if option.positional:
        many = typing.get_origin(option.hint) is tuple
        return option.names[0].removeprefix("--").replace("-", "_").upper() + ("..." if many else "")
    if any(option.choices.values()):
        return "NAME"
    return _metavar(option.hint)


def _metavar(hint: Any) -> str:
    _, hint = unwrap(hint)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        each = _metavar(parts[0])
        return f"{each} ..." if parts[-1] is ... else " ".join([each] * len(parts))
    if origin is Literal:
        return "|".join(map(str, parts))
    return {int: "N", float: "X", Path: "PATH"}.get(hint, "TEXT")


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
