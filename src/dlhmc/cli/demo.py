"""HMC freezes, networks that learn while one looks on tunnel; both beside the exact values."""

import dataclasses
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dlhmc.errors import ExitCode
from dlhmc.report.page import save
from dlhmc.report.plots import draw_histories
from dlhmc.run.directory import RunDirectory, read_json
from dlhmc.run.driver import ExecutionOptions
from dlhmc.run.show import shown_mean, shown_time
from dlhmc.spec.sampling import SampleSpec
from dlhmc.spec.training import TrainSpec
from dlhmc.theories.u1.figures import Q_Z, in_words
from dlhmc.theories.u1.theory import U1Settings

_ROWS = ("plaquette", "charge_squared")


def demo(out: Path, trajectories: int, steps: int, console: Console, settings: U1Settings | None = None) -> ExitCode:
    """Train on 16×16 at β = 7, sample with HMC and with networks in turn with it, print all and draw the charges.

    Before training the layers are HMC, with two steps; that there is a way out of a sector they find by themselves.
    """
    settings = settings or U1Settings()
    where, target = in_words(settings), {"target": "u1", **dataclasses.asdict(settings)}
    # Never into an earlier demo: the first number that is free.
    out = next(out / str(number) for number in count(1) if not (out / str(number)).exists())
    console.print(f"[bold]training[/bold] networks for {where}", highlight=False)
    _, code = TrainSpec.of(target | {"network": "local", "steps": steps}).run(out / "training", console)
    if code is not ExitCode.OK:
        return code
    samplers: dict[str, dict[str, Any]] = {
        "HMC": {"warmup": 300},
        "networks": {"warmup": 100, "model": str(out / "training"), "alternate": 0},
        "in turn": {"warmup": 300, "model": str(out / "training")},
    }
    summaries, chains = {}, {}
    for label, sampler in samplers.items():
        console.print(f"[bold]{label}[/bold] on {where}", highlight=False)
        directory = RunDirectory(out / label.lower().replace(" ", "-"))
        plan = SampleSpec.of(target | sampler | {"trajectories": trajectories})
        work, code = plan.run(directory.path, console, ExecutionOptions(results=False))
        if code is not ExitCode.OK:
            return code
        summaries[label] = read_json(directory.summary)
        chains[label] = np.asarray(work.history.arrays["charge"][:, 0])
    console.print(_table(summaries, where))
    console.print("networks: HMC before training; that there is a way out of a sector they found by themselves")
    console.print("τ_int: trajectories until the charge is forgotten; 0.5 is that of independent draws")
    picture = save(draw_histories(chains, Q_Z), "topology", out)
    console.print(f"picture: {picture}", highlight=False, soft_wrap=True)
    return ExitCode.OK


def _table(summaries: dict[str, dict[str, Any]], where: str) -> Table:
    table = Table(title=f"{where}: the same theory, three times", title_justify="left")
    table.add_column("")
    for label in summaries:
        table.add_column(label, justify="right")
    table.add_column("exact", justify="right")
    for name in _ROWS:
        entries = [summary[name] for summary in summaries.values()]
        table.add_row(name.replace("_", " "), *map(shown_mean, entries), f"{entries[0]['exact']:.6f}")
        table.add_row("  from exact", *("" if entry["z"] is None else f"{entry['z']:+.1f}σ" for entry in entries))
    table.add_row("acceptance", *(f"{summary['acceptance']:.3f}" for summary in summaries.values()))
    table.add_row("leapfrog steps", *(f"{summary['leapfrog_steps']}" for summary in summaries.values()))
    table.add_row("τ_int(charge)", *(shown_time(summary["tau_int_charge"]) for summary in summaries.values()), "0.5")
    times = [summary["microseconds_per_trajectory"] for summary in summaries.values()]
    table.add_row("µs/trajectory/chain", *(f"{time:.3g}" for time in times))
    reference, *trained = summaries.values()
    for row, unit in (("in steps", "leapfrog_steps"), ("in time", "microseconds_per_trajectory")):
        table.add_row(f"speed-up {row}", "1", *(_speed_up(reference, other, unit) for other in trained))
    return table


def _speed_up(reference: dict[str, Any], other: dict[str, Any], unit: str) -> str:
    """How much less an independent configuration costs; at least that much where the reference is a lower bound."""
    times = [summary["tau_int_charge"] for summary in (reference, other)]
    if times[1]["value"] is None:
        return "?"
    frozen = times[0]["value"] is None
    first = times[0]["lower_bound"] if frozen else times[0]["value"]
    if first is None:
        return "?"
    ratio = first * reference[unit] / (times[1]["value"] * other[unit])
    return f"{'> ' if frozen else ''}{ratio:,.0f}"
