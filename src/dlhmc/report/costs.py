"""What an independent configuration costs along a family of comparisons, and whether it is a right one."""

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from dlhmc.comparison.results import NOTHING, Entry, Quantity, in_steps, in_time, work_of
from dlhmc.comparison.table import LEGEND, by_cost, sections, shown
from dlhmc.report.compared import ComparedRun, Cost, Family, cheapest, groups, in_words
from dlhmc.report.page import Picture, Table
from dlhmc.report.plots import BLACK, BLUE, COLOURS, GREEN, GREY, add_legend, mark, mathtext, panels
from dlhmc.statistics.autocorrelation import autocorrelation_function

_MOST_LAGS = 200
_MOST_PANELS = 4
_LONGEST_ROW = 38
_ROW = 0.34


class Axis(NamedTuple):
    """Something to know about each sampler."""

    of: Cost
    label: str
    factor: float = 1.0
    is_log: bool = True


def _costs(family: Family) -> list[Axis]:
    def work(name: str) -> Cost:
        return lambda entry: entry.work_per_independent.get(name, NOTHING)

    names = work_of([entry for run in family.runs for entry in run.results.entries])
    return [
        Axis(in_steps, f"N_{{LF}} τ_{{int}}({family.judge})"),
        Axis(in_time, "milliseconds", 1e3),
        *(Axis(work(name), family.last.symbol(name)) for name in names),
    ]


def cost_picture(family: Family, judge: str, moves: str) -> Picture:
    """In leapfrog steps, in time and in work."""
    caption = (
        f"Leapfrog steps: those of τ_{{int}} trajectories, τ_{{int}} that of {family.judge}; a step of the Omelyan "
        "integrator has two forces and counts once. Time, of one chain, and work: those of 2τ_{int} trajectories, compiling "
        "excluded. Arrows: only a lower limit (95 %) is known. Lines: the cheapest of each kind."
    )
    caption += " Grey: from elsewhere, for reference." if family.curves else ""
    return _picture("cost", f"Cost of an independent {judge}", caption, family, _costs(family), moves)


def deviations_picture(family: Family, moves: str) -> Picture | str:
    """How far the samplers are from exact results."""

    def pull(name: str) -> Cost:
        return lambda entry: Quantity(entry.observables[name]["z"], 1.0)

    known = [Axis(pull(name), f"{family.last.symbol(name)}, in σ", is_log=False) for name in family.last.results.exact]
    caption = "Measured minus exact in units of the error, which is honest but large for a frozen sampler."
    title = "Observables against exact results"
    return _picture("observables", title, caption, family, known, moves) if known else "No exact result is known."


