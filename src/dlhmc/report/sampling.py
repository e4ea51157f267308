"""Chart and table of a sampling run."""

from pathlib import Path
from typing import Any

import numpy as np

from dlhmc.errors import UserError
from dlhmc.report.charts import BLUE, VERMILION, Chart, Panel, Table
from dlhmc.report.histories import SHOWN_STEPS, STEP, history_series
from dlhmc.runs.describe import known_theory, symbol
from dlhmc.runs.directory import open_run, read_json, require_newest
from dlhmc.runs.sampling import open_measured
from dlhmc.runs.summary import Quantities, index_of, shown_elements, shown_moment, shown_time


def sampling_chart(path: Path) -> Chart:
    """The slow observables of one chain against the Monte Carlo step."""
    found, problems = open_measured(path)
    require_newest(path, problems)
    attributes = found.history.attributes
    theory = known_theory(attributes)
    panels = []
    for name, colour in zip(Quantities.read(attributes, "The history").slow, (VERMILION, BLUE), strict=False):
        array = found.history.array(name)
        element: tuple[Any, ...] = (0,) * (array.ndim - 2)  # the first one stands for all
        values = np.asarray(array[: min(SHOWN_STEPS, found.rows), *element, 0])
        series = history_series(name.replace("_", " ") + index_of(element), values, colour)
        panels.append(Panel(STEP, symbol(theory, name) + index_of(element), [series]))
    return Chart(
        f"history-{path.name}",
        f"One chain of {path.name}",
        "The first trajectories of the first chain.",
        panels,
        columns=1,
    )


def sampling_table(path: Path) -> Table:
    """What a finished run has measured, beside exact values."""
    directory, _ = open_run("sample", path)
    try:
        return _table(read_json(directory.summary, directory.identity()))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UserError(f"{directory.summary} is damaged or of another version of dlhmc: {error!r}.") from None


def _table(summary: dict[str, Any]) -> Table:
    moments = [name for name, entry in summary.items() if isinstance(entry, dict) and "exact" in entry]
    rows = [row for name in moments for row in shown_moment(name, summary[name])]
    for name in (name for name in summary if name.startswith("tau_int_")):
        for label, tau in shown_elements(name.removeprefix("tau_int_"), summary[name]):
            rows.append((f"τ_{{int}} of {label}", shown_time(tau) if tau else "", "", "", ""))
    if summary["acceptance"] is not None:
        rows.append(("acceptance", f"{summary['acceptance']:.4f}", "", "", ""))
    rows.append(("µs a trajectory and chain", f"{summary['microseconds_per_trajectory']:.4g}", "", "", ""))
    chains, trajectories = summary["chains"], summary["trajectories"]
    caption = f"{chains} chains of {trajectories} trajectories, {summary['leapfrog_steps']} leapfrog steps each"
    caption = " ".join([f"{caption}.", *summary["warnings"], *summary["alarms"]])
    return Table(caption, ("", "measured", "exact", "difference", "R̂"), rows)
