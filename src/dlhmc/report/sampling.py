"""Figure and table of a sampling run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from dlhmc.report.page import Picture, Table
from dlhmc.report.plots import BLUE, VERMILION, panels, plot_history
from dlhmc.runs.describe import known_theory, symbol
from dlhmc.runs.directory import RunDirectory, read_json, require_newest
from dlhmc.runs.history import History
from dlhmc.runs.sampling import open_measured
from dlhmc.runs.summary import (
    Element,
    Quantities,
    index_of,
    shown_checks,
    shown_elements,
    shown_mean,
    shown_microseconds,
    shown_moment,
    shown_time,
)
from dlhmc.theories.contract import Theory


class SampledRun(NamedTuple):
    """A sampling run, finished or not."""

    path: Path
    history: History
    #: trajectories that the history holds
    rows: int
    theory: Theory | None
    #: of a finished run: summary.json
    summary: dict[str, Any] | None

    @classmethod
    def open(cls, path: Path) -> Self:
        """The run in a directory."""
        found, problems = open_measured(path)
        require_newest(path, problems)
        directory = RunDirectory(path)
        summary = read_json(directory.summary, directory.identity()) if directory.summary.exists() else None
        return cls(path, found.history, found.rows, known_theory(found.history.attributes), summary)

    @property
    def name(self) -> str:
        """Of the directory."""
        return self.path.resolve().name

    @property
    def notes(self) -> dict[str, Any]:
        """What one needs to know to read observables that are measured rarely (`Occasional.notes`)."""
        notes: dict[str, Any] = json.loads(self.history.attributes.get("notes", "{}"))
        return notes

    def first_chain(self, name: str, element: Element) -> Any:
        """What was recorded of an observable, or of one element of it, in one chain."""
        return np.asarray(self.history.array(name)[: self.rows, *element, 0])

    def symbol(self, name: str) -> str:
        """An observable in the notation of its theory."""
        return symbol(self.theory, name)


def sampling_picture(run: SampledRun) -> Picture | str:
    """The slow observables of one chain against the Monte Carlo step."""
    slow = list(Quantities.read(run.history.attributes, "The history").slow)[:2]
    if not slow:
        return "No observable of this run is known to move slowly."
    figure, axes = panels(len(slow), 1, 8.0, 2.1, sharex=True)
    for axis, name, colour in zip(axes[:, 0], slow, (VERMILION, BLUE), strict=False):
        element: tuple[Any, ...] = (0,) * (run.history.array(name).ndim - 2)  # the first one stands for all
        plot_history(axis, run.first_chain(name, element), run.symbol(name) + index_of(element), color=colour)
    axes[-1, 0].set_xlabel("Monte Carlo step (trajectories)")
    title = f"One chain of {run.name}"
    return Picture(f"history-{run.name}", title, "The first trajectories of the first chain.", figure)


def sampling_table(summary: Mapping[str, Any]) -> Table:
    """What a finished run has measured, beside exact values."""
    moments = [name for name, entry in summary.items() if isinstance(entry, dict) and "exact" in entry]
    rows = [row for name in moments for row in shown_moment(name, summary[name])]
    rows += [(*row, "") for row in shown_checks(summary)]
    values = {name.replace("_", " "): shown_mean(entry) for name, entry in summary.get("derived", {}).items()}
    for name in (name for name in summary if name.startswith("tau_int_")):
        for label, tau in shown_elements(name.removeprefix("tau_int_"), summary[name]):
            values[f"τ_{{int}} of {label}"] = shown_time(tau) if tau else ""
    if summary["acceptance"] is not None:
        values["acceptance"] = f"{summary['acceptance']:.4f}"
    values |= {name.replace("_", " "): f"{value:.4g}" for name, value in summary.get("kernel_figures", {}).items()}
    values["µs a trajectory and chain"] = shown_microseconds(summary["microseconds_per_trajectory"])
    rows += [(name, value, "", "", "") for name, value in values.items()]
    steps = summary["leapfrog_steps"]
    caption = ", ".join([*summary["title"].split("  "), *([f"{steps} leapfrog steps each"] if steps else [])])
    caption = " ".join([f"{caption}.", *summary["warnings"], *summary["alarms"]])
    return Table(caption, ("", "measured", "exact", "difference", "R̂"), rows)
