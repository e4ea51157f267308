"""What a report says and draws of comparisons: who won, at what cost, and whether it is right."""

import dataclasses
import functools
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from numpy.typing import NDArray

from dlhmc.comparison.comparing import open_results, symbol_of
from dlhmc.comparison.results import Cost, Entry, Results, cheapest
from dlhmc.comparison.table import LEGEND, in_words, sections
from dlhmc.errors import UserError
from dlhmc.files import Archive
from dlhmc.report.curves import Curve
from dlhmc.report.page import Picture, Table
from dlhmc.report.plots import BLACK, BLUE, COLOURS, GREEN, GREY, add_legend, mark, mathtext, panels
from dlhmc.run.describe import known_theory, target_in_words
from dlhmc.settings import build, fields_of
from dlhmc.statistics.autocorrelation import autocorrelation_function
from dlhmc.statistics.quantity import NOTHING, Quantity, ratio
from dlhmc.targets import Target
from dlhmc.theories.contract import Theory

_MOST_LAGS, _MOST_PANELS = 200, 4
_LONGEST_ROW = 38
_STYLES = {"hmc": (BLUE, "o"), "move": (BLACK, "^"), "exact": (GREEN, "v")}


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """A finished comparison and where it is."""

    path: Path
    results: Results

    @classmethod
    def open(cls, path: Path) -> "ComparedRun":
        """What `dlhmc compare` left in a directory."""
        return cls(path, open_results(path))

    @property
    def theory(self) -> Theory | None:
        """None for a target of one's own."""
        return known_theory(self.results.target)

    @functools.cached_property
    def target(self) -> Target | None:
        """The target, where its theory can build it."""
        if self.theory is None:
            return None
        names = {field.name for field in fields_of(self.theory.settings)}
        settings = {name: value for name, value in self.results.target.items() if name in names}
        return build(self.theory.settings, settings, str(self.path)).build()

    @property
    def where(self) -> str:
        """The target in words."""
        name, *settings = target_in_words(self.results.target).split("  ")
        return ", ".join([name if self.theory is None else self.theory.title.partition(":")[0] or name, *settings])

    def symbol(self, name: str) -> str:
        """A quantity in the notation of the field."""
        return symbol_of(self.results)(name)

    @property
    def contenders(self) -> dict[str, Entry]:
        """The best HMC in time, and the best of each group of learned samplers."""
        groups = [name for name, kind in Family([self]).groups.items() if kind in ("hmc", "model")]
        found = {name: cheapest(self.of_group(name), self.results.in_time) for name in groups}
        return {name: entry for name, entry in found.items() if entry is not None}

    def of_group(self, name: str) -> list[Entry]:
        """Samplers that differ in their settings alone."""
        return [entry for entry in self.results.entries if entry.group == name]

    def history(self, entry: Entry, name: str) -> NDArray[Any]:
        """An observable of a sampler, [trajectory, chain]."""
        file = self.path / entry.history
        try:
            if not file.resolve().is_relative_to(self.path.resolve()):
                raise ValueError("it is not in the directory of the comparison")
            return Archive(file).read(name)
        except (OSError, ValueError) as error:
            raise UserError(f"{file} is missing or damaged: {error}.") from None


class Family(NamedTuple):
    """Comparisons on targets that differ in one setting at most, in its order."""

    runs: list[ComparedRun]
    #: that setting
    axis: str | None = None
    #: from elsewhere, for targets such as these
    curves: Sequence[Curve] = ()

    @property
    def last(self) -> ComparedRun:
        """The one that is looked at more closely."""
        return self.runs[-1]

    def at(self, run: ComparedRun) -> float:
        """Where a comparison stands on the axis."""
        return float(run.results.target[self.axis]) if self.axis else 0.0

    @property
    def groups(self) -> dict[str, str]:
        """All groups of samplers with their kinds: HMC first, learned ones next."""
        entries = [entry for run in self.runs for entry in run.results.entries]
        entries.sort(key=lambda entry: ("hmc", "model", "move", "exact").index(entry.kind))
        return {entry.group: entry.kind for entry in entries}