def _picture(name: str, title: str, caption: str, family: Family, axes: Sequence[Axis], moves: str) -> Picture:
    """Against the setting in which comparisons differ; of a single one, a row for each sampler."""
    everyone = groups(family.runs, moves)
    learned = iter([(colour, marker) for marker in "Ds<>" for colour in COLOURS])
    fixed = {"hmc": (BLUE, "o"), "move": (BLACK, "^"), "exact": (GREEN, "v")}
    looks = {group: fixed.get(found[0].kind) or next(learned) for group, found in everyone.items()}
    in_rows = len(family.runs) == 1
    rows = [entry for entry in by_cost(family.last.results.entries) if entry.status != "dropped"] if in_rows else []
    shape = (1, len(axes)) if in_rows else (-(-len(axes) // 2), min(2, len(axes)))
    height = _ROW * (len(rows) + len(family.curves)) + 1.3 if in_rows else 3.2
    figure, drawn = panels(*shape, 9.2 / max(2, shape[1]), height, sharey=in_rows)
    for panel, axis in zip(drawn.flat, axes, strict=False):
        for group, (colour, marker) in looks.items():
            style: dict[str, Any] = {"label": mathtext(group), "color": colour, "marker": marker}
            if in_rows:
                points = [(row, axis.of(entry)) for row, entry in enumerate(rows) if entry in everyone[group]]
                mark(panel, points, axis.factor, in_rows=True, linestyle="none", **style)
            else:
                best = [(family.at(run), cheapest(groups([run], moves).get(group, ()), axis.of)) for run in family.runs]
                points = [(place, axis.of(entry)) for place, entry in best if entry is not None]
                mark(panel, points, axis.factor, **style)
        if axis.is_log:
            (panel.set_xscale if in_rows else panel.set_yscale)("log")
        label, along = mathtext(axis.label), mathtext(family.last.symbol(family.axis or ""))
        panel.set(xlabel=label) if in_rows else panel.set(xlabel=along, ylabel=label)
        names = list(map(in_words, rows))
        for curve in family.curves if axis.of is in_steps else ():
            style = {"color": GREY, "linestyle": "--" if curve.dashed else "-", "label": mathtext(curve.name)}
            if not in_rows:
                panel.plot(curve.x, curve.y, **style)
            elif (place := family.at(family.last)) in curve.x:
                panel.plot(curve.y[curve.x.index(place)], len(names), "s", color=GREY)
                names.append(curve.name)
        if in_rows:
            texts = [mathtext(textwrap.fill(name, _LONGEST_ROW)) for name in names]
            panel.set_yticks(range(len(names)), texts, fontsize=8)
            panel.set_ylim(len(names) - 0.4, -0.6)
    add_legend(figure)
    return Picture(name, title, caption, figure)


def autocorrelation_picture(run: ComparedRun, moves: str) -> Picture:
    """ρ(t) of what moves slowly, with the windows at which the sums for τ_int end."""
    slow = run.slow[:_MOST_PANELS]
    figure, axes = panels(-(-len(slow) // 2), min(2, len(slow)), height=2.8)
    for axis, name in zip(axes.flat, slow, strict=False):
        mean = None if run.target is None else run.target.slow.get(name)
        for (title, entry), colour in zip(run.contenders(moves).items(), (BLUE, *COLOURS * 3), strict=False):
            history, window = run.history(entry, name).astype(float), int(entry.tau_int[name]["window"] or 0)
            reach = min(_MOST_LAGS, max(2 * window, 20), len(history) // 2 - 1)
            found = autocorrelation_function(history, mean, max_lag=reach)
            rho, error = found.rho, found.error
            axis.plot(rho, color=colour, label=mathtext(title))
            axis.fill_between(range(len(rho)), rho - error, rho + error, color=colour, alpha=0.25, linewidth=0)
            axis.plot([window][: window < len(rho)], rho[window : window + 1], "v", color=colour)
        axis.set(xlabel="lag t (trajectories)", ylabel=mathtext(f"ρ(t) of {run.symbol(name)}"))
    add_legend(figure)
    caption = (
        "ρ(t) with its error (Madras and Sokal) of the best HMC and the best of each kind of learned samplers. Triangles: "
        "where the sum for τ_{int} ends (Wolff); for a frozen chain that lies far beyond the lags shown."
    )
    return Picture("autocorrelation", f"Autocorrelation, {run.where}", caption, figure)


def cost_table(family: Family, moves: str, column: str = "", rows: Sequence[str] = ()) -> Table:
    """One row for each comparison: the best of each kind, and the gains of the trained sampler.

    `rows` of a `column` are what comparisons are called, if not by their places on the axis.
    """
    kinds = {"hmc": "HMC", "move": moves, "model": "trained"}
    kinds = {kind: name for kind, name in kinds.items() if any(run.of_kind(kind) for run in family.runs)}
    columns = [(kind, axis, f"{name}: {axis.label}") for axis in _costs(family) for kind, name in kinds.items()]
    columns += [("model", Axis(lambda e: e.gain_in_steps, ""), "gain in steps")]
    columns += [("model", Axis(lambda e: e.gain_in_time, ""), "gain in time")]
    cells = []
    for place, run in zip(rows or [f"{family.at(run):g}" for run in family.runs], family.runs, strict=True):
        best = [
            (
                run.best(
                    kind,
                ),
                axis,
            )
            for kind, axis, _ in columns
        ]
        cells.append([place, *("" if entry is None else shown(axis.of(entry), axis.factor) for entry, axis in best)])
    caption = (
        f"Cost of an independent configuration, N_{{LF}} τ_{{int}} that of {family.judge}, milliseconds those of one chain. "
        "In each column the best of its kind. Gains: of the trained sampler over the best HMC. > and <: limits at 95 %."
    )
    return Table(caption, (column or family.last.symbol(family.axis or ""), *(name for *_, name in columns)), cells)


def all_tables(run: ComparedRun) -> list[Table]:
    """Every sampler of a comparison: costs, trajectories, observables, and what kernels tell beside."""
    captions = (
        f"Cost, {run.where}. {LEGEND}",
        *(f"{what}, {run.where}" for what in ("Trajectories", "Observables", "Work")),
    )
    return [Table(caption, *section) for caption, section in zip(captions, sections(run.results), strict=False)]
