"""What an independent configuration costs along a family of comparisons: a chart and a table."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence

from dlhmc.comparison.results import NOTHING, Entry, Quantity, in_steps, in_time, work_of
from dlhmc.comparison.table import shown
from dlhmc.report.charts import BLACK, BLUE, GREEN, GREY, SKY, VERMILION, Chart, Marker, Panel, Series, Table
from dlhmc.report.comparisons import MODEL_COLOURS, ComparedRun, in_words, label
from dlhmc.report.families import Family

Cost = Callable[[Entry], Quantity]
# How samplers of a kind are called and shown; the theory says what its moves are called.
_LOOKS: dict[str, tuple[str, str, Marker]] = {
    "hmc": ("HMC", BLUE, "o"),
    "move": ("", BLACK, "^"),
    "model": ("trained", VERMILION, "D"),
    "exact": ("exact draws", GREEN, "v"),
}


def cost_chart(family: Family, what: str, moves: str) -> Chart:
    """Cost of an independent configuration along the family, in leapfrog steps and in time.

    `what` is what must be independent, and `moves` what HMC with the theory's own moves is called.
    """
    grey = [Series(curve.name, curve.x, curve.y, "line", GREY, dashed=curve.dashed) for curve in family.curves]
    axis, places = family.axis_label, [family.at(run) for run in family.runs]
    floor = Series("exact limit, τ = ½", places, [0.5] * len(places), "line", GREEN, dashed=True)
    steps = [*grey, *_costs(family, in_steps, 1.0, moves), floor]
    exact = _series("exact draws", GREEN, "v", best_of_each(family, "exact", in_time), in_time, 1e3)
    time = [*_costs(family, in_time, 1e3, moves), *_filled([exact])]
    caption = (
        f"Left: leapfrog steps times the integrated autocorrelation time of {family.judge}; a step of the "
        "Omelyan integrator has two forces and counts once. Right: time for an independent configuration of one chain, "
        "2τ trajectories, compiling excluded. Small points: all of HMC's grid. Arrows: only a lower limit (95 %) is "
        "known."
    )
    return Chart(
        "cost",
        f"Cost of an independent {what}",
        f"{caption} Grey: from elsewhere, for reference." if grey else caption,
        [
            Panel(axis, f"N_{{LF}} τ_{{int}}({family.judge})", steps, "in leapfrog steps", y_log=True),
            Panel(axis, "milliseconds", time, "in time on this machine", y_log=True),
        ],
    )


def dot_chart(family: Family, what: str, moves: str) -> Chart:
    """Cost of an independent configuration of a single comparison: a row for each sampler, the cheapest first."""
    run = family.last
    grey = [
        (curve.name, y) for curve in family.curves for x, y in zip(curve.x, curve.y, strict=True) if x == family.at(run)
    ]
    panels = [
        _dots(run, in_time, 1e3, "milliseconds of one chain", "in time on this machine", moves, []),
        _dots(run, in_steps, 1.0, f"N_{{LF}} τ_{{int}}({family.judge})", "in leapfrog steps", moves, grey),
    ]
    caption = (
        "★: the best of its kind. Left: time of 2τ_{int} trajectories of one chain, compiling excluded. Right: N_{LF}, "
        f"the leapfrog steps of a trajectory, times τ_{{int}}, the integrated autocorrelation time of {family.judge}; "
        "a step of the Omelyan integrator has two forces and counts once. Arrows: only a lower limit (95 %) is known. "
        "Crosses: dropped on the way, when others cost less."
    )
    caption = f"{caption} Grey: from elsewhere, for reference." if grey else caption
    return Chart("cost", f"Cost of an independent {what}", caption, panels)


def _dots(
    run: ComparedRun,
    cost: Cost,
    factor: float,
    axis: str,
    title: str,
    moves: str,
    references: Sequence[tuple[str, float]],
) -> Panel:
    known = [(entry, figure) for entry in run.results.entries if (figure := cost(entry).figure)]
    known.sort(key=lambda pair: (pair[0].status == "dropped", pair[1]))
    entries = [entry for entry, _ in known]
    best = [run.best(kind, cost) for kind in _LOOKS]
    names = [f"★ {in_words(entry)}" if entry in best else in_words(entry) for entry in entries]
    series = []
    for kind, (name, colour, marker) in (_LOOKS | {"move": (moves, BLACK, "^")}).items():
        for status, shape in ((False, marker), (True, "x")):
            found = [
                (row, entry)
                for row, entry in enumerate(entries)
                if entry.kind == kind and (entry.status == "dropped") == status
            ]
            one = _series(f"{name}, dropped" if status else name, colour, shape, found, cost, factor, joined=False)
            # The rows are the places here.
            series.append(dataclasses.replace(one, x=[value for value in one.y if value is not None], y=one.x))
    rows = range(len(names), len(names) + len(references))
    series += [
        Series(name, [value], [row], "points", GREY, marker="s")
        for row, (name, value) in zip(rows, references, strict=True)
    ]
    names += [name for name, _ in references]
    return Panel(axis, "", _filled(series), title, x_log=True, rows=names)


def best_of_each(family: Family, kind: str, cost: Cost) -> list[tuple[float, Entry]]:
    """The best of a kind in each comparison, with its place on the axis."""
    found = ((family.at(run), run.best(kind, cost)) for run in family.runs)
    return [(place, entry) for place, entry in found if entry is not None]


def best_panel(family: Family, cost: Cost, factor: float, label: str, moves: str) -> Panel:
    """What the best of each kind costs along the family."""
    looks = (_LOOKS | {"move": (moves, BLACK, "^")}).items()
    series = [
        _series(name, colour, marker, best_of_each(family, kind, cost), cost, factor)
        for kind, (name, colour, marker) in looks
    ]
    return Panel(family.axis_label, label, _filled(series), y_log=True)


def _costs(family: Family, cost: Cost, factor: float, moves: str) -> list[Series]:
    grid = [(family.at(run), entry) for run in family.runs for entry in run.of_kind("hmc")]
    series = [
        _series("HMC, all of the grid", SKY, "x", grid, cost, factor, joined=False),
        _series("best HMC", BLUE, "o", best_of_each(family, "hmc", cost), cost, factor),
        _series(moves, BLACK, "^", best_of_each(family, "move", cost), cost, factor),
    ]
    by_label: dict[str, list[tuple[float, Entry]]] = {}
    for run in family.runs:
        for entry in run.trained:
            by_label.setdefault(label(entry), []).append((family.at(run), entry))
    longest_first = sorted(by_label.items(), key=lambda item: -item[1][0][1].leapfrog_steps)
    for colour, (name, entries) in zip(itertools.cycle(MODEL_COLOURS), longest_first, strict=False):
        series.append(_series(name, colour, "D", entries, cost, factor))
    return _filled(series)


def _filled(series: Iterable[Series]) -> list[Series]:
    return [one for one in series if len(one.x)]


def _series(
    name: str,
    colour: str,
    marker: Marker,
    entries: Sequence[tuple[float, Entry]],
    cost: Cost,
    factor: float,
    *,
    joined: bool = True,
) -> Series:
    entries = sorted(entries, key=lambda pair: pair[0])
    costs = [cost(entry) for _, entry in entries]
    return Series(
        name,
        [place for place, _ in entries],
        [None if c.figure is None else factor * c.figure for c in costs],
        "points",
        colour,
        error=[factor * (c.error or 0.0) for c in costs],
        is_limit=[c.value is None for c in costs],
        marker=marker,
        joined=joined,
        notes=[f"{entry.name}, acceptance {entry.acceptance:.2f}" for _, entry in entries],
    )


def cost_table(family: Family, moves: str, column: str = "", rows: Sequence[str] = ()) -> Table:
    """One row for each comparison: N_LF·τ_int, time and work of the best of each kind, and the gains.

    `rows` of a `column` are what comparisons are called, if not by their places on the axis.
    """
    headers = {"hmc": "HMC", "move": moves, "model": "trained"}
    kinds = [kind for kind in headers if any(run.of_kind(kind) for run in family.runs)]
    # A heat bath, or a move that is no trajectory, has no leapfrog steps to count.
    stepping = [kind for kind in kinds if any(e.leapfrog_steps for run in family.runs for e in run.of_kind(kind))]
    places = rows or [f"{family.at(run):g}" for run in family.runs]
    work = work_of([entry for run in family.runs for entry in run.results.entries])
    cells = []
    for place, run in zip(places, family.runs, strict=True):
        fewest = [run.best(kind, in_steps) for kind in stepping]
        quickest = [run.best(kind, in_time) for kind in kinds]
        models = run.best("model", in_steps), run.best("model", in_time)
        cells.append(
            [
                place,
                *("" if entry is None else shown(entry.steps_tau) for entry in fewest),
                *("" if entry is None else shown(entry.seconds_per_independent, 1e3) for entry in quickest),
                *(
                    "" if entry is None else shown(entry.work_per_independent.get(name, NOTHING))
                    for name in work
                    for entry in quickest
                ),
                "" if models[0] is None else shown(models[0].gain_in_steps),
                "" if models[1] is None else shown(models[1].gain_in_time),
            ]
        )
    header = (
        column or family.axis_label,
        *(f"{headers[kind]}: N_{{LF}} τ" for kind in stepping),
        *(f"{headers[kind]}: ms" for kind in kinds),
        *(f"{headers[kind]}: {family.last.symbol(name)}" for name in work for kind in kinds),
        "gain in steps",
        "gain in time",
    )
    caption = (
        f"Cost of an independent configuration: N_{{LF}} τ_{{int}} of {family.judge}, and milliseconds of "
        "one chain. In each column the best of its kind. Gains: of the trained sampler over the best HMC. > and <: "
        "limits at 95 %."
    )
    return Table(caption, header, cells)