def headline(run: ComparedRun) -> str | None:
    """Who won, and by how much; None where nothing is known."""
    results = run.results
    trained, hmc = (results.best(kind, results.in_time) for kind in ("model", "hmc"))
    own = trained or hmc
    if own is None:
        return None
    judge = results.judge.replace("_", " ")
    said = [f"On {run.where}, an independent {judge} costs {_needs(results, own)} ({own.name})."]
    if trained and hmc:
        gain = results.gain_in_time(trained)
        lost = gain.upper is not None and gain.upper < 1
        verdict = "won" if (gain.lower or 0.0) > 1 else "lost" if lost else "may have won or lost"
        costs = [f"{_needs(results, entry)} ({entry.settings or entry.name})" for entry in (trained, hmc)]
        said = [
            f"The trained sampler {verdict}: on {run.where}, an independent {judge} costs it {costs[0]}, and the best "
            f"HMC {costs[1]}."
        ]
        slowest = results.best("model", results.in_time_for_all) or trained
        factors = {
            "as long": gain,
            "as many leapfrog steps": results.gain_in_steps(trained),
            "as long for the slowest of all observables": results.gain_for_all(slowest),
        }
        said += [_factor(one, what) for what, one in factors.items() if in_words(one)]
    others = [other for kind in ("move", "exact") if (other := results.best(kind, results.in_time))]
    beside = [f"{other.group} {_say(results.in_time(other), 1e3)} ms" for other in others]
    said += [f"For comparison: {', '.join(beside)}."] if beside else []
    if any(" than " in sentence for sentence in said):
        said.append("More or less than: limits at 95 %.")
    return " ".join(said)


def _needs(results: Results, entry: Entry) -> str:
    steps = f"{_say(results.in_steps(entry))} leapfrog steps and " if entry.leapfrog_steps else ""
    return f"{steps}{_say(results.in_time(entry), 1e3)} ms"


def _factor(gain: Quantity, what: str) -> str:
    """By how much more HMC costs, or less."""
    if gain.upper is not None and gain.upper < 1:
        inverse = ratio(Quantity(1.0, 0.0, 1.0, 1.0), gain) if gain.value else Quantity(lower=1 / gain.upper)
        return f"It takes {_say(inverse)} times {what} as HMC."
    return f"HMC takes {_say(gain)} times {what}."


def _say(quantity: Quantity, factor: float = 1.0) -> str:
    return in_words(quantity, factor).replace("> ", "more than ").replace("< ", "less than ")


class Axis(NamedTuple):
    """Something to know about each sampler of a comparison."""

    of: Callable[[ComparedRun], Cost]
    label: str
    is_cost: bool = True


def _costs(family: Family) -> list[Axis]:
    judge = family.last.symbol(family.last.results.judge)
    return [
        Axis(lambda run: run.results.in_steps, f"N_{{LF}} τ_{{int}}({judge})"),
        Axis(lambda run: lambda entry: run.results.in_time(entry).times(1e3), "milliseconds"),
        Axis(lambda run: lambda entry: run.results.in_time_for_all(entry).times(1e3), "milliseconds, all observables"),
        *(Axis(functools.partial(_work, name), family.last.symbol(name)) for name in family.last.results.work),
    ]


def _work(name: str, run: ComparedRun) -> Cost:
    return run.results.in_work(name)


def cost_picture(family: Family) -> Picture:
    """In leapfrog steps and in time."""
    caption = (
        "Leapfrog steps of τ_{int} trajectories; a step of an integrator that takes several forces counts so often. "
        "Time, of one chain, of 2τ_{int} trajectories, compiling excluded. Lines: the cheapest of each kind. "
        "Arrows: only a lower limit (95 %) is known. Grey: from elsewhere, for reference."
    )
    return Picture("cost", "Cost of an independent configuration", caption, _draw(family, _costs(family)))


