"""Chart and table of a sampling run."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from dlhmc.errors import UserError
from dlhmc.report.charts import BLUE, VERMILION, Chart, Panel, Table
from dlhmc.report.histories import SHOWN_STEPS, STEP, history_series
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
        """What was recorded of an observable, or of one element of it, in the first trajectories of one chain."""
        return np.asarray(self.history.array(name)[: min(SHOWN_STEPS, self.rows), *element, 0])

    def symbol(self, name: str) -> str:
        """An observable in the notation of its theory."""
        return symbol(self.theory, name)

    @contextmanager
    def sound(self) -> Iterator[None]:
        """Results that make no sense are somebody's damaged files."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            summary = RunDirectory(self.path).summary
            raise UserError(f"{summary} is damaged or of another version of dlhmc: {error!r}.") from None


def sampling_chart(run: SampledRun) -> Chart:
    """The slow observables of one chain against the Monte Carlo step."""
    panels = []
    slow = Quantities.read(run.history.attributes, "The history").slow
    for name, colour in zip(slow, (VERMILION, BLUE), strict=False):
        element: tuple[Any, ...] = (0,) * (run.history.array(name).ndim - 2)  # the first one stands for all
        series = history_series(name.replace("_", " ") + index_of(element), run.first_chain(name, element), colour)
        panels.append(Panel(STEP, run.symbol(name) + index_of(element), [series]))
    return Chart(
        f"history-{run.path.name}",
        f"One chain of {run.path.name}",
        "The first trajectories of the first chain.",
        panels,
        columns=1,
    )


def sampling_table(summary: Mapping[str, Any]) -> Table:
    """What a finished run has measured, beside exact values."""
    moments = [name for name, entry in summary.items() if isinstance(entry, dict) and "exact" in entry]
    rows = [row for name in moments for row in shown_moment(name, summary[name])]
    rows += [(*row, "") for row in shown_checks(summary)]
    for name, entry in summary.get("derived", {}).items():
        rows.append((name.replace("_", " "), shown_mean(entry), "", "", ""))
    for name in (name for name in summary if name.startswith("tau_int_")):
        for label, tau in shown_elements(name.removeprefix("tau_int_"), summary[name]):
            rows.append((f"τ_{{int}} of {label}", shown_time(tau) if tau else "", "", "", ""))
    if summary["acceptance"] is not None:
        rows.append(("acceptance", f"{summary['acceptance']:.4f}", "", "", ""))
    for name, value in summary.get("kernel_figures", {}).items():
        rows.append((name.replace("_", " "), f"{value:.4g}", "", "", ""))
    rows.append(("µs a trajectory and chain", shown_microseconds(summary["microseconds_per_trajectory"]), "", "", ""))
    steps = summary["leapfrog_steps"]
    caption = ", ".join([*summary["title"].split("  "), *([f"{steps} leapfrog steps each"] if steps else [])])
    caption = " ".join([f"{caption}.", *summary["warnings"], *summary["alarms"]])
    return Table(caption, ("", "measured", "exact", "difference", "R̂"), rows)
