"""What an independent configuration costs along a family of comparisons, and whether it is a right one."""

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from dlhmc.comparison.results import NOTHING, Entry, Quantity, in_steps, in_time, work_of
from dlhmc.comparison.table import LEGEND, by_cost, sections, shown
from dlhmc.report.compared import ComparedRun, Cost, Family, cheapest, groups, in_words
from dlhmc.report.page import Picture, Table
from dlhmc.report.plots import BLACK, BLUE, COLOURS, GREEN, GREY, add_legend, mark, mathtext, panels
from dlhmc.statistics.autocorrelation import autocorrelation_function

_MOST_LAGS = 200
_MOST_PANELS = 4
_LONGEST_ROW = 38


class Axis(NamedTuple):
    """Something to know about each sampler."""

    of: Cost
    label: str
    is_cost: bool = True


def _costs(family: Family) -> list[Axis]:
    def work(name: str) -> Cost:
        return lambda entry: entry.work_per_independent.get(name, NOTHING)

    names = work_of([entry for run in family.runs for entry in run.results.entries])
    steps = Axis(in_steps, f"N_{{LF}} τ_{{int}}({family.symbol(family.last.slow[0])})")
    return [
        steps,
        Axis(lambda entry: in_time(entry).times(1e3), "milliseconds"),
        *(Axis(work(name), family.symbol(name)) for name in names),
    ]


def cost_picture(family: Family) -> Picture:
    """In leapfrog steps, in time and in work."""
    caption = (
        "Leapfrog steps of τ_{int} trajectories, where one of the Omelyan integrator has two forces and counts once. "
        "Time, of one chain, and work of 2τ_{int} trajectories, compiling excluded. Lines: the cheapest of each kind. "
        "Arrows: only a lower limit (95 %) is known. Grey: from elsewhere, for reference."
    )
    return Picture("cost", "Cost of an independent configuration", caption, _draw(family, _costs(family)))


def deviations_picture(family: Family) -> Picture | str:
    """How far the samplers are from exact results."""

    def pull(name: str) -> Cost:
        return lambda entry: Quantity(entry.observables[name]["z"], 1.0)

    known = [Axis(pull(name), f"{family.symbol(name)}, in σ", is_cost=False) for name in family.last.results.exact]
    if not known:
        return "No exact results are known for this target."
    caption = "Measured minus exact in units of the error, which is honest but large for a frozen sampler."
    return Picture("observables", "Observables against exact results", caption, _draw(family, known))


def _draw(family: Family, axes: Sequence[Axis]) -> Figure:
    """Against the setting in which comparisons differ; of a single one, a row for each sampler, the cheapest first."""
    in_rows, run, learned = len(family.runs) == 1, family.last, iter(COLOURS)
    fixed = {"hmc": (BLUE, "o"), "move": (BLACK, "^"), "exact": (GREEN, "v")}
    rows = [entry for entry in by_cost(run.results.entries) if entry.status != "dropped"]
    others = {c.name: c.y[c.x.index(family.at(run))] for c in family.curves if family.at(run) in c.x}
    names = [mathtext(textwrap.fill(name, _LONGEST_ROW)) for name in [*map(in_words, rows), *others]]
    columns, height = (len(axes), 0.34 * len(names) + 1.3) if in_rows else (2, 3.2)
    figure, drawn = panels(len(axes), columns, 9.2 / columns, height, sharey=in_rows)
    for group, entries in groups(family.runs).items():
        colour, marker = fixed.get(entries[0].kind) or (next(learned), "D")
        style: dict[str, Any] = {"label": mathtext(group), "color": colour, "marker": marker}
        for panel, (of, _, is_cost) in zip(drawn, axes, strict=True):
            if in_rows:
                found: list[tuple[float, Entry]] = [(row, entry) for row, entry in enumerate(rows) if entry in entries]
            else:
                best = [cheapest(groups([one]).get(group, ()), of if is_cost else in_time) for one in family.runs]
                found = [(family.at(one), entry) for one, entry in zip(family.runs, best, strict=True) if entry]
            line = "-" if is_cost and not in_rows else "none"
            mark(panel, [(place, of(entry)) for place, entry in found], in_rows=in_rows, linestyle=line, **style)
    for panel, axis in zip(drawn, axes, strict=True):
        scale, label = "log" if axis.is_cost else "linear", mathtext(axis.label)
        if in_rows:
            panel.set(xscale=scale, xlabel=label, ylim=(len(names) - 0.4, -0.6))
            panel.set_yticks(range(len(names)), names, fontsize=8)
        else:
            panel.set(yscale=scale, ylabel=label, xlabel=mathtext(family.symbol(family.axis)))
    if axes[0].of is in_steps and in_rows:
        drawn[0].plot([*others.values()], range(len(rows), len(names)), "s", color=GREY)
    elif axes[0].of is in_steps:
        for curve in family.curves:
            line = "--" if curve.dashed else "-"
            drawn[0].plot(curve.x, curve.y, line, color=GREY, label=mathtext(curve.name))
    add_legend(figure)
    return figure