def deviations_picture(family: Family) -> Picture | str:
    """How far the samplers are from exact results."""

    def pull(name: str) -> Callable[[ComparedRun], Cost]:
        return lambda run: lambda entry: NOTHING if (z := entry.moments[name].z) is None else Quantity(z, 1.0)

    moments = family.last.results.entries[0].moments
    known = [name for name, moment in moments.items() if moment.exact is not None]
    if not known:
        return "No exact results are known for this target."
    axes = [Axis(pull(name), f"{family.last.symbol(name)}, in σ", is_cost=False) for name in known]
    caption = "Measured minus exact in units of the error, which is honest but large for a frozen sampler."
    return Picture("observables", "Observables against exact results", caption, _draw(family, axes))


def _draw(family: Family, axes: Sequence[Axis]) -> Figure:
    return _draw_rows(family, axes) if len(family.runs) == 1 else _draw_lines(family, axes)


def _styles(family: Family) -> dict[str, dict[str, Any]]:
    learned = iter(COLOURS)
    looks = {name: _STYLES.get(kind) or (next(learned), "D") for name, kind in family.groups.items()}
    return {name: {"label": mathtext(name), "color": look[0], "marker": look[1]} for name, look in looks.items()}


def _draw_rows(family: Family, axes: Sequence[Axis]) -> Figure:
    """A row for each sampler, the cheapest first."""
    run = family.last
    rows = sorted(run.results.entries, key=lambda entry: run.results.in_time(entry).figure or float("inf"))
    others = {c.name: c.y[c.x.index(family.at(run))] for c in family.curves if family.at(run) in c.x}
    names = [mathtext(textwrap.fill(name, _LONGEST_ROW)) for name in [*(entry.name for entry in rows), *others]]
    figure, drawn = panels(len(axes), len(axes), 9.2 / len(axes), 0.34 * len(names) + 1.3, sharey=True)
    for panel, axis in zip(drawn, axes, strict=True):
        for group, style in _styles(family).items():
            points = [(row, axis.of(run)(entry)) for row, entry in enumerate(rows) if entry.group == group]
            mark(panel, points, in_rows=True, linestyle="none", **style)
        scale = "log" if axis.is_cost else "linear"
        panel.set(xscale=scale, xlabel=mathtext(axis.label), ylim=(len(names) - 0.4, -0.6))
        panel.set_yticks(range(len(names)), names, fontsize=8)
    if axes[0].is_cost:
        drawn[0].plot([*others.values()], range(len(rows), len(names)), "s", color=GREY)
    add_legend(figure)
    return figure


def _draw_lines(family: Family, axes: Sequence[Axis]) -> Figure:
    """Against the setting in which comparisons differ."""
    figure, drawn = panels(len(axes), 2, 4.6, 3.2)
    for panel, axis in zip(drawn, axes, strict=True):
        for group, style in _styles(family).items():
            points = []
            for run in family.runs:
                cost = axis.of(run) if axis.is_cost else run.results.in_time
                best = cheapest(run.of_group(group), cost)
                points += [] if best is None else [(family.at(run), axis.of(run)(best))]
            mark(panel, points, linestyle="-" if axis.is_cost else "none", **style)
        xlabel = mathtext(family.last.symbol(family.axis or ""))
        panel.set(yscale="log" if axis.is_cost else "linear", ylabel=mathtext(axis.label), xlabel=xlabel)
    for curve in family.curves if axes[0].is_cost else ():
        drawn[0].plot(curve.x, curve.y, "--" if curve.dashed else "-", color=GREY, label=mathtext(curve.name))
    add_legend(figure)
    return figure


