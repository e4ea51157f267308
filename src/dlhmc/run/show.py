"""What a run has found, for people: the table beside the exact values, warnings and alarms."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dlhmc.run.precision import Precision
from dlhmc.run.summary import MOST_NONFINITE, TAU_INT, Element
from dlhmc.statistics import format_uncertainty

#: elements of an array that are shown
MOST_SHOWN = 4
COLUMNS = ("observable", "measured", "exact", "difference", "R̂", "ESS/s")
# Averages of functions of ΔH, and the configurational temperature: where they are, and what they must be.
_CHECKS = {
    "exp(-ΔH)": ("exp_minus_dh", 1),
    "A tanh(ΔH/2)": ("balance", 0),
    "exp(-ΔH) of moves": ("exp_minus_dh_of_moves", 1),
    "A tanh(ΔH/2) of moves": ("balance_of_moves", 0),
    "⟨|∇S|²⟩/⟨ΔS⟩": ("temperature", 1),
}


def show_warnings(figures: Mapping[str, Any], console: Console) -> None:
    """Print the warnings of a run; in red if numbers go wrong more often than now and then."""
    style = "red" if figures.get("nonfinite_fraction", 0) > MOST_NONFINITE else None
    for warning in figures["warnings"]:
        console.out(f"Warning: {warning}", style=style, highlight=False)


def show(summary: Mapping[str, Any], console: Console) -> None:
    """Print the table: observable, measured, exact, difference in σ, R̂, speed; then what else there is to say."""
    table = Table(title=escape(summary["title"]), title_justify="left")
    columns = COLUMNS if "seconds" in summary else COLUMNS[:-1]
    for column in columns:
        table.add_column(column, justify="left" if column == "observable" else "right")
    for label, *row in shown_observables(summary):
        alarming = label in _CHECKS and summary.get("alarms")
        table.add_row(escape(label), *row[: len(columns) - 1], style="bold red" if alarming else None)
    console.print(table)
    if "seconds" in summary:
        independent = summary["microseconds_per_independent"]
        times = [f"{shown_microseconds(summary['microseconds_per_trajectory'])} µs a trajectory and chain"]
        times += [] if independent is None else [f"{shown_microseconds(independent)} µs an independent configuration"]
        console.print(", ".join(times), highlight=False)
    if summary.get("precision") is not None:
        console.out(f"rounding errors: {Precision(**summary['precision'])}", highlight=False)
    show_warnings(summary, console)
    for alarm in summary.get("alarms", ()):
        console.out(f"Alarm: {alarm}", style="bold red", highlight=False)


def shown_observables(summary: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Rows of the table: moments, checks, what follows from them, and how fast the slow ones move."""
    for name in (name for name, entry in summary.items() if isinstance(entry, dict) and "exact" in entry):
        yield from shown_moment(name, summary[name])
    for label, (name, exact) in _CHECKS.items():
        if (entry := summary.get(name)) is not None:
            difference = f"{(entry['mean'] - exact) / entry['error']:+.1f} σ" if entry["error"] else ""
            yield label, shown_mean(entry), str(exact), difference
    for name, entry in summary.get("derived", {}).items():
        yield name.replace("_", " "), shown_mean(entry)
    if summary.get("acceptance") is not None:
        yield "acceptance", f"{summary['acceptance']:.4f}"
    for name, value in summary.get("kernel_figures", {}).items():
        yield name.replace("_", " "), f"{value:.4g}"
    for name in (name for name in summary if name.startswith(TAU_INT)):
        for label, tau in shown_elements(name.removeprefix(TAU_INT), summary[name]):
            yield f"τ_int({label})", shown_time(tau) if tau else ""


def shown_elements(name: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The elements of a quantity with their labels: the first few of an array, then an empty one.

    >>> [label for label, _ in shown_elements("loop", {"mean": [[1, 2, 3], [4, 5, 6]]})]
    ['loop[0,0]', 'loop[0,1]', 'loop[0,2]', 'loop[1,0]', '…']
    """
    figures = {key: np.asarray(value, object) for key, value in entry.items()}
    elements = list(np.ndindex(next(iter(figures.values())).shape))
    for element in elements[:MOST_SHOWN]:
        label = name.replace("_", " ") + index_of(element)
        yield label, {key: figure[element] for key, figure in figures.items()}
    if len(elements) > MOST_SHOWN:
        yield "…", {}


def index_of(element: Element) -> str:
    """What stands behind a name: [0,1], or nothing for a number."""
    return f"[{','.join(map(str, element))}]" if element else ""


def shown_moment(name: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Label, mean with its error, exact value, difference, R̂ and effective samples a second, for people."""
    for label, figures in shown_elements(name, entry):
        if not figures:
            yield (label, "", "", "", "", "")
            continue
        if "rhat" not in figures:  # of a single configuration
            yield label, f"{figures['mean']:.6f}", "", "", "", ""
            continue
        exact = "" if figures["exact"] is None else f"{figures['exact']:.6f}"
        difference = "" if figures["z"] is None else f"{figures['z']:+.1f} σ"
        rhat = "∞" if figures["rhat"] is None else f"{figures['rhat']:.3f}"
        speed = f"{rate:.3g}" if (rate := figures.get("ess_per_second")) else ""
        yield label, shown_mean(figures), exact, difference, rhat, speed


def shown_time(tau: Mapping[str, Any]) -> str:
    """An autocorrelation time for people; a frozen one is a lower bound."""
    if tau["value"] is None:
        return f"> {tau['lower_bound']:.0f} ({'frozen' if tau['frozen'] else 'too short'})"
    return format_uncertainty(tau["value"], tau["error"])


def shown_microseconds(time: float) -> str:
    """Four digits, and no power of ten, which one would have to count.

    >>> shown_microseconds(186.6213), shown_microseconds(71182.15)
    ('186.6', '71,182')
    """
    return f"{time:.4g}" if time < 1e4 else f"{time:,.0f}"


def shown_mean(entry: Mapping[str, Any]) -> str:
    """A mean with its error, for people."""
    error = math.inf if entry["error"] is None else entry["error"]
    return format_uncertainty(entry["mean"], error)
