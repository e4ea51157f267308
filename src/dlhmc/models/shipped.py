"""The trained models that come with the package, and what was measured for each."""

from typing import Any

from rich.console import Console
from rich.table import Table

from dlhmc.models import model as models
from dlhmc.runs.summary import shown_time


def describe() -> dict[str, dict[str, Any]]:
    """What each model says about itself, by name."""
    return {name: models.read_description(models.find(name)) for name in models.shipped()}


def show(console: Console) -> None:
    """The models as a table."""
    table = Table(title="trained models: dlhmc sample --model NAME", title_justify="left")
    for column in ("name", "lattice", "β", "layers", "time", "accepted", "τ_int(Q)", "N_LF·τ_int"):
        table.add_column(column, justify="left" if column == "name" else "right", no_wrap=True)
    for name, model in describe().items():
        target, measured = model["target"], model["measured"]
        lattice = "×".join(map(str, target["lattice"]))
        layers, tau = model["model"]["leapfrog_steps"], measured["tau_int_charge"]
        cost = "" if tau["value"] is None else f"{layers * tau['value']:.1f}"
        table.add_row(
            name,
            lattice,
            f"{target['beta']:g}",
            f"{layers} {model['model']['network']}",
            f"{model['training']['seconds']:.0f} s",
            f"{measured['acceptance']:.3f}",
            shown_time(tau),
            cost,
        )
    console.print(table)
