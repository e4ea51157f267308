"""What commands print."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlhmc.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console


def console(*, quiet: bool = False, stderr: bool = False) -> "Console":
    """Where people read. When they have gone (dlhmc … | head), that is an error like others; Rich ends the process."""
    from rich.console import Console

    class Candid(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Candid(quiet=quiet, stderr=stderr)


def print_json(content: object) -> None:
    """For programs."""
    import json

    sys.stdout.write(json.dumps(content, indent=2) + "\n")


def show_run(directory: Path, console: "Console") -> dict[str, Any]:
    """Show the results of a run of any kind, and return them."""
    from dlhmc.comparison import command
    from dlhmc.run import sampling, training
    from dlhmc.run.directory import run_kind
    from dlhmc.studies import command as study

    known: dict[str, Any] = {
        study.KIND: study.show_results,
        "compare": command.show_results,
        "sample": sampling.show_results,
        "train": training.show_results,
    }
    if (kind := run_kind(directory)) not in known:
        raise UserError(f"{directory} holds a run of kind '{kind}', which nobody here knows.")
    results: dict[str, Any] = known[kind](directory, console)
    return results
