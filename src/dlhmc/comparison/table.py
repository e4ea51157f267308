"""Tables of a comparison: for the screen, as Markdown and for spreadsheets. _{…} and ^{…} are scripts."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dlhmc import tables
from dlhmc.comparison.results import Entry, Mean, Results
from dlhmc.statistics import format_uncertainty
from dlhmc.statistics.quantity import NOTHING, Quantity, largest, median, ratio
from dlhmc.tables import plain, superscript

LEGEND = (
    "τ: integrated autocorrelation time in trajectories, ½ for independent configurations. ms and ESS/s: 2τ "
    "trajectories of one chain make an independent configuration; compiling excluded. Gain: cost of the best HMC over "
    "that of the sampler. All: with the slowest of all observables. > and <: limits at 95 %."
)
# Larger numbers have a power of ten.
_LARGE = 1e4
_ONE = Quantity(1.0, 0.0, 1.0, 1.0)
#: a quantity in the notation of the field
Symbol = Callable[[str], str]


class Section(NamedTuple):
    """One of the tables."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: numbers of the rows of learned samplers and of the best HMC
    marked: Sequence[int] = ()


def sections(results: Results, symbol: Symbol) -> list[Section]:
    """Costs of what is slow, costs of everything, and expectation values beside exact ones; the cheapest first."""
    entries = sorted(results.entries, key=lambda entry: results.in_time(entry).figure or math.inf)
    best = results.best("hmc", results.in_time)
    marked = [number for number, entry in enumerate(entries) if entry.kind == "model" or entry is best]
    slow = ["sampler", f"τ({symbol(results.judge)})", "N_{LF}·τ", "ms/indep.", "ESS/s", "gain in steps", "gain in time"]
    work = results.work
    everything = ["sampler", "accept.", "slowest τ", "ms/all", "gain for all", *(f"{symbol(n)}/traj." for n in work)]
    moments = list(dict.fromkeys(name for entry in entries for name in entry.moments))
    return [
        Section(slow, [_cost_of_slow(results, entry) for entry in entries], marked),
        Section(everything, [_cost_of_all(results, entry, work) for entry in entries], marked),
        Section(["sampler", *map(symbol, moments)], _means(entries, moments), marked),
    ]


def _cost_of_slow(results: Results, entry: Entry) -> list[str]:
    time = results.in_time(entry)
    return [
        entry.name,
        in_words(entry.taus[results.judge]),
        in_words(results.in_steps(entry)),
        in_words(time, 1e3),
        in_words(ratio(_ONE, time)),
        in_words(results.gain_in_steps(entry)),
        in_words(results.gain_in_time(entry)),
    ]


def _cost_of_all(results: Results, entry: Entry, work: Sequence[str]) -> list[str]:
    return [
        entry.name,
        f"{entry.acceptance:.3f}",
        in_words(largest(entry.taus.values())),
        in_words(results.in_time_for_all(entry), 1e3),
        in_words(results.gain_for_all(entry)),
        *(rounded(entry.work.get(name, 0.0)) for name in work),
    ]


def _means(entries: Sequence[Entry], moments: Sequence[str]) -> list[list[str]]:
    rows = []
    for entry in entries:
        means = [_against_exact(entry.moments[name]) if name in entry.moments else "" for name in moments]
        rows.append([entry.name, *means])
    exact = {name: one.exact for entry in entries for name, one in entry.moments.items() if one.exact is not None}
    if exact:
        rows.append(["exact", *(f"{exact[name]:.6f}" if name in exact else "" for name in moments)])
    return rows


def _against_exact(moment: Mean) -> str:
    z = "" if moment.z is None else f" {moment.z:+.1f}σ".replace("-", "−")
    return format_uncertainty(moment.mean, math.inf if moment.error is None else moment.error) + z


def show(results: Results, title: str, symbol: Symbol, console: Console) -> None:
    """Print all tables."""
    console.print(title, style="bold", highlight=False, markup=False)
    for section in sections(results, symbol):
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=0, show_edge=False)
        for column in section.header:
            header = "\n".join(plain(column).rsplit(" ", 1))
            table.add_column(escape(header), justify="left" if column == "sampler" else "right", overflow="fold")
        for number, row in enumerate(section.rows):
            table.add_row(*(escape(plain(cell)) for cell in row), style="bold" if number in section.marked else None)
        console.print(table)
    for line in remarks(results):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def remarks(results: Results) -> list[str]:
    """What stands below the tables."""
    left_out = f"Left out after a first turn, as others move faster: {'; '.join(results.left_out)}."
    return [*results.warnings, *([left_out] if results.left_out else []), plain(LEGEND)]


def to_markdown(results: Results, title: str, symbol: Symbol) -> str:
    """All tables."""
    parts = [
        tables.markdown(list(map(plain, section.header)), [list(map(plain, row)) for row in section.rows])
        for section in sections(results, symbol)
    ]
    return "\n\n".join([f"# {title}", *parts, *remarks(results)]) + "\n"


def to_csv(results: Results) -> str:
    """A row for each sampler, with values, errors and limits in columns of their own."""
    costs = {"steps": results.in_steps, "seconds": results.in_time, "seconds_for_all": results.in_time_for_all}
    gains = {"gain_in_steps": results.gain_in_steps, "gain_in_time": results.gain_in_time}
    columns = costs | gains | {"gain_for_all": results.gain_for_all}
    parts = ("value", "error", "lower", "upper")
    taus = list(dict.fromkeys(name for entry in results.entries for name in entry.taus))
    header = ["sampler", "kind", "status", "leapfrog_steps", "trajectories", "acceptance", "seconds_per_trajectory"]
    header += [f"{name}_{part}" for name in (*columns, *(f"tau_{name}" for name in taus)) for part in parts]
    rows = []
    for entry in results.entries:
        quantities = [*(of(entry) for of in columns.values()), *(entry.taus.get(name, NOTHING) for name in taus)]
        amounts = [entry.leapfrog_steps, entry.trajectories, entry.acceptance, median(entry.pace).value]
        numbers = [getattr(quantity, part) for quantity in quantities for part in parts]
        rows.append([entry.name, entry.kind, entry.status, *amounts, *numbers])
    return tables.comma_separated(header, rows)


def in_words(quantity: Quantity, factor: float = 1.0) -> str:
    """A value with its error, or a limit; nothing where nothing is known.

    >>> in_words(Quantity.measured(4.82, 0.03)), in_words(Quantity(lower=134567.0)), in_words(NOTHING)
    ('4.82(3)', '> 1.35·10⁵', '')
    """
    if quantity.value is not None:
        return _with_error(quantity.value * factor, (quantity.error or 0.0) * factor)
    if quantity.lower is not None:
        return f"> {rounded(quantity.lower * factor)}"
    return "" if quantity.upper is None else f"< {rounded(quantity.upper * factor)}"


def rounded(number: float) -> str:
    """Three digits.

    >>> rounded(973.26), rounded(134567.0)
    ('973', '1.35·10⁵')
    """
    return _with_error(float(f"{number:.3g}"), 0.0)


def _with_error(value: float, error: float) -> str:
    """A value as papers write it.

    >>> _with_error(31847.0, 2900.0), _with_error(4.82, 0.03)
    ('3.2(3)·10⁴', '4.82(3)')
    """
    if not abs(value) >= _LARGE or not math.isfinite(value):
        return format_uncertainty(value, error)
    exponent = math.floor(math.log10(abs(value)))
    return f"{format_uncertainty(value / 10**exponent, error / 10**exponent)}·10{superscript(exponent)}"
