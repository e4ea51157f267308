"""A comparison from start to end."""

import dataclasses
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

from dlhmc.comparison import table
from dlhmc.comparison.config import CompareConfig, ObjectCompareConfig
from dlhmc.comparison.contestants import (
    Contestant,
    equilibrated,
    exact_contestant,
    grid,
    learned_contestants,
    settle,
)
from dlhmc.comparison.race import Runner, race
from dlhmc.comparison.results import Results, evaluate, read_results, to_json
from dlhmc.errors import ExitCode, UserError
from dlhmc.numerics.leaves import integer
from dlhmc.runs.directory import RunDirectory, new_run, open_run, read_json, run_kind, write_json
from dlhmc.runs.engine import begin
from dlhmc.runs.interruption import Interruption, watch_signals
from dlhmc.runs.progress import Callback, Display
from dlhmc.storage.files import fingerprint, write_whole
from dlhmc.targets import Target
from dlhmc.targets.contract import Field
from dlhmc.theories.u1.action import U1

RESULTS, HISTORIES = "results.json", "histories"
# Trajectories from a hot start to equilibrium, where there are no exact draws.
_EQUILIBRATION = 500


def compare(config: CompareConfig, path: Path, console: Console, *, quiet: bool = False) -> ExitCode:
    """Race all samplers, and leave tables and histories in a new directory; after Ctrl-C what there is so far."""
    with jax.enable_x64(config.float64):
        target = U1(config.lattice, config.beta)
        RunDirectory(path).refuse_if_taken()
        # Before the directory is made: a model that does not fit leaves nothing behind.
        learned = learned_contestants(config, target)
        with new_run("compare", config, path), watch_signals() as interruption:
            results, runners = hold_race(config, target, learned, console, interruption, quiet=quiet)
            write_results(results, runners, path)
        if not quiet:
            table.show(results, console)
            console.print(f"written to {path}", markup=False, highlight=False, soft_wrap=True)
        return interruption.exit_code if interruption else ExitCode.OK


def hold_race(
    config: CompareConfig | ObjectCompareConfig,
    target: Target,
    given: Sequence[Contestant],
    console: Console,
    interruption: Interruption,
    *,
    quiet: bool,
    callback: Callback | None = None,
) -> tuple[Results, list[Runner]]:
    """Tune the samplers of the grid, race them and those that are given, and work out what each costs."""
    runners = _line_up(config, target, given, console, interruption, quiet=quiet, callback=callback)
    display = Display(console, "seconds", math.ceil(config.budget), quiet=quiet, callback=callback)
    with display.running(0):
        seconds = race(runners, config.precision, config.budget, display, interruption)
    return evaluate(target, runners, config.precision, seconds, interrupted=bool(interruption)), runners


def open_results(path: Path) -> Results:
    """The results of an earlier comparison."""
    if run_kind(path) != "compare-objects":
        open_run("compare", CompareConfig, path)
    if not (path / RESULTS).exists():
        raise UserError(f"{path} has no results: the comparison was stopped at once; start another one.")
    return read_results(path / RESULTS)


def show_results(path: Path, console: Console) -> dict[str, Any]:
    """The tables of an earlier comparison."""
    table.show(open_results(path), console)
    return read_json(path / RESULTS, RunDirectory(path).identity())


def _line_up(
    config: CompareConfig | ObjectCompareConfig,
    target: Target,
    given: Sequence[Contestant],
    console: Console,
    interruption: Interruption,
    *,
    quiet: bool,
    callback: Callback | None,
) -> list[Runner]:
    """All samplers, tuned and compiled; each has random numbers and starts in equilibrium of its own."""
    draws = target.exact_draws()
    exact = None if draws is None else exact_contestant(target, draws)
    others = [*([exact] if config.exact and exact is not None else []), *given]
    points = list(grid(config))
    seeds = np.random.SeedSequence(config.seed).generate_state(2 * len(points) + len(others)).tolist()

    def start(seed: int) -> Field:
        if exact is None:
            return equilibrated(target, config.lengths[0], config.chains, seed, _EQUILIBRATION)
        return begin(exact.kernel, draws, integer(seed, np.uint32), "exact", config.chains).state.x

    contestants: dict[str, Contestant] = {}
    runners: list[Runner] = []
    display = Display(console, "preparing", len(seeds), quiet=quiet, callback=callback)
    with display.running(0):
        for done, point in enumerate(points):
            if interruption:
                return []
            display.update(done, point.label)
            # Two acceptances may ask for the same number of steps: once is enough.
            contestant = settle(point, target, start(seeds[done]), seeds[done])
            contestants.setdefault(contestant.name, contestant)
        for done, contestant in enumerate([*contestants.values(), *others], start=len(points)):
            if interruption:
                return []
            display.update(done, contestant.name)
            runners.append(Runner(contestant, target, start(seeds[done]), seeds[done]))
            runners[-1].compile()
    return runners


def write_results(results: Results, runners: Sequence[Runner], path: Path) -> None:
    """results.json, table.csv, table.md, and histories/ with an archive for each sampler."""
    files = {runner.contestant.name: f"{HISTORIES}/{_file_name(runner.contestant.name)}.npz" for runner in runners}
    (path / HISTORIES).mkdir()
    for runner in runners:
        if runner.rows:
            runner.streams.save(path / files[runner.contestant.name])
    entries = tuple(
        dataclasses.replace(entry, history=file, history_sha256=fingerprint(path / file))
        for entry, file in ((entry, files[entry.name]) for entry in results.entries)
    )
    results = dataclasses.replace(results, entries=entries)
    write_json(path / RESULTS, to_json(results), RunDirectory(path).identity())
    write_whole(path / "table.csv", table.comma_separated(results).encode())
    write_whole(path / "table.md", table.markdown(results).encode())


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")
