"""Charts of training runs."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dlhmc.report.charts import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, Chart, Panel, Series
from dlhmc.runs import metrics
from dlhmc.runs.checkpoint import Checkpoints
from dlhmc.runs.config import ObjectTrainConfig, TrainConfig
from dlhmc.runs.directory import open_run, require_newest, run_kind
from dlhmc.training import learning_rate

_CURVES = {
    "loss": "loss L",
    "acceptance": "acceptance A",
    "tunnelling_rate": "tunnelling rate",
    "gamma": "γ_{t}",
    "rate": "learning rate",
}
_COLOURS = (BLACK, SKY, GREEN, ORANGE, BLUE, VERMILION, PURPLE, GREY)


class Family(NamedTuple):
    """What was trained, for names of files and in words, and where."""

    name: str
    layers: str
    where: str


class Training(NamedTuple):
    """A training run: its settings, and what it recorded."""

    path: Path
    config: TrainConfig | ObjectTrainConfig
    rows: list[dict[str, Any]]

    @classmethod
    def open(cls, path: Path) -> "Training":
        """Finished or not."""
        config: TrainConfig | ObjectTrainConfig
        kind = run_kind(path)
        if kind == "train":
            directory, config = open_run(kind, TrainConfig, path)
        else:
            directory, config = open_run(kind, ObjectTrainConfig, path)
        checkpoints = Checkpoints(directory.checkpoints, run=directory.identity(), create=False, read_only=True)
        step, notes = checkpoints.newest_notes()
        require_newest(path, checkpoints.passed_over or directory.what_is_lost(step, config.steps))
        rows = metrics.read(directory.metrics, notes)
        if isinstance(config, TrainConfig):  # the rate of an optimiser that was made in Python is not known
            schedule = learning_rate(config.rate_schedule, config.learning_rate, config.steps, config.rate_warmup)
            for row in rows:
                row["rate"] = float(schedule(row["step"])) * row.get("rate_factor", 1.0)
        return cls(path, config, rows)

    @property
    def beta(self) -> float | None:
        """The coupling, where the settings name one."""
        return self.config.beta if isinstance(self.config, TrainConfig) else None

    @property
    def family(self) -> Family:
        """Runs that differ in nothing but the coupling are shown together."""
        config = self.config
        if isinstance(config, ObjectTrainConfig):
            return Family(config.trajectory, config.trajectory, self.path.resolve().name)
        lattice = "" if config.lattice is None else "×".join(map(str, config.lattice))
        name, layers = config.network, config.leapfrog_steps
        return Family(f"{name}-{layers}", f"{layers} {name} layers", lattice or config.target)


def training_charts(paths: Sequence[Path]) -> list[Chart]:
    """Loss, acceptance, tunnelling, annealing and learning rate against the training step."""
    families: dict[Family, list[Training]] = {}
    for training in map(Training.open, paths):
        families.setdefault(training.family, []).append(training)
    return [_chart(family, trainings) for family, trainings in families.items()]


def _chart(family: Family, trainings: list[Training]) -> Chart:
    trainings = sorted(trainings, key=lambda training: training.beta or 0.0)
    panels = []
    for name, label in _CURVES.items():
        series = [
            Series(
                training.path.resolve().name if training.beta is None else f"β = {training.beta:g}",
                [row["step"] for row in training.rows],
                [row.get(name) for row in training.rows],
                "line",
                colour,
            )
            for training, colour in zip(trainings, itertools.cycle(_COLOURS), strict=False)
        ]
        if any(value is not None for one in series for value in one.y):
            panels.append(Panel("training step", label, series))
    return Chart(
        f"training-{family.name}-{family.where.replace('×', 'x')}",
        f"Training of {family.layers}, {family.where}",
        "Averages over the chunks of the runs. L = −A·(ΔQ_{ℝ})^{2} averaged over the batch for gauge theory, "
        "−A·|Δx|^{2} for vectors, unless another loss was given; the tunnelling rate is the fraction of chains whose "
        "charge changed in a step. A later coupling begins with the parameters of the one before.",
        panels,
        columns=3,
    )
