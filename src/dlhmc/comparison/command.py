"""A comparison from start to end."""

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from dlhmc.comparison import table
from dlhmc.comparison.competitors import Competitors
from dlhmc.comparison.contestants import (
    TUNING_TRAJECTORIES,
    Contestant,
    Tuned,
    contestant_of,
    equilibrated,
    exact_contestant,
    grid,
    settle,
)
from dlhmc.comparison.race import Runner, race, scalars
from dlhmc.comparison.results import Results, evaluate, from_json, to_json
from dlhmc.comparison.settings import CompareSettings
from dlhmc.errors import ExitCode, UserError
from dlhmc.files import fingerprint, write_whole
from dlhmc.geometry.contract import Field
from dlhmc.kernels import HMC, Exact, Kernel
from dlhmc.numerics.leaves import integer
from dlhmc.run import describe
from dlhmc.run.directory import Place, open_run, read_json, run_directory, write_json
from dlhmc.run.driver import PLAIN, ExecutionOptions
from dlhmc.run.engine import begin
from dlhmc.run.interruption import Interruption, watch_signals
from dlhmc.run.needs import find_needs, in_bytes, require_room, show_needs
from dlhmc.run.progress import Display
from dlhmc.targets import Target

KIND = "compare"
RESULTS, HISTORIES = "results.json", "histories"
# Of HMC, from which the time is estimated.
_GUESSED_STEPS = 10


def compare(
    target: Target,
    settings: CompareSettings,
    given: Sequence[Contestant],
    rivals: Competitors,
    tuned: Sequence[Tuned],
    place: Place | None,
    console: Console,
    options: ExecutionOptions = PLAIN,
    described: Mapping[str, Any] | None = None,
) -> tuple[Results, ExitCode]:
    """Race HMC of the grid, `rivals`, others yet to be `tuned` and those `given`, in the precision that JAX is set to.

    Tables and histories are left in a new directory, if there is a place for it. Ctrl-C ends the race, and what there
    is so far is the result; the code tells. Of the options those count that are about what is shown.
    """
    require_room(target, settings.chains)
    rivals.groups(target)  # refuses what makes no sense for the target
    draws = target.exact_draws()
    exact = [exact_contestant(target, draws)] if settings.exact and draws is not None else []
    if not target.known.slow(target).keys() & set(scalars(target)):
        raise UserError("This target does not say which observable is slow: set `slow`, by which samplers are judged.")

    @functools.cache
    def equilibrium() -> Field:
        return equilibrated(target, settings.lengths[0], settings.chains, settings.seed)

    def start(seed: int) -> Field:
        if draws is None:
            return equilibrium()  # once for all: random numbers soon lead them apart
        return begin(Exact(target, draws), draws, integer(seed, np.uint32), "exact", settings.chains).state.x

    def shown(title: str, total: int) -> Display:
        return Display(console, title, total, quiet=options.quiet, callback=options.progress)

    directory = nullcontext() if place is None else run_directory(KIND, place, describe.checksum(target))
    with directory, watch_signals() as interruption:
        runners = _line_up(target, settings, rivals, tuned, [*exact, *given], start, shown, interruption)
        display = shown("seconds", math.ceil(settings.budget))
        with display.running(0):
            seconds = race(runners, settings.precision, settings.budget, display, interruption)
        results = evaluate(
            described or describe.describe_target(target),
            target,
            runners,
            settings,
            seconds,
            exact_starts=draws is not None,
            interrupted=bool(interruption),
        )
        if place is not None:
            results = _write(results, runners, place.path)
    return results, interruption.exit_code


