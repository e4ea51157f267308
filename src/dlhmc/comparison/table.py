"""Results for people and for spreadsheets: a table in the terminal, Markdown, CSV."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dlhmc import tables
from dlhmc.comparison.results import NOTHING, Entry, Mean, Quantity, Results, Time, work_of
from dlhmc.run.describe import known_theory, symbol, target_in_words
from dlhmc.run.show import shown_mean
from dlhmc.statistics import format_uncertainty
from dlhmc.tables import plain, superscript
from dlhmc.theories.contract import Theory

LEGEND = (
    "leapfrog 4/36: HMC with trajectories of length 4 in 36 steps. τ: integrated autocorrelation time in trajectories "
    "(½ for independent configurations). N_{LF}·τ: leapfrog steps of a trajectory times the first τ. ms/indep.: time "
    "of 2τ trajectories of one chain, with the largest τ of what moves slowly; ms/all: with the largest of all; "
    "compiling excluded. Gain: cost of the best HMC over that of the sampler. > and <: limits at 95 %. The cheapest "
    "stand first; learned samplers and the best HMC are marked."
)
# From here on numbers have a power of ten.
_LARGE = 1e4
_COLUMNS = 80


class Section(NamedTuple):
    """One of the tables: rows of text below a header."""

    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    #: numbers of the rows of the best HMC and of learned samplers
    marked: Sequence[int] = ()

    @property
    def is_narrow(self) -> bool:
        """Whether all but the remarks of the last column fit into 80 columns."""
        widths = (max(len(plain(cell)) for cell in cells) for cells in zip(*self.rows, strict=True))
        return sum(widths) + len(self.header) <= _COLUMNS


def show(results: Results, console: Console) -> None:
    """Print all tables."""
    console.print(_title(results), style="bold", highlight=False, markup=False)
    for section in sections(results):
        # Gaps are as narrow as can be: rows of numbers fit into 80 columns, where no cell is to be broken.
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=0, show_edge=False)
        for column in section.header:
            side: Any = "left" if column in ("sampler", "") else "right"
            whole = console.width >= _COLUMNS and column != "" and section.is_narrow
            header = plain(column) if set(column) & set("(⟨") else "\n".join(plain(column).rsplit(" ", 1))
            table.add_column(escape(header), justify=side, overflow="fold", no_wrap=whole)
        for number, row in enumerate(section.rows):
            table.add_row(*(escape(plain(cell)) for cell in row), style="bold" if number in section.marked else None)
        console.print(table)
    console.print(plain(LEGEND), highlight=False, style="dim")
    for remark in remarks(results):
        console.print(remark, highlight=False, markup=False)


def markdown(results: Results) -> str:
    """The same as a Markdown document."""
    parts = [f"# {_title(results)}", ""]
    for header, rows, marked in sections(results):
        bold = [(f"**{name}**" if n in marked else name, *row) for n, (name, *row) in enumerate(rows)]
        parts += [plain(tables.markdown(header, bold)), ""]
    return "\n".join([*parts, plain(LEGEND), "", *remarks(results)]) + "\n"


def comma_separated(results: Results) -> str:
    """Every number in a column of its own, for spreadsheets."""
    rows = [_flat(entry) for entry in results.entries]
    header = _names(rows) or ["name"]  # kernels do not tell the same of themselves
    return tables.comma_separated(header, [[row.get(name) for name in header] for row in rows])


def remarks(results: Results) -> list[str]:
    """What the reader must know about the best HMC, whether the race came to its end, and whether it was fair."""
    lines = []
    if results.best_in_steps is not None:
        lines.append(f"best HMC: {results.best_in_steps} in steps, {results.best_in_time} in time")
    dropped = sum(entry.status == "dropped" for entry in results.entries)
    if dropped:
        lines.append(f"{dropped} HMC dropped on the way, as others cost less by then; no candidates for the best")
    if not results.finished:
        lines.append(
            f"not all autocorrelation times are known to {results.precision:.0%}: "
            "a larger budget or more chains would do"
        )
    return lines + [f"Warning: {warning}" for warning in results.warnings]


def _title(results: Results) -> str:
    return f"{target_in_words(results.target)}  {results.chains} chains  {results.seconds:.0f} s"


def by_cost(entries: Iterable[Entry]) -> list[Entry]:
    """The cheapest first, in time; those that were dropped on the way last, as little is known of them."""
    known = [(entry, entry.seconds_per_independent.figure) for entry in entries]
    known.sort(key=lambda pair: (pair[0].status == "dropped", math.inf if pair[1] is None else pair[1]))
    return [entry for entry, _ in known]


def sections(results: Results) -> tuple[Section, ...]:
    """Costs, trajectories, observables, and what kernels tell beside, if any does; _{…} and ^{…} are scripts."""
    entries, theory = by_cost(results.entries), known_theory(results.target)
    best = (results.best_in_steps, results.best_in_time)
    marked = [number for number, entry in enumerate(entries) if entry.kind == "model" or entry.name in best]
    costs = [
        (
            entry.name,
            *(shown_tau(tau) for tau in entry.tau_int.values()),
            shown(entry.steps_tau) if entry.leapfrog_steps else "",
            shown(entry.seconds_per_independent, 1e3),
            shown(entry.gain_in_steps) if entry.leapfrog_steps else "",
            shown(entry.gain_in_time),
        )
        for entry in entries
    ]
    trajectories = [
        (
            entry.name,
            f"{entry.acceptance:.3f}",
            str(entry.leapfrog_steps),
            str(entry.forces),
            _rounded(entry.network_flops),
            shown(entry.seconds_per_trajectory, 1e6),
            str(entry.trajectories),
            entry.status + (f", {entry.nonfinite_rejected} not finite" if entry.nonfinite_rejected else ""),
        )
        for entry in entries
    ]
    observables = [
        (
            entry.name,
            *(shown_tau(tau) for tau in entry.tau_int_others.values()),
            shown(entry.seconds_for_all, 1e3),
            shown(entry.gain_for_all),
            *(_against_exact(moment) for moment in entry.observables.values()),
        )
        for entry in entries
    ]
    moments, slow, others = (
        ([*entries[0].observables], [*entries[0].tau_int], [*entries[0].tau_int_others]) if entries else ([], [], [])
    )
    if results.exact:
        known = (results.exact.get(name) for name in moments)
        blank = ("exact", *("" for _ in others), "", "")
        observables.append((*blank, *("" if value is None else f"{value:.6f}" for value in known)))
    times, more = ([f"τ({symbol(theory, name).strip('⟨⟩')})" for name in names] for names in (slow, others))
    return (
        Section(("sampler", *times, "N_{LF}·τ", "ms/indep.", "gain in steps", "gain in time"), costs, marked),
        Section(
            ("sampler", "accept.", "N_{LF}", "forces", "network flops", "µs/traj.", "traj.", ""),
            trajectories,
            marked,
        ),
        Section(
            ("sampler", *more, "ms/all", "gain for all", *(symbol(theory, name) for name in moments)),
            observables,
            marked,
        ),
        *_told(entries, theory, marked),
    )


def _told(entries: Sequence[Entry], theory: Theory | None, marked: Sequence[int]) -> list[Section]:
    """Means for a trajectory, and of what counts work those for an independent configuration, where there are any."""
    work = work_of(entries)
    idle = set(_names(entry.work_per_independent for entry in entries)) - set(work)
    figures = [name for name in _names(entry.kernel_figures for entry in entries) if name not in idle]
    telling = [number for number, entry in enumerate(entries) if entry.kernel_figures.keys() & set(figures)]
    if not telling:
        return []
    rows = [
        (
            entry.name,
            *(_rounded(entry.kernel_figures[name]) if name in entry.kernel_figures else "" for name in figures),
            *(shown(entry.work_per_independent.get(name, NOTHING)) for name in work),
        )
        for entry in (entries[number] for number in telling)
    ]
    marked = [row for row, number in enumerate(telling) if number in marked]
    symbols = [*(symbol(theory, name) for name in figures), *(f"{symbol(theory, name)}/indep." for name in work)]
    return [Section(("sampler", *symbols), rows, marked)]


def _names(tables: Iterable[Mapping[str, Any]]) -> list[str]:
    """All names, in the order in which they come up."""
    return list(dict.fromkeys(name for table in tables for name in table))


def _against_exact(moment: Mean) -> str:
    z = "" if moment["z"] is None else f" {moment['z']:+.1f}σ".replace("-", "−")
    return shown_mean(dict(moment)) + z


def shown_tau(tau: Time) -> str:
    """An autocorrelation time, or its lower limit."""
    if tau["value"] is None:
        return f"> {_rounded(tau['lower_bound'])}"
    return _with_error(tau["value"], tau["error"] or 0.0)


def shown(quantity: Quantity, factor: float = 1.0) -> str:
    """A value with its error, or a limit; nothing where nothing is known."""
    if quantity.value is not None:
        return _with_error(quantity.value * factor, (quantity.error or 0.0) * factor)
    if quantity.lower is not None:
        return f"> {_rounded(quantity.lower * factor)}"
    return "" if quantity.upper is None else f"< {_rounded(quantity.upper * factor)}"


def _rounded(limit: float) -> str:
    """Three digits.

    >>> _rounded(973.26), _rounded(134567.0)
    ('973', '1.35·10⁵')
    """
    return _with_error(float(f"{limit:.3g}"), 0.0)


def _with_error(value: float, error: float) -> str:
    """A value as papers write it.

    >>> _with_error(31847.0, 2900.0), _with_error(4.82, 0.03)
    ('3.2(3)·10⁴', '4.82(3)')
    """
    if not abs(value) >= _LARGE or not math.isfinite(value):
        return format_uncertainty(value, error)
    exponent = math.floor(math.log10(abs(value)))
    return f"{format_uncertainty(value / 10**exponent, error / 10**exponent)}·10{superscript(exponent)}"


def _flat(entry: Entry) -> dict[str, Any]:
    """One level: observables_energy_mean, gain_in_time_lower, …; nothing where a number is not known."""
    flat: dict[str, Any] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, Quantity):
            value = vars(value)
        if isinstance(value, Mapping):
            for key, part in value.items():
                add(f"{name}_{key}", part)
        else:
            flat[name] = value

    for name, value in vars(entry).items():
        add(name, value)
    return flat
