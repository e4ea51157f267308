"""A reproduction from start to end, part by part; what is done stays done."""

import dataclasses
import functools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from dlhmc.comparison import command as comparing
from dlhmc.comparison.command import RESULTS
from dlhmc.errors import ExitCode, UserError
from dlhmc.machine import processes
from dlhmc.plans.training import TrainPlan
from dlhmc.report.command import report
from dlhmc.report.comparisons import ComparedRun
from dlhmc.report.costs import cost_table
from dlhmc.report.curves import read_curves
from dlhmc.report.families import Family
from dlhmc.runs.directory import RunDirectory, new_run, old_run, open_run
from dlhmc.runs.loop import PLAIN, ExecutionOptions
from dlhmc.runs.progress import format_duration
from dlhmc.theories.u1.figures import U1Figures
from dlhmc.theories.u1.reproduction.settings import ReproduceSettings, beside_name, comparison_name, training_name

REPORT, TABLES = "report.html", "tables"
# Until the first training run has shown how long one takes.
_SECONDS_OF_TRAINING = 60.0
_SECONDS_OF_PREPARATION = 60.0


class Part(NamedTuple):
    """A training run or a comparison."""

    title: str
    done: Callable[[], bool]
    run: Callable[[], ExitCode]
    #: how long it may take
    seconds: float


def reproduce(settings: ReproduceSettings, path: Path, console: Console, *, quiet: bool = False) -> ExitCode:
    """Everything, in a new directory."""
    RunDirectory(path).refuse_if_taken()
    _require_feasible(settings, path)
    with new_run("reproduce", dataclasses.asdict(settings), path):
        return _run(settings, path, console, quiet=quiet)


def resume(path: Path, console: Console, options: ExecutionOptions | None = None) -> ExitCode:
    """Go on with what is not done yet."""
    options = options or PLAIN
    if options._replace(quiet=False) != PLAIN or processes.several():
        raise UserError("A reproduction runs in one process on one device, without limits: leave such options out.")
    with old_run("reproduce", path) as (directory, table):
        settings = ReproduceSettings.from_table(table, str(directory.config))
        return _run(settings, path, console, quiet=options.quiet)


def show_results(path: Path, console: Console) -> dict[str, Any]:
    """The comparisons that are done, by β."""
    directory, table = open_run("reproduce", path)
    settings = ReproduceSettings.from_table(table, str(directory.config))
    results = {}
    for beta in settings.betas:
        if (path / comparison_name(beta) / RESULTS).exists():
            console.print(f"β = {beta:g}", style="bold", highlight=False)
            results[f"{beta:g}"] = comparing.show_results(path / comparison_name(beta), console)
    if not results:
        raise UserError(f"{path} has no results yet: go on with 'dlhmc resume {path}'.")
    return results


def _require_feasible(settings: ReproduceSettings, path: Path) -> None:
    """Refuse what cannot run; all of it before the first hour is spent."""
    if settings.curves is not None:
        read_curves(Path(settings.curves))
    for index in range(len(settings.betas)):
        settings.comparison(index, path)
        for number in settings.leapfrog_steps:
            settings.training(index, number, None)
        for network in settings.beside_networks(index):
            settings.beside_training(index, network, path)


def _run(settings: ReproduceSettings, path: Path, console: Console, *, quiet: bool) -> ExitCode:
    parts = list(_parts(settings, path, console, quiet=quiet))
    shown = Console(quiet=True) if quiet else console
    for number, part in enumerate(parts, start=1):
        left = sum(other.seconds for other in parts[number - 1 :] if not other.done())
        heading = f"[{number}/{len(parts)}] {part.title}"
        if part.done():
            shown.print(f"{heading}: done before", markup=False, highlight=False, style="dim")
            continue
        shown.print(f"{heading}   at most {format_duration(left)} left", markup=False, highlight=False, style="bold")
        try:
            code = part.run()
        except KeyboardInterrupt:  # while a part is being prepared
            code = ExitCode.INTERRUPTED
        if code is not ExitCode.OK:
            shown.print(f"go on with  dlhmc resume {path}", markup=False, highlight=False, soft_wrap=True)
            return code
    figures = U1Figures()
    family = Family([ComparedRun.open(path / comparison_name(beta)) for beta in settings.betas], figures.axis)
    _write_costs(figures, family, path / TABLES)
    report([path], path / REPORT, shown, None if settings.curves is None else Path(settings.curves))
    if (answer := figures.headline(family.last)) is not None:
        shown.print(answer, highlight=False, markup=False)
    return ExitCode.OK


def _parts(settings: ReproduceSettings, path: Path, console: Console, *, quiet: bool) -> Iterator[Part]:
    """Train for one coupling, compare there, go on to the next."""
    for index, beta in enumerate(settings.betas):
        trainings: dict[tuple[str, str], Callable[[], TrainPlan]] = {}
        for number in settings.leapfrog_steps:
            before = path / training_name(settings.betas[index - 1], number) if index else None
            trainings[f"{number} layers", training_name(beta, number)] = functools.partial(
                settings.training, index, number, before
            )
        for network in settings.beside_networks(index):
            trainings[f"{network} layers", beside_name(beta, network)] = functools.partial(
                settings.beside_training, index, network, path
            )
        for (what, name), plan in trainings.items():
            yield Part(
                f"train {what} at β = {beta:g}",
                RunDirectory(path / name).summary.exists,
                functools.partial(_train, plan, path / name, console, quiet=quiet),
                _SECONDS_OF_TRAINING,
            )
        run = path / comparison_name(beta)
        yield Part(
            f"compare at β = {beta:g}",
            functools.partial(_compared, run),
            functools.partial(_compare, settings, index, run, console, quiet=quiet),
            settings.budget(index) + _SECONDS_OF_PREPARATION,
        )


def _train(plan: Callable[[], TrainPlan], run: Path, console: Console, *, quiet: bool) -> ExitCode:
    """Start, or go on."""
    options = ExecutionOptions(quiet=quiet)
    if RunDirectory(run).checkpoints.exists():
        return TrainPlan.resume(run, console, options)
    _remove(run)
    return plan().run(run, console, options)[1]


def _compare(settings: ReproduceSettings, index: int, run: Path, console: Console, *, quiet: bool) -> ExitCode:
    """Start anew: the samplers of a race have to run side by side."""
    _remove(run)
    return settings.comparison(index, run.parent).run(run, console, ExecutionOptions(quiet=quiet))[1]


def _compared(run: Path) -> bool:
    return (run / RESULTS).exists() and not ComparedRun.open(run).results.interrupted


def _remove(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)


def _write_costs(figures: U1Figures, family: Family, folder: Path) -> None:
    """One row for each β as CSV and Markdown; those of all samplers are with the comparisons."""
    table = cost_table(family, figures.moves)
    folder.mkdir(exist_ok=True)
    (folder / "cost.md").write_text(table.markdown(), encoding="utf-8")
    (folder / "cost.csv").write_text(table.comma_separated(), encoding="utf-8")
