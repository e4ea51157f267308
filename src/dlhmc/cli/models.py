"""The trained models that come with theories, and what was measured for each."""

from typing import Any

from rich.console import Console
from rich.table import Table

from dlhmc.models.model import Model, shipped
from dlhmc.run.describe import target_in_words
from dlhmc.run.show import shown_time


def describe() -> dict[str, dict[str, Any]]:
    """What each model says about itself, by name."""
    return {name: Model.open(name).description for name in shipped()}


def show(console: Console) -> None:
    """The models as a table."""
    table = Table(title="trained models: dlhmc sample --model NAME", title_justify="left")
    models = describe()
    # A name is to be typed, so it is shown as a whole.
    table.add_column("name", no_wrap=True, min_width=max(map(len, models), default=0))
    for column in ("target", "layers", "time", "accepted", "τ_int", "N_LF·τ_int"):
        table.add_column(column, justify="left" if column == "target" else "right", no_wrap=True)
    for name, model in models.items():
        measured = model["measured"]
        layers = model["network"]["leapfrog_steps"]
        tau: dict[str, Any] = next((entry for key, entry in measured.items() if key.startswith("tau_int_")), {})
        cost = "" if tau.get("value") is None else f"{layers * tau['value']:.1f}"
        table.add_row(
            name,
            target_in_words(model["target"]),
            f"{layers} {model['network']['name']}",
            f"{model['training']['seconds']:.0f} s",
            f"{measured['acceptance']:.3f}",
            shown_time(tau),
            cost,
        )
    console.print(table)
