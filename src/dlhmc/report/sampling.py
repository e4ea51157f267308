"""Chart and table of a sampling run."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from dlhmc.errors import UserError
from dlhmc.report.charts import BLUE, VERMILION, Chart, Panel, Series, Table
from dlhmc.runs.directory import read_json, require_newest
from dlhmc.runs.sampling import measured, open_sampling
from dlhmc.runs.summary import shown_mean, shown_time

_SHOWN_STEPS = 1000


def sampling_chart(path: Path) -> Chart:
    """The slow observables of one chain against the Monte Carlo step."""
    found = measured(*open_sampling(path))
    require_newest(path, found.problems)
    panels = []
    slow = json.loads(found.history.attributes["quantities"])["slow"]
    for name, colour in zip(slow, (VERMILION, BLUE), strict=False):
        values = np.asarray(found.history.array(name)[: min(_SHOWN_STEPS, found.rows), 0])
        label = name.replace("_", " ")
        kind = "steps" if np.all(values == np.round(values)) else "line"  # of a charge
        series = Series(label, list(range(1, len(values) + 1)), values.tolist(), kind, colour)  # type: ignore[arg-type]
        panels.append(Panel("Monte Carlo step (trajectories)", label, [series]))
    return Chart(
        f"history-{path.name}",
        f"One chain of {path.name}",
        "The first trajectories of the first chain.",
        panels,
        columns=1,
    )


def sampling_table(path: Path) -> Table:
    """What a finished run has measured, beside exact values."""
    directory, _ = open_sampling(path)
    try:
        return _table(read_json(directory.summary, directory.identity()))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UserError(f"{directory.summary} is damaged or of another version of dlhmc: {error!r}.") from None


def _table(summary: dict[str, Any]) -> Table:
    rows = []
    for name in [name for name, entry in summary.items() if isinstance(entry, dict) and "exact" in entry]:
        entry = summary[name]
        exact = "" if entry["exact"] is None else f"{entry['exact']:.6f}"
        deviation = "" if entry["z"] is None else f"{entry['z']:+.1f}"
        rows.append((name.replace("_", " "), shown_mean(entry), exact, deviation))
    rows += [
        (f"τ_{{int}} of {name.removeprefix('tau_int_').replace('_', ' ')}", shown_time(entry), "", "")
        for name, entry in summary.items()
        if name.startswith("tau_int_")
    ]
    rows.append(("acceptance", f"{summary['acceptance']:.4f}", "", ""))
    rows.append(("µs a trajectory and chain", f"{summary['microseconds_per_trajectory']:.4g}", "", ""))
    chains, trajectories = summary["chains"], summary["trajectories"]
    caption = f"{chains} chains of {trajectories} trajectories, {summary['leapfrog_steps']} leapfrog steps each"
    return Table(caption, ("", "measured", "exact", "deviation in σ"), rows)