def autocorrelation_picture(run: ComparedRun) -> Picture:
    """ρ(t) of what moves slowly."""
    slow, results = run.results.slow[:_MOST_PANELS], run.results
    means = {} if run.target is None else run.target.known.slow(run.target)
    figure, axes = panels(len(slow), min(2, len(slow)), 4.6, 2.8)
    for axis, name in zip(axes, slow, strict=True):
        learned = [entry.taus[name].figure or 0.5 for entry in results.entries if entry.kind == "model"]
        lags = min(_MOST_LAGS, max(20, int(6 * max(learned, default=_MOST_LAGS))))
        for (title, entry), colour in zip(run.contenders.items(), (BLUE, *COLOURS), strict=False):
            history = run.history(entry, name).astype(float)
            found = autocorrelation_function(history, means.get(name), max_lag=min(lags, len(history) // 2 - 1))
            axis.plot(found.rho, color=colour, label=mathtext(title))
            low, high = found.rho - found.error, found.rho + found.error
            axis.fill_between(range(len(found.rho)), low, high, color=colour, alpha=0.25, linewidth=0)
        axis.set(xlabel="lag t (trajectories)", ylabel=mathtext(f"ρ(t) of {run.symbol(name)}"))
        axis.set_ylim(min(-0.1, axis.get_ylim()[0]), 1.05)
    add_legend(figure)
    caption = "ρ(t) with its error (Madras and Sokal) of the best HMC and the best of each kind of learned samplers."
    return Picture("autocorrelation", f"Autocorrelation, {run.where}", caption, figure)


def cost_table(family: Family, column: str = "", rows: Sequence[str] = ()) -> Table:
    """One row for each comparison: the best of each kind, and the gains of the trained sampler.

    `rows` of a `column` are what comparisons are called, if not by their places on the axis.
    """
    kinds = {"hmc": "HMC", "move": "moves", "model": "trained"}
    kinds = {kind: name for kind, name in kinds.items() if kind in family.groups.values()}
    axes = _costs(family)
    header = [column or family.last.symbol(family.axis or "")]
    header += [f"{name}: {axis.label}" for axis in axes for name in kinds.values()]
    header += ["gain in steps", "gain in time", "gain for all"]
    cells = []
    for place, run in zip(rows or [f"{family.at(run):g}" for run in family.runs], family.runs, strict=True):
        results = run.results
        row = [place]
        for axis in axes:
            costs = axis.of(run)
            best = [results.best(kind, costs) for kind in kinds]  # type: ignore[arg-type]
            row += ["" if entry is None else in_words(costs(entry)) for entry in best]
        gains = (results.in_steps, results.gain_in_steps), (results.in_time, results.gain_in_time)
        for cost, gain in (*gains, (results.in_time_for_all, results.gain_for_all)):
            entry = results.best("model", cost)
            row.append("" if entry is None else in_words(gain(entry)))
        cells.append(row)
    caption = (
        "Cost of an independent configuration; milliseconds are those of one chain. In each column the best of its "
        "kind. Gains: of the trained sampler over the best HMC. > and <: limits at 95 %."
    )
    return Table(caption, header, cells)


def all_tables(run: ComparedRun) -> list[Table]:
    """Every sampler of a comparison."""
    captions = (f"Cost, {run.where}. {LEGEND}", f"Cost of all observables, {run.where}", f"Means, {run.where}")
    tables = sections(run.results, run.symbol)
    return [Table(caption, *section) for caption, section in zip(captions, tables, strict=True)]


def differ_only_in(one: ComparedRun, other: ComparedRun, axis: str | None) -> bool:
    """Whether the targets of two comparisons are the same but for a setting."""
    first, second = ([(k, v) for k, v in run.results.target.items() if k != axis] for run in (one, other))
    return first == second


def most_varied(runs: Sequence[ComparedRun]) -> str | None:
    """The setting, a number in all of them, that has the most different values."""
    targets = [run.results.target for run in runs]
    numbers = (name for name in targets[0] if all(isinstance(target.get(name), int | float) for target in targets))
    varied = {name: len({target[name] for target in targets}) for name in numbers}
    return max((name for name in varied if varied[name] > 1), key=varied.__getitem__, default=None)