def autocorrelation_picture(run: ComparedRun) -> Picture:
    """ρ(t) of what moves slowly, with the windows at which the sums for τ_int end."""
    slow, contenders = run.slow[:_MOST_PANELS], run.contenders
    figure, axes = panels(len(slow), min(2, len(slow)), 4.6, 2.8)
    for axis, name in zip(axes, slow, strict=True):
        windows = {title: int(entry.tau_int[name]["window"] or 0) for title, entry in contenders.items()}
        learned = [windows[title] for title, entry in contenders.items() if entry.kind == "model"]
        mean = None if run.target is None else run.target.known.slow(run.target).get(name)
        for (title, entry), colour in zip(contenders.items(), (BLUE, *COLOURS), strict=False):
            history, window = run.history(entry, name).astype(float), windows[title]
            lags = min(_MOST_LAGS, max(2 * max(learned, default=_MOST_LAGS), 20), len(history) // 2 - 1)
            found = autocorrelation_function(history, mean, max_lag=lags)
            low, high = found.rho - found.error, found.rho + found.error
            axis.plot(found.rho, color=colour, label=mathtext(title))
            axis.fill_between(range(lags + 1), low, high, color=colour, alpha=0.25, linewidth=0)
            axis.plot([window][: window <= lags], found.rho[window : window + 1], "v", color=colour)
        axis.set(xlabel="lag t (trajectories)", ylabel=mathtext(f"ρ(t) of {run.symbol(name)}"))
        axis.set_ylim(min(-0.1, axis.get_ylim()[0]), 1.05)
    add_legend(figure)
    caption = (
        "ρ(t) with its error (Madras and Sokal) of the best HMC and the best of each kind of learned samplers. "
        "Triangles: where the sum for τ_{int} ends (Wolff); for a frozen chain that lies far beyond the lags shown."
    )
    return Picture("autocorrelation", f"Autocorrelation, {run.where}", caption, figure)


def cost_table(family: Family, column: str = "", rows: Sequence[str] = ()) -> Table:
    """One row for each comparison: the best of each kind, and the gains of the trained sampler.

    `rows` of a `column` are what comparisons are called, if not by their places on the axis.
    """
    kinds = {"hmc": "HMC", "move": "moves", "model": "trained"}
    kinds = {kind: name for kind, name in kinds.items() if any(run.best(kind) for run in family.runs)}
    columns: list[tuple[str, str, Cost, Cost]] = [
        (kind, f"{name}: {axis.label}", axis.of, axis.of) for axis in _costs(family) for kind, name in kinds.items()
    ]
    columns.append(("model", "gain in steps", in_steps, lambda entry: entry.gain_in_steps))
    columns.append(("model", "gain in time", in_time, lambda entry: entry.gain_in_time))
    cells = []
    for place, run in zip(rows or [f"{family.at(run):g}" for run in family.runs], family.runs, strict=True):
        best = [(run.best(kind, cost), value_of) for kind, _, cost, value_of in columns]
        cells.append([place, *("" if entry is None else shown(value_of(entry)) for entry, value_of in best)])
    caption = (
        "Cost of an independent configuration; milliseconds are those of one chain. In each column the best of its "
        "kind. Gains: of the trained sampler over the best HMC. > and <: limits at 95 %."
    )
    return Table(caption, (column or family.symbol(family.axis), *(name for _, name, _, _ in columns)), cells)


def all_tables(run: ComparedRun) -> list[Table]:
    """Every sampler of a comparison: costs, trajectories, observables, and what kernels tell beside."""
    captions = (
        f"Cost, {run.where}. {LEGEND}",
        *(f"{what}, {run.where}" for what in ("Trajectories", "Observables", "Work")),
    )
    return [Table(caption, *section) for caption, section in zip(captions, sections(run.results), strict=False)]