def estimate(
    target: Target,
    settings: CompareSettings,
    given: Sequence[Contestant],
    rivals: Competitors,
    others: Sequence[Tuned],
    console: Console,
) -> None:
    """Print what a comparison would take, from one HMC of its grid: memory, and the time to prepare it."""
    require_room(target, settings.chains)
    groups = (*rivals.groups(target), *others)
    tuned = len(list(grid(settings, rivals.forms(target)))) + sum(group.number for group in groups)
    samplers = tuned + len(given) + (settings.exact and target.exact_draws() is not None)
    kernel = HMC(target, settings.lengths[0] / _GUESSED_STEPS, _GUESSED_STEPS)
    start = begin(kernel, None, integer(settings.seed, np.uint32), "hot", settings.chains)
    runner = Runner(contestant_of("HMC", kernel), target, start.state.x, settings.seed)
    needs = find_needs(target, settings.chains, runner.program, lambda program: program(*runner.arguments(1)))
    trajectories = tuned * TUNING_TRAJECTORIES
    more = {
        "samplers": f"{samplers}, the fields of each in memory: {in_bytes(samplers * needs.fields)}",
        "race": f"at most {settings.budget:g} s, after compiling {samplers + tuned} programs and tuning",
    }
    show_needs(needs, more, trajectories, "trajectories of tuning", console)


def _line_up(
    target: Target,
    settings: CompareSettings,
    rivals: Competitors,
    more: Sequence[Tuned],
    others: Sequence[Contestant],
    start: Callable[[int], Field],
    shown: Callable[[str, int], Display],
    interruption: Interruption,
) -> list[Runner]:
    """All samplers, tuned and compiled; each has random numbers and starts in equilibrium of its own."""
    forms, groups = rivals.forms(target), (*rivals.groups(target), *more)
    points = list(grid(settings, forms))
    tuned = len(points) + sum(group.number for group in groups)
    seeds = np.random.SeedSequence(settings.seed).generate_state(2 * tuned + len(others)).tolist()
    contestants: dict[str, Contestant] = {}
    runners: list[Runner] = []
    display = shown("preparing", len(seeds))
    with display.running(0):
        for done, point in enumerate(points):
            if interruption:
                return []
            display.update(done, point.label)
            # Two acceptances may ask for the same number of steps: once is enough.
            contestant = settle(point, forms[point.form], start(seeds[done]), seeds[done])
            contestants.setdefault(contestant.name, contestant)
        left = iter(seeds[len(points) : tuned])
        found = [
            group.contestants(target, settings, start, list(itertools.islice(left, group.number))) for group in groups
        ]
        for contestant in (*itertools.chain(*found), *others):
            contestants[contestant.name] = contestant
        for done, contestant in enumerate(contestants.values(), start=tuned):
            if interruption:
                return []
            display.update(done, contestant.name)
            runners.append(Runner(contestant, target, start(seeds[done]), seeds[done]))
            runners[-1].compile()
    return runners


def settings_of_objects(
    target: Target, kernels: Mapping[str, Kernel], settings: CompareSettings, rivals: Competitors
) -> dict[str, Any]:
    """What config.toml says of a comparison of objects made in Python."""
    return {
        "target": describe.describe_target(target),
        "kernels": list(kernels),
        "competitors": dataclasses.asdict(rivals),
        "compare": dataclasses.asdict(settings),
        "objects": type(target).__name__,
    }


def open_results(path: Path) -> Results:
    """The results of an earlier comparison."""
    open_run(KIND, path)
    file = path / RESULTS
    if not file.exists():
        raise UserError(f"{path} has no results: the comparison was stopped at once; start another one.")
    return from_json(read_json(file), str(file))


def show_results(path: Path, console: Console) -> dict[str, Any]:
    """The tables of an earlier comparison."""
    results = open_results(path)
    table.show(results, console)
    return to_json(results)


def _write(results: Results, runners: Sequence[Runner], path: Path) -> Results:
    """results.json, table.csv, table.md, and histories/ with an archive for each sampler; the results know where."""
    (path / HISTORIES).mkdir()
    files: dict[str, str] = {}
    for number, runner in enumerate(runners):
        if runner.rows:
            name = runner.contestant.name
            # Numbers, because two names may have the same letters.
            files[name] = f"{HISTORIES}/{number}-{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-.')}.npz"
            runner.streams.save(path / files[name])
    entries = tuple(
        dataclasses.replace(entry, history=file, history_sha256=fingerprint(path / file))
        for entry, file in ((entry, files[entry.name]) for entry in results.entries)
    )
    results = dataclasses.replace(results, entries=entries)
    write_json(path / RESULTS, to_json(results))
    write_whole(path / "table.csv", table.comma_separated(results).encode())
    write_whole(path / "table.md", table.markdown(results).encode())
    return results
