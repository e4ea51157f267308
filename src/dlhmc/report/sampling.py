"""Figure and table of a sampling run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from dlhmc.report.page import Picture, Table
from dlhmc.report.plots import COLOURS, panels, plot_history
from dlhmc.run import show as shown
from dlhmc.run.describe import known_theory, symbol
from dlhmc.run.directory import RunDirectory, read_json, require_newest
from dlhmc.run.samples import Samples
from dlhmc.run.sampling import open_samples
from dlhmc.run.summary import Element
from dlhmc.theories.contract import Theory


class SampledRun(NamedTuple):
    """A sampling run, finished or not."""

    path: Path
    samples: Samples
    theory: Theory | None
    #: summary.json; nothing for a run that is not finished
    summary: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> Self:
        """The run in a directory."""
        found, _, problems = open_samples(path)
        require_newest(path, problems)
        directory = RunDirectory(path)
        summary = read_json(directory.summary) if directory.summary.exists() else {}
        return cls(path, found, known_theory(found.data.attrs), summary)

    @property
    def name(self) -> str:
        """Of the directory."""
        return self.path.resolve().name

    @property
    def attributes(self) -> dict[str, Any]:
        """What ran."""
        return {str(name): value for name, value in self.samples.data.attrs.items()}

    @property
    def notes(self) -> dict[str, Any]:
        """What one needs to know to read observables that are measured rarely (`Occasional.notes`)."""
        notes: dict[str, Any] = json.loads(self.samples.data.attrs.get("notes", "{}"))
        return notes

    def first_chain(self, name: str, element: Element) -> Any:
        """What was recorded of an observable, or of one element of it, in one chain."""
        return self.samples.histories.read(name, 1, element)[:, :1][:, 0]

    def symbol(self, name: str) -> str:
        """An observable in the notation of its theory."""
        return symbol(self.theory, name)


def sampling_picture(run: SampledRun) -> Picture:
    """The first two slow observables of one chain against the Monte Carlo step."""
    slow = list(run.samples.histories.quantities.slow)[:2]
    figure, axes = panels(len(slow), 1, 8.0, 2.1)
    for axis, name, colour in zip(axes, slow, COLOURS, strict=False):
        element: tuple[Any, ...] = (0,) * len(run.samples.histories.elements[name])  # the first one stands for all
        plot_history(axis, run.first_chain(name, element), run.symbol(name) + shown.index_of(element), color=colour)
    return Picture(f"history-{run.name}", f"One chain of {run.name}", "The first trajectories of one chain.", figure)


def sampling_table(summary: Mapping[str, Any]) -> Table:
    """What a finished run has measured, beside exact values."""
    rows: list[tuple[str, ...]] = list(shown.shown_observables(summary))
    times = [(unit, f"microseconds_per_{unit}") for unit in ("trajectory", "independent")]
    rows += [(f"µs, {unit}", shown.shown_microseconds(summary[name])) for unit, name in times if summary[name]]
    rows = [(*row, *[""] * (len(shown.COLUMNS) - len(row))) for row in rows]
    return Table(" ".join([f"{summary['title']}.", *summary["warnings"], *summary["alarms"]]), shown.COLUMNS, rows)
