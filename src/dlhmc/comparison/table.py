"""Results for people and for spreadsheets: a table in the terminal, Markdown, CSV."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dlhmc.comparison.results import Entry, Mean, Quantity, Results, Time
from dlhmc.runs.describe import known_theory, symbol, target_in_words
from dlhmc.runs.summary import shown_mean
from dlhmc.statistics import format_uncertainty
from dlhmc.storage import tables

LEGEND = (
    "leapfrog 4/36: HMC with trajectories of length 4 in 36 steps. τ: integrated autocorrelation time in trajectories "
    "(½ for independent configurations). N_LF·τ: with the first τ. ms/indep.: time of 2τ trajectories of one chain, "
    "with the largest τ of what moves slowly; compiling excluded. Gain: cost of the best HMC over that of the sampler. "
    "> and <: limits at 95 %."
)


class Section(NamedTuple):
    """One of the tables: rows of text below a header."""

    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def show(results: Results, console: Console) -> None:
    """Print all tables."""
    console.print(_title(results), style="bold", highlight=False, markup=False)
    for section in sections(results):
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for column in section.header:
            table.add_column(escape(column), justify="left" if column in ("sampler", "") else "right")
        for row in section.rows:
            table.add_row(*map(escape, row))
        console.print(table)
    console.print(LEGEND, highlight=False, style="dim")
    for remark in remarks(results):
        console.print(remark, highlight=False, markup=False)


def markdown(results: Results) -> str:
    """The same as a Markdown document."""
    parts = [f"# {_title(results)}", ""]
    for header, rows in sections(results):
        parts += [tables.markdown(header, rows), ""]
    return "\n".join([*parts, LEGEND, "", *remarks(results)]) + "\n"


def comma_separated(results: Results) -> str:
    """Every number in a column of its own, for spreadsheets."""
    rows = [_flat(entry) for entry in results.entries]
    return tables.comma_separated(list(rows[0]) if rows else ["name"], [list(row.values()) for row in rows])


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


def plain_symbol(results: Results, name: str) -> str:
    """An observable or moment as its theory writes it, in plain text."""
    return tables.plain(symbol(known_theory(results.target), name))


def sections(results: Results) -> tuple[Section, Section, Section]:
    """Costs, trajectories, observables."""
    costs = [
        (
            entry.name,
            *(shown_tau(tau) for tau in entry.tau_int.values()),
            *(shown_tau(tau) for tau in entry.tau_int_others.values()),
            shown(entry.steps_tau) if entry.leapfrog_steps else "",
            shown(entry.seconds_per_independent, 1e3),
            shown(entry.gain_in_steps) if entry.leapfrog_steps else "",
            shown(entry.gain_in_time),
        )
        for entry in results.entries
    ]
    trajectories = [
        (
            entry.name,
            f"{entry.acceptance:.3f}",
            str(entry.leapfrog_steps),
            str(entry.forces),
            f"{entry.network_flops:.3g}" if entry.network_flops else "0",
            shown(entry.seconds_per_trajectory, 1e6),
            str(entry.trajectories),
            entry.status + (f", {entry.nonfinite_rejected} not finite" if entry.nonfinite_rejected else ""),
        )
        for entry in results.entries
    ]
    observables = [
        (entry.name, *(_against_exact(moment) for moment in entry.observables.values())) for entry in results.entries
    ]
    moments = list(results.entries[0].observables) if results.entries else []
    times = [*results.entries[0].tau_int, *results.entries[0].tau_int_others] if results.entries else []
    if results.exact:
        known = (results.exact.get(name) for name in moments)
        observables.append(("exact", *("" if value is None else f"{value:.6f}" for value in known)))
    taus = (f"τ({plain_symbol(results, name)})" for name in times)
    return (
        Section(("sampler", *taus, "N_LF·τ", "ms/indep.", "gain in steps", "gain in time"), costs),
        Section(
            ("sampler", "acceptance", "N_LF", "forces", "network flops", "µs/traj.", "trajectories", ""), trajectories
        ),
        Section(("sampler", *(plain_symbol(results, name) for name in moments)), observables),
    )


def _against_exact(moment: Mean) -> str:
    z = "" if moment["z"] is None else f" ({moment['z']:+.1f}σ)"
    return shown_mean(dict(moment)) + z


def shown_tau(tau: Time) -> str:
    """An autocorrelation time, or its lower limit."""
    if tau["value"] is None:
        return f"> {_rounded(tau['lower_bound'])}"
    return format_uncertainty(tau["value"], tau["error"] or 0.0)


def shown(quantity: Quantity, factor: float = 1.0) -> str:
    """A value with its error, or a limit; nothing where nothing is known."""
    if quantity.value is not None:
        return format_uncertainty(quantity.value * factor, (quantity.error or 0.0) * factor)
    if quantity.lower is not None:
        return f"> {_rounded(quantity.lower * factor)}"
    return "" if quantity.upper is None else f"< {_rounded(quantity.upper * factor)}"


def _rounded(limit: float) -> str:
    return f"{float(f'{limit:.3g}'):g}"


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
