"""What commands print."""

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from dlhmc.errors import UserError
from dlhmc.models.files import ModelFile, shipped


class Candid(Console):
    """When its readers have gone (dlhmc … | head), that is an error like others; Rich ends the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def print_json(content: object) -> None:
    """For programs."""
    sys.stdout.write(json.dumps(content, indent=2) + "\n")


def show_run(directory: Path, console: Console) -> dict[str, Any]:
    """Show the results of a run of any kind, and return them."""
    from dlhmc.comparison.comparing import open_results, show_results
    from dlhmc.run import sampling, training
    from dlhmc.run.directory import run_kind
    from dlhmc.studies import command as study

    known: dict[str, Any] = {
        study.KIND: study.show_results,
        "compare": lambda path, console: show_results(open_results(path), console),
        "sample": sampling.show_results,
        "train": training.show_results,
    }
    if (kind := run_kind(directory)) not in known:
        raise UserError(f"{directory} holds a run of kind '{kind}', which nobody here knows.")
    results: dict[str, Any] = known[kind](directory, console)
    return results


def described_models() -> dict[str, dict[str, Any]]:
    """What each model that comes along says about itself, by name."""
    return {name: dict(ModelFile.open(name).description) for name in shipped()}


def show_models(console: Console) -> None:
    """The models as a table."""
    from dlhmc.run.describe import target_in_words
    from dlhmc.run.show import shown_time

    table = Table(title="trained models: dlhmc sample THEORY --model NAME", title_justify="left")
    models = described_models()
    # A name is to be typed, so it is shown as a whole.
    table.add_column("name", no_wrap=True, min_width=max(map(len, models), default=0))
    for column in ("target", "layers", "time", "accepted", "τ_int", "N_LF·τ_int"):
        table.add_column(column, justify="left" if column == "target" else "right", no_wrap=True)
    for name, model in models.items():
        measured, network = model["measured"], model["network"]
        layers = network["leapfrog_steps"]
        tau: dict[str, Any] = next((entry for key, entry in measured.items() if key.startswith("tau_int_")), {})
        cost = "" if tau.get("value") is None else f"{layers * tau['value']:.1f}"
        table.add_row(
            name,
            target_in_words(model["target"]),
            f"{layers} {network['name']}",
            f"{model['training']['seconds']:.0f} s",
            f"{measured['acceptance']:.3f}",
            shown_time(tau),
            cost,
        )
    console.print(table)
