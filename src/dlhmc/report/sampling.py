"""Chart and table of a sampling run."""

from pathlib import Path

import numpy as np

from dlhmc.report.charts import BLUE, VERMILION, Chart, Panel, Series, Table
from dlhmc.runs.config import SampleConfig
from dlhmc.runs.directory import open_run, read_json
from dlhmc.runs.history import History
from dlhmc.runs.summary import shown_mean, shown_time
from dlhmc.runs.targets import build

_SHOWN_STEPS = 1000


def sampling_chart(path: Path) -> Chart:
    """The slow observables of one chain against the Monte Carlo step."""
    directory, config = open_run("sample", SampleConfig, path)
    history, target = History.open(directory.history, "r"), build(config)
    panels = []
    for name, colour in zip(target.slow, (VERMILION, BLUE), strict=False):
        array = history.array(name)
        values = np.asarray(array[:_SHOWN_STEPS, 0])
        values = values[np.isfinite(values)] if values.dtype.kind == "f" else values
        label = name.replace("_", " ")
        kind = "steps" if name == target.sector else "line"
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
    directory, config = open_run("sample", SampleConfig, path)
    summary, target = read_json(directory.summary), build(config)
    rows = []
    for name in target.moments:
        entry = summary[name]
        exact = "" if entry["exact"] is None else f"{entry['exact']:.6f}"
        deviation = "" if entry["z"] is None else f"{entry['z']:+.1f}"
        rows.append((name.replace("_", " "), shown_mean(entry), exact, deviation))
    rows += [
        (f"τ_{{int}} of {name.replace('_', ' ')}", shown_time(summary[f"tau_int_{name}"]), "", "")
        for name in target.slow
    ]
    rows.append(("acceptance", f"{summary['acceptance']:.4f}", "", ""))
    rows.append(("µs a trajectory and chain", f"{summary['microseconds_per_trajectory']:.4g}", "", ""))
    chains, trajectories = summary["chains"], summary["trajectories"]
    caption = f"{chains} chains of {trajectories} trajectories, {summary['leapfrog_steps']} leapfrog steps each"
    return Table(caption, ("", "measured", "exact", "deviation in σ"), rows)
