"""Figures of training runs."""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np

from dlhmc.plans.training import TrainPlan
from dlhmc.report.page import Picture
from dlhmc.report.plots import add_legend, mathtext, panels
from dlhmc.runs import metrics
from dlhmc.runs.describe import symbol
from dlhmc.runs.directory import is_of_objects, open_run, require_newest
from dlhmc.runs.sampling import read_only_checkpoints
from dlhmc.runs.settings import TrainAmounts
from dlhmc.settings import converted, picked
from dlhmc.theories import registry

_COLUMNS = 3


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
        curve = converted(notes.get("curve", []), list[dict[str, float]], f"The checkpoint of {path}")
        return cls(path, table, plan, curve or metrics.read(directory.metrics, notes))

    @property
    def couplings(self) -> dict[str, float]:
        """Settings of the target that training may change, in which runs of a figure differ."""
        if self.plan is None:
            return {}
        names = self.plan.target.build().couplings
        return {name: value for name, value in dataclasses.asdict(self.plan.target).items() if name in names}

    @property
    def what(self) -> tuple[str, str]:
        """What was trained, as the name of a figure and in words."""
        if self.plan is None:
            name = self.path.resolve().name
            return name, f"{self.table.get('trajectory', 'layers made in Python')}, {name}"
        kind, target = self.plan.architecture, dataclasses.asdict(self.plan.target)
        sizes = ["x".join(map(str, value)) for value in target.values() if isinstance(value, tuple) and value]
        place = "-".join(sizes) or self.plan.theory.name
        words = f"{kind.meaning.partition(',')[0]}, {kind.leapfrog_steps} layers, {place.replace('x', '×')}"
        return f"{kind.name}-{kind.leapfrog_steps}-{place}", words


def training_pictures(paths: Sequence[Path]) -> list[Picture | str]:
    """Loss, acceptance, tunnelling and what was scheduled against the training step; runs alike in one figure."""
    found: dict[tuple[str, str], list[Training]] = {}
    for training in map(Training.open, paths):
        found.setdefault(training.what, []).append(training)
    return [_picture(*what, trainings) for what, trainings in found.items()]


def _picture(name: str, words: str, trainings: list[Training]) -> Picture | str:
    trainings = sorted(trainings, key=lambda training: tuple(training.couplings.values()))
    theory = None if trainings[0].plan is None else trainings[0].plan.theory
    scheduled = {"gamma": "γ"} | {coupling: symbol(theory, coupling) for coupling in trainings[0].couplings}
    curves = {"loss": "loss L", "acceptance": "acceptance A", "tunnelling_rate": "tunnelling rate"}
    curves |= {coupling: f"{label}_{{t}}" for coupling, label in scheduled.items()}
    values = {curve: {row[curve] for one in trainings for row in one.rows if curve in row} for curve in curves}
    # What is set, and stays as it is, needs no panel.
    drawn = [curve for curve in curves if len(values[curve]) > (curve in scheduled)]
    if not drawn:
        return f"Training of {words}: there is nothing to draw yet."
    figure, axes = panels(-(-len(drawn) // _COLUMNS), min(_COLUMNS, len(drawn)), 3.6, 2.7)
    places = {couplings: place for place, couplings in enumerate(dict.fromkeys(_key(one) for one in trainings))}
    colours = mpl.colormaps["viridis"](np.linspace(0, 0.85, len(places)))
    for axis, curve in zip(axes.flat, drawn, strict=False):
        styles = {key: itertools.cycle(("-", "--", ":", "-.")) for key in places}
        for one in trainings:
            x, y = [row["step"] for row in one.rows], [row.get(curve, np.nan) for row in one.rows]
            style = {"color": colours[places[_key(one)]], "linestyle": next(styles[_key(one)]), "linewidth": 1.1}
            axis.plot(x, y, label=mathtext(_label(one, trainings)), **style)
        axis.set_xscale("log")
        axis.set_xlabel("training step")
        axis.set_ylabel(mathtext(curves[curve]))
    for axis in axes.flat[len(drawn) :]:
        axis.set_visible(False)
    add_legend(figure)
    losses = [registry.losses().get(str(one.table.get("loss"))) for one in trainings]
    said = dict.fromkeys("a loss of one's own" if loss is None else loss.meaning for loss in losses)
    caption = (
        f"L = {'; '.join(said)}, averaged over the batch; A is the probability that a proposal is accepted. Later points "
        "are averages over the steps since the one before."
    )
    return Picture(f"training-{name}", f"Training of {words}", caption, figure)


def _key(training: Training) -> tuple[float, ...]:
    return tuple(training.couplings.values())


def _label(training: Training, beside: Sequence[Training]) -> str:
    """The couplings; and the directory where they do not tell."""
    theory = None if training.plan is None else training.plan.theory
    words = [f"{symbol(theory, name)} = {value:g}" for name, value in training.couplings.items()]
    if not words or sum(_key(other) == _key(training) for other in beside) > 1:
        words.append(training.path.resolve().name)
    return ", ".join(words)
