"""Charts of a training run."""

import json
from pathlib import Path
from typing import Any

from dlhmc.errors import UserError
from dlhmc.report.charts import BLACK, BLUE, GREEN, ORANGE, VERMILION, Chart, Panel, Series
from dlhmc.runs.config import TrainConfig
from dlhmc.runs.directory import open_run
from dlhmc.training import learning_rate

_CURVES = {
    "loss": ("loss L", BLACK),
    "acceptance": ("acceptance A", BLUE),
    "tunnelling_rate": ("tunnelling rate", VERMILION),
    "gamma": ("γ_{t}", GREEN),
}


def training_chart(path: Path) -> Chart:
    """Loss, acceptance, tunnelling, annealing and learning rate against the training step."""
    directory, config = open_run("train", TrainConfig, path)
    rows = _metrics(directory.metrics)
    steps = [row["step"] for row in rows]
    panels = [
        Panel("training step", label, [Series(label, steps, [row.get(name) for row in rows], "line", colour)])
        for name, (label, colour) in _CURVES.items()
        if any(name in row for row in rows)
    ]
    schedule = learning_rate(config.rate_schedule, config.learning_rate, config.steps, config.rate_warmup)
    rates: list[float | None] = [float(schedule(row["step"])) * row.get("rate_factor", 1.0) for row in rows]
    panels.append(Panel("training step", "learning rate", [Series("learning rate", steps, rates, "line", ORANGE)]))
    where = "" if config.lattice is None else f", {config.lattice[0]}×{config.lattice[1]} at β = {config.beta:g}"
    return Chart(
        f"training-{path.name}",
        f"Training, {config.network} layers{where}",
        "Averages over the chunks of the run. L = −A·(ΔQ_{ℝ})^{2} averaged over the batch; the tunnelling rate is the "
        "fraction of chains whose charge has changed in a step.",
        panels,
        columns=3,
    )


def _metrics(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is missing or damaged: {error}.") from None
