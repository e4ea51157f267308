"""A study from start to end, part by part; what is done stays done."""

import shutil
from pathlib import Path
from typing import Any

from rich.console import Console

from dlhmc import tables
from dlhmc.comparison.comparing import RESULTS, open_results
from dlhmc.comparison.comparing import show_results as show_comparison
from dlhmc.errors import ExitCode, UserError
from dlhmc.report.command import report
from dlhmc.report.compared import ComparedRun, Family, cost_table, headline
from dlhmc.report.curves import read_curves
from dlhmc.report.figures import grouped
from dlhmc.run import processes
from dlhmc.run.directory import RunDirectory, new_run, old_run, open_run
from dlhmc.run.driver import PLAIN, ExecutionOptions
from dlhmc.run.progress import format_duration
from dlhmc.spec.comparing import CompareSpec
from dlhmc.spec.training import TrainSpec
from dlhmc.studies.study import Part, Study, StudySpec
from dlhmc.tables import plain

KIND, REPORT, TABLES = "reproduce", "report.html", "tables"


def reproduce(plan: StudySpec, path: Path, console: Console, *, quiet: bool = False) -> ExitCode:
    """Everything, in a new directory."""
    RunDirectory(path).refuse_if_taken()
    # What cannot run is refused before the first hour is spent.
    if plan.study.curves is not None:
        read_curves(Path(plan.study.curves))
    for part in plan.study.parts():
        spec_of(part, path, alone=True)
    with new_run(KIND, plan.to_tables(), path):
        return _run(plan.study, path, console, quiet=quiet)


def resume(path: Path, console: Console, options: ExecutionOptions | None = None) -> ExitCode:
    """Go on with what is not done yet."""
    options = options or PLAIN
    if options._replace(quiet=False) != PLAIN or processes.several():
        raise UserError("A reproduction runs in one process on one device, without limits: leave such options out.")
    with old_run(KIND, path) as (directory, table):
        study = StudySpec.of({}, table, str(directory.config)).study
        return _run(study, path, console, quiet=options.quiet)


def show_results(path: Path, console: Console) -> dict[str, Any]:
    """The comparisons that are done, by their rows."""
    directory, table = open_run(KIND, path)
    study = StudySpec.of({}, table, str(directory.config)).study
    results = {}
    for part in study.parts():
        if (path / part.name / RESULTS).exists():
            console.print(study.place(part.row), style="bold", highlight=False)
            results[part.row] = show_comparison(open_results(path / part.name), console)
    if not results:
        raise UserError(f"{path} has no results yet: go on with 'dlhmc resume {path}'.")
    return results


def spec_of(part: Part, path: Path, *, alone: bool = False) -> TrainSpec | CompareSpec:
    """What a part does, with models of earlier parts from the directory; alone, without any model."""

    def place(model: str) -> str:
        return str((path / model).resolve()) if model.startswith("train-") else model

    model: Any = part.table.get("model")
    if part.kind == "compare":
        return CompareSpec.of({**part.table, "model": () if alone else tuple(map(place, model))})
    return TrainSpec.of({**part.table, "model": None if alone or model is None else place(model)})


def _run(study: Study, path: Path, console: Console, *, quiet: bool) -> ExitCode:
    shown, parts = Console(quiet=True) if quiet else console, list(study.parts())
    for number, part in enumerate(parts, start=1):
        left = sum(other.seconds for other in parts[number - 1 :] if not _is_done(other, path))
        heading = f"[{number}/{len(parts)}] {part.title}"
        if _is_done(part, path):
            shown.print(f"{heading}: done before", markup=False, highlight=False, style="dim")
            continue
        shown.print(f"{heading}   at most {format_duration(left)} left", markup=False, highlight=False, style="bold")
        try:
            code = _do(spec_of(part, path), path / part.name, console, ExecutionOptions(quiet=quiet))
        except KeyboardInterrupt:  # while a part is being prepared
            code = ExitCode.INTERRUPTED
        if code is not ExitCode.OK:
            shown.print(f"go on with  dlhmc resume {path}", markup=False, highlight=False, soft_wrap=True)
            return code
    compared = {part.row: ComparedRun.open(path / part.name) for part in parts if part.kind == "compare"}
    families = grouped(list(compared.values()))
    _write_costs(study, compared, path / TABLES)
    report([path], path / REPORT, shown, None if study.curves is None else Path(study.curves))
    for _, family in families:
        if (answer := headline(family.last)) is not None:
            shown.print(answer, highlight=False, markup=False)
    return ExitCode.OK


def _is_done(part: Part, path: Path) -> bool:
    run = path / part.name
    if part.kind == "train":
        return RunDirectory(run).summary.exists()
    return (run / RESULTS).exists() and not ComparedRun.open(run).results.interrupted


def _do(plan: TrainSpec | CompareSpec, run: Path, console: Console, options: ExecutionOptions) -> ExitCode:
    """Start, or go on with training; a comparison starts anew, because its samplers have to run side by side."""
    if isinstance(plan, TrainSpec) and RunDirectory(run).checkpoints.exists():
        return TrainSpec.reopened(run).run(run, console, options, resuming=True)[1]
    if run.exists():
        shutil.rmtree(run)
    return plan.run(run, console, options)[1]


def _write_costs(study: Study, compared: dict[str, ComparedRun], folder: Path) -> None:
    """One row for each comparison as CSV and Markdown; those of all samplers are with the comparisons."""
    table = cost_table(Family(list(compared.values())), study.column or "target", list(compared))
    folder.mkdir(exist_ok=True)
    header, *rows = ([plain(cell) for cell in row] for row in (table.header, *table.rows))
    text = f"{tables.markdown(header, rows)}\n\n{plain(table.caption)}\n"
    (folder / "cost.md").write_text(text, encoding="utf-8")
    (folder / "cost.csv").write_text(tables.comma_separated(header, rows), encoding="utf-8")
