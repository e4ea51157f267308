"""Figures of training runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

from dlhmc.report.page import Picture
from dlhmc.report.plots import add_legend, mathtext, panels
from dlhmc.run import metrics
from dlhmc.run.checkpoint import Checkpoints
from dlhmc.run.directory import is_of_objects, open_run, require_newest
from dlhmc.run.settings import TrainAmounts
from dlhmc.settings import build
from dlhmc.spec.training import TrainSpec

#: what is shown if it changes
_CURVES = {"loss": "loss L", "acceptance": "acceptance A", "tunnelling_rate": "tunnelling rate", "gamma": "γ_{t}"}


class Training(NamedTuple):
    """A training run: its settings, and what it recorded."""

    path: Path
    table: dict[str, Any]
    #: None for objects that were made in Python
    spec: TrainSpec | None
    loss: str
    rows: list[dict[str, float]]

    @classmethod
    def open(cls, path: Path) -> "Training":
        """Finished or not."""
        directory, table = open_run("train", path)
        spec = None if is_of_objects(table) else TrainSpec.of({}, table, str(directory.config))
        amounts, loss = build(TrainAmounts, table["run"], str(directory.config)), "a loss of one's own"
        if spec is not None:
            settled = spec.settle(spec.target.build())
            amounts, loss = settled.amounts, settled.loss.meaning
        checkpoints = Checkpoints(directory.checkpoints, read_only=True)
        step, _ = checkpoints.newest_notes()
        require_newest(path, checkpoints.passed_over or directory.what_is_lost(step, amounts.total))
        return cls(path, table, spec, loss, metrics.read(directory.metrics, step))

    @property
    def what(self) -> str:
        """What was trained: runs alike are shown together."""
        if self.spec is None:
            return str(self.table.get("trajectory", "layers made in Python"))
        kind, theory = self.spec.network, self.spec.theory
        return f"{kind.words}, {kind.leapfrog_steps} layers, {theory.title or theory.name}"


def training_pictures(paths: Sequence[Path]) -> list[Picture | str]:
    """Loss, acceptance, tunnelling and couplings against the training step."""
    found: dict[str, list[Training]] = {}
    for training in map(Training.open, paths):
        found.setdefault(training.what, []).append(training)
    return [_picture(what, trainings) for what, trainings in found.items()]


def _picture(what: str, trainings: Sequence[Training]) -> Picture | str:
    values = {name: {row[name] for one in trainings for row in one.rows if name in row} for name in _CURVES}
    names = [name for name, found in values.items() if len(found) > 1]
    if not names:
        return f"Training of {what}: there is nothing to draw yet."
    figure, axes = panels(len(names), min(3, len(names)), 3.6, 2.7)
    colours = mpl.colormaps["viridis"].resampled(len(trainings) + 1).colors  # type: ignore[attr-defined]
    for axis, name in zip(axes, names, strict=True):
        for number, one in enumerate(trainings):
            rows = [row for row in one.rows if name in row]
            style = {"color": colours[number], "linestyle": ("-", "--", ":")[number % 3], "linewidth": 1.1}
            x, y = [row["step"] for row in rows], [row[name] for row in rows]
            axis.plot(x, y, label=mathtext(one.path.resolve().name), **style)
        axis.set(xscale="log", xlabel="training step", ylabel=mathtext(_CURVES[name]))
    add_legend(figure)
    meanings = dict.fromkeys(one.loss for one in trainings)
    caption = (
        f"L = {'; '.join(meanings)}, averaged over the batch; A is the probability that a proposal is accepted. Points "
        "are averages over the last steps."
    )
    return Picture(f"training-{trainings[0].path.resolve().name}", f"Training of {what}", caption, figure)
