"""A reproduction from start to end, part by part; what is done stays done."""

import dataclasses
import functools
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from dlhmc.comparison import command as comparing
from dlhmc.comparison.command import RESULTS, compare
from dlhmc.errors import ExitCode, UserError
from dlhmc.machine import processes
from dlhmc.report import comparisons as of_comparisons
from dlhmc.report.command import report
from dlhmc.report.comparisons import Comparison
from dlhmc.runs import training
from dlhmc.runs.directory import RunDirectory, new_run, old_run, open_run
from dlhmc.runs.loop import PLAIN, Conditions
from dlhmc.runs.progress import format_duration
from dlhmc.theories.u1.radial import default_radii
from dlhmc.theories.u1.reproduction.config import ReproduceConfig, comparison_name, training_name

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


def reproduce(config: ReproduceConfig, path: Path, console: Console, *, quiet: bool = False) -> ExitCode:
    """Everything, in a new directory."""
    with new_run("reproduce", config, path):
        return _run(config, path, console, quiet=quiet)


def resume(path: Path, console: Console, conditions: Conditions = PLAIN) -> ExitCode:
    """Go on with what is not done yet."""
    if conditions._replace(quiet=False) != PLAIN or processes.several():
        raise UserError("A reproduction runs in one process on one device, without limits: leave such options out.")
    with old_run("reproduce", ReproduceConfig, path) as (_, config):
        return _run(config, path, console, quiet=conditions.quiet)


def show_results(path: Path, console: Console) -> dict[str, Any]:
    """The comparisons that are done, by β."""
    _, config = open_run("reproduce", ReproduceConfig, path)
    results = {}
    for beta in config.betas:
        if (path / comparison_name(beta) / RESULTS).exists():
            console.print(f"β = {beta:g}", style="bold", highlight=False)
            results[f"{beta:g}"] = comparing.show_results(path / comparison_name(beta), console)
    if not results:
        raise UserError(f"{path} has no results yet: go on with 'dlhmc resume {path}'.")
    return results


def _run(config: ReproduceConfig, path: Path, console: Console, *, quiet: bool) -> ExitCode:
    parts = list(_parts(config, path, console, quiet=quiet))
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
    _write_tables(config, path)
    report([path], path / REPORT, shown)
    comparisons = _comparisons(config, path)
    if (answer := of_comparisons.headline(comparisons[-1])) is not None:
        shown.print(answer, highlight=False, markup=False)
    return ExitCode.OK


def _parts(config: ReproduceConfig, path: Path, console: Console, *, quiet: bool) -> Iterator[Part]:
    """Train for one coupling, compare there, go on to the next."""
    for index, beta in enumerate(config.betas):
        for number in config.leapfrog_steps:
            run = path / training_name(beta, number)
            before = path / training_name(config.betas[index - 1], number) if index else None
            yield Part(
                f"train {number} layers at β = {beta:g}",
                RunDirectory(run).summary.exists,
                _training(config, index, number, before, run, console, quiet=quiet),
                _SECONDS_OF_TRAINING,
            )
        run = path / comparison_name(beta)
        yield Part(
            f"compare at β = {beta:g}",
            functools.partial(_compared, run),
            _comparison(config, index, path, run, console, quiet=quiet),
            config.comparison(index, path).budget + _SECONDS_OF_PREPARATION,
        )


def _training(
    config: ReproduceConfig, index: int, number: int, before: Path | None, run: Path, console: Console, *, quiet: bool
) -> Callable[[], ExitCode]:
    def start_or_go_on() -> ExitCode:
        if RunDirectory(run).checkpoints.exists():
            return training.resume(run, console, Conditions(quiet=quiet))
        _remove(run)
        settings = config.training(index, number, before)
        if settings.network != "dense":
            # The radii of the last coupling serve for all, so that parameters can be handed on.
            settings = dataclasses.replace(settings, radii=default_radii(3 * math.sqrt(config.betas[-1])))
        return training.train(settings, run, console, Conditions(quiet=quiet))

    return start_or_go_on


def _comparison(
    config: ReproduceConfig, index: int, path: Path, run: Path, console: Console, *, quiet: bool
) -> Callable[[], ExitCode]:
    def start_anew() -> ExitCode:
        """A race that was stopped starts again: its samplers have to run side by side."""
        _remove(run)
        return compare(config.comparison(index, path), run, console, quiet=quiet)

    return start_anew


def _compared(run: Path) -> bool:
    return (run / RESULTS).exists() and not Comparison.open(run).results.interrupted


def _remove(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)


def _comparisons(config: ReproduceConfig, path: Path) -> list[Comparison]:
    return [Comparison.open(path / comparison_name(beta)) for beta in config.betas]


def _write_tables(config: ReproduceConfig, path: Path) -> None:
    """One row for each β as CSV and Markdown; those of all samplers are with the comparisons."""
    table = of_comparisons.cost_table(_comparisons(config, path))
    (path / TABLES).mkdir(exist_ok=True)
    (path / TABLES / "cost.md").write_text(table.markdown(), encoding="utf-8")
    (path / TABLES / "cost.csv").write_text(table.comma_separated(), encoding="utf-8")
