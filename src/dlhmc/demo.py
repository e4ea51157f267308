"""Frozen topology thaws: HMC, and HMC with an instanton hit after each trajectory, beside the exact values."""

from itertools import count
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from dlhmc.errors import ExitCode
from dlhmc.figures import charge_histories, save
from dlhmc.runs.config import SampleConfig
from dlhmc.runs.directory import RunDirectory, read_json
from dlhmc.runs.history import History
from dlhmc.runs.sampling import sample
from dlhmc.runs.summary import shown_mean, shown_time

_SAMPLERS = {"HMC": 0, "HMC + hits": 1}
_ROWS = ("plaquette", "charge_squared", "sine_charge_squared")


def demo(out: Path, trajectories: int, console: Console) -> ExitCode:
    """Run both samplers on 16×16 at β = 7, print the comparison and draw the charges."""
    # Never into an earlier demo: the first number that is free.
    out = next(out / str(number) for number in count(1) if not (out / str(number)).exists())
    summaries, histories = {}, {}
    for label, hits in _SAMPLERS.items():
        console.print(f"[bold]{label}[/bold] on 16×16 at β = 7", highlight=False)
        config = SampleConfig(trajectories=trajectories, hits=hits, warmup=300)
        directory = RunDirectory(out / ("hits" if hits else "hmc"))
        code = sample(config, directory.path, console, show_results=False)
        if code is not ExitCode.OK:
            return code
        summaries[label] = read_json(directory.summary)
        histories[label] = np.asarray(History.open(directory.history, "r").array("charge")[:, 0])
    table = Table(title="16×16, β = 7: the same theory, twice", title_justify="left")
    table.add_column("")
    for label in _SAMPLERS:
        table.add_column(label, justify="right")
    table.add_column("exact", justify="right")
    for name in _ROWS:
        entries = [summary[name] for summary in summaries.values()]
        measured = [f"{shown_mean(entry)} ({entry['z']:+.1f}σ)" for entry in entries]
        table.add_row(name.replace("_", " "), *measured, f"{entries[0]['exact']:.6f}")
    table.add_row("acceptance", *(f"{summary['acceptance']:.3f}" for summary in summaries.values()))
    table.add_row("τ_int(charge)", *(shown_time(summary["tau_int_charge"]) for summary in summaries.values()), "0.5")
    times = [summary["microseconds_per_trajectory"] for summary in summaries.values()]
    table.add_row("µs/trajectory/chain", *(f"{time:.3g}" for time in times))
    console.print(table)
    console.print("τ_int: trajectories until the charge is forgotten; 0.5 is that of independent draws")
    figure = charge_histories(histories, "Topological charge of one chain, 16×16 at β = 7")
    picture = save(figure, out / "topology")[0]
    console.print(f"picture: {picture}", highlight=False, soft_wrap=True)
    return ExitCode.OK
