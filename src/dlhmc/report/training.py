"""Charts of training runs."""

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dlhmc.plans.training import TrainPlan
from dlhmc.report.charts import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, Chart, Panel, Series
from dlhmc.runs import metrics
from dlhmc.runs.describe import symbol
from dlhmc.runs.directory import is_of_objects, open_run, require_newest
from dlhmc.runs.sampling import read_only_checkpoints
from dlhmc.runs.settings import TrainAmounts
from dlhmc.settings import converted, picked
from dlhmc.theories import registry
from dlhmc.training import learning_rate

_COLOURS = (BLACK, SKY, GREEN, ORANGE, BLUE, VERMILION, PURPLE, GREY)
_TUNNELLING = "tunnelling_rate"
# What only metrics of whole chunks have.
_OF_CHUNKS = "steps_per_second"


class Family(NamedTuple):
    """What was trained, for names of files and in words, and where."""

    name: str
    layers: str
    where: str


class Training(NamedTuple):
    """A training run: its settings, and what it recorded."""

    path: Path
    table: dict[str, Any]
    #: None for objects that were made in Python
    plan: TrainPlan | None
    rows: list[dict[str, Any]]

    @classmethod
    def open(cls, path: Path) -> "Training":
        """Finished or not."""
        directory, table = open_run("train", path)
        plan = None if is_of_objects(table) else TrainPlan.from_table(table, str(directory.config))
        amounts = picked(TrainAmounts, table) if plan is None else plan.amounts
        checkpoints = read_only_checkpoints(directory)
        step, notes = checkpoints.newest_notes()
        require_newest(path, checkpoints.passed_over or directory.what_is_lost(step, amounts.total))
        # Runs of earlier versions have averages over their chunks alone.
        chunks = metrics.read(directory.metrics, notes)
        rows = converted(notes.get("curve", []), list[dict[str, float]], f"The checkpoint of {path}") or chunks
        if plan is not None and (peak := plan.optimiser.learning_rate) is not None:
            adam = plan.optimiser
            each = amounts.total // len(plan.stages())
            schedule = learning_rate(adam.rate_schedule, peak, each, adam.rate_warmup)
            for row in rows:
                row["rate"] = float(schedule((row["step"] - 1) % each + 1)) * row.get("rate_factor", 1.0)
        return cls(path, table, plan, rows)

    @property
    def couplings(self) -> dict[str, float]:
        """Settings of the target that training may change, in which runs of a family differ."""
        if self.plan is None:
            return {}
        names = self.plan.target.build().couplings
        return {name: value for name, value in dataclasses.asdict(self.plan.target).items() if name in names}

    @property
    def label(self) -> str:
        """The couplings; the directory of a run that has none."""
        theory = None if self.plan is None else self.plan.theory
        named = (f"{symbol(theory, name)} = {value:g}" for name, value in self.couplings.items())
        return ", ".join(named) or self.path.resolve().name

    @property
    def family(self) -> Family:
        """Runs of the same layers on targets that differ in nothing but couplings are shown together."""
        if self.plan is None:
            layers = str(self.table.get("trajectory", "layers made in Python"))
            return Family(layers, layers, self.path.resolve().name)
        theory, target = self.plan.theory, dataclasses.asdict(self.plan.target)
        usual = {field.name: field.default for field in dataclasses.fields(self.plan.target)}
        sizes = [
            "×".join(map(str, value)) if isinstance(value, tuple) else f"{symbol(theory, name)} = {value}"
            for name, value in target.items()
            if name not in self.couplings and (value if isinstance(value, tuple) else value != usual[name])
        ]
        name, number = self.plan.architecture.name, self.plan.architecture.leapfrog_steps
        return Family(f"{name}-{number}", f"{number} {name} layers", ", ".join(sizes) or theory.name)

    @property
    def loss(self) -> str:
        """What was minimised, in words."""
        known = registry.losses().get(str(self.table.get("loss")))
        return "L is a loss of one's own" if known is None else "L = " + re.sub(r"_(\w+)", r"_{\1}", known.meaning)


def training_charts(paths: Sequence[Path]) -> list[Chart]:
    """Loss, acceptance, tunnelling, couplings and learning rate against the training step."""
    families: dict[Family, list[Training]] = {}
    for training in map(Training.open, paths):
        families.setdefault(training.family, []).append(training)
    return [_chart(family, trainings) for family, trainings in families.items()]


def _chart(family: Family, trainings: list[Training]) -> Chart:
    trainings = sorted(trainings, key=lambda training: tuple(training.couplings.values()))
    found = Counter(training.label for training in trainings)
    labels = [
        training.label if found[training.label] == 1 else f"{training.label}, {training.path.resolve().name}"
        for training in trainings
    ]
    theory = None if trainings[0].plan is None else trainings[0].plan.theory
    scheduled = dict.fromkeys(("gamma", *trainings[0].couplings))
    curves = {
        "loss": "loss L",
        "acceptance": "acceptance A",
        _TUNNELLING: "tunnelling rate",
        **{name: f"{'γ' if name == 'gamma' else symbol(theory, name)}_{{t}}" for name in scheduled},
        "rate": "learning rate",
    }
    panels: list[Panel] = []
    constant: list[str] = []
    for name, label in curves.items():
        series = [
            Series(
                title, [row["step"] for row in training.rows], [row.get(name) for row in training.rows], "line", colour
            )
            for title, training, colour in zip(labels, trainings, itertools.cycle(_COLOURS), strict=False)
        ]
        values = {value for one in series for value in one.y if value is not None}
        # What is set, and stays as it is, is said in the caption.
        if len(values) == 1 and name in (*scheduled, "rate"):
            constant.append(f"{label.removesuffix('_{t}')} = {values.pop():g}")
        elif values:
            panels.append(Panel("training step", label, series, x_log=True))
    return Chart(
        f"training-{family.name}-{family.where.replace('×', 'x')}",
        f"Training of {family.layers}, {family.where}",
        _caption(dict(zip(labels, trainings, strict=True)), constant),
        panels,
        columns=3,
    )


def _caption(trainings: dict[str, Training], constant: Sequence[str]) -> str:
    losses = dict.fromkeys(training.loss for training in trainings.values())
    sentences = [
        f"{'; '.join(losses)}, averaged over the batch. A: the probability that a proposal is accepted.",
        "Averages over the chunks of the runs."
        if any(_OF_CHUNKS in row for training in trainings.values() for row in training.rows)
        else "Every step up to the hundredth; later averages since the point before, over 200 steps at most.",
    ]
    if constant:
        sentences.append(f"Throughout: {', '.join(constant)}.")
    if any(_TUNNELLING in row for training in trainings.values() for row in training.rows):
        sentences.append("The tunnelling rate is the fraction of chains that changed their sector or mode in a step.")
    if later := [label for label, training in trainings.items() if training.table.get("model")]:
        sentences.append(f"From parameters trained before: {', '.join(later)}.")
    return " ".join(sentences)
