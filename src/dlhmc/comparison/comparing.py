"""A comparison from start to end: line up, choose among HMC, take turns, write results."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dlhmc.comparison import table
from dlhmc.comparison.lineup import Learned, equilibrium, line_up, require_suitable
from dlhmc.comparison.results import Entry, Mean, Results, Status, from_json, to_json
from dlhmc.comparison.settings import CompareSettings
from dlhmc.comparison.turns import SHARE_OF_SELECTION, Sampler, select, take_turns
from dlhmc.errors import ExitCode, UserError
from dlhmc.files import write_arrays, write_whole
from dlhmc.run import describe
from dlhmc.run.directory import Place, open_run, read_json, run_directory
from dlhmc.run.driver import PLAIN, ExecutionOptions
from dlhmc.run.interruption import Interruption, watch_signals
from dlhmc.run.needs import in_bytes, of_fields, require_room
from dlhmc.run.progress import Display
from dlhmc.statistics import Estimate, integrated_autocorrelation_time, mean_and_error, split_rhat
from dlhmc.statistics.autocorrelation import ONE_SIDED_SIGMA
from dlhmc.statistics.quantity import Quantity
from dlhmc.targets import Target

KIND, RESULTS, HISTORIES = "compare", "results.json", "histories"
# Chains that have forgotten their starts are below (Gelman and Rubin); so many trajectories tell enough.
_LARGEST_RHAT, _ROWS_FOR_RHAT = 1.1, 1000


def compare(
    target: Target,
    settings: CompareSettings,
    learned: Sequence[Learned],
    place: Place | None,
    console: Console,
    options: ExecutionOptions = PLAIN,
    described: Mapping[str, Any] | None = None,
) -> tuple[Results, ExitCode]:
    """All samplers that suit the target, in the precision that JAX is set to.

    Tables and histories are left in a new directory, if there is a place for it. Ctrl-C ends the comparison, and what
    there is so far is the result; the code tells.
    """
    require_room(target, settings.chains)
    require_suitable(target, settings)
    scalars = _scalars(target)
    slow = {name: mean for name, mean in target.known.slow(target).items() if name in scalars}
    if not slow:
        raise UserError("This target does not say which observable is slow: set `slow`, by which samplers are judged.")
    described = described or describe.describe_target(target)
    directory = nullcontext() if place is None else run_directory(KIND, place, describe.checksum(target))
    with directory, watch_signals() as interruption:
        samplers = _prepare(target, settings, learned, slow, scalars, console, options, interruption)
        display = _display(console, "seconds", math.ceil(settings.budget), options)
        with display.running(0):
            chosen = select(samplers, settings.budget, lambda: bool(interruption))
            seconds = take_turns(
                chosen,
                settings.precision,
                settings.budget,
                lambda name: target.known.slow_variance(target, name),
                lambda: bool(interruption),
                lambda elapsed, facts: display.update(min(int(elapsed), math.ceil(settings.budget) - 1), facts),
            )
        ran = [sampler for sampler in chosen if sampler.pace]
        _learn_variance(target, ran)
        entries = [_evaluate(target, sampler, settings.precision, number) for number, sampler in enumerate(ran)]
        results = Results(
            described,
            settings.chains,
            settings.precision,
            seconds,
            bool(interruption),
            tuple(slow),
            tuple(sampler.competitor.name for sampler in samplers if sampler not in chosen),
            () if target.exact_draws() is not None else _warnings(ran),
            tuple(entries),
        )
        if place is not None:
            _write(results, ran, place.path)
    return results, interruption.exit_code


def estimate(target: Target, settings: CompareSettings, learned: Sequence[Learned], console: Console) -> None:
    """Print what a comparison would take."""
    require_room(target, settings.chains)
    require_suitable(target, settings)
    points = len(settings.integrators) * len(settings.lengths) * len(settings.acceptances)
    points *= max(1, len(settings.inner_steps)) * max(1, len(settings.hasenbusch_grid))
    fields = sum(of_fields(target, settings.chains))
    lines = {
        "samplers": f"{points} points of the grid of HMC, {len(learned)} learned, and those made by hand that suit",
        "memory": f"{in_bytes(fields)} for fields and momenta of each, and histories",
        "time": f"at most {1 + SHARE_OF_SELECTION:g} × {settings.budget:g} s, after tuning and compiling each sampler",
    }
    for name, text in lines.items():
        console.print(f"{name:>20}   {text}", markup=False, highlight=False, soft_wrap=True)


def _prepare(
    target: Target,
    settings: CompareSettings,
    learned: Sequence[Learned],
    slow: Mapping[str, float | None],
    scalars: Sequence[str],
    console: Console,
    options: ExecutionOptions,
    interruption: Interruption,
) -> list[Sampler]:
    """All samplers, tuned and compiled; each has random numbers and initial configurations of its own."""
    samplers: list[Sampler] = []
    seeds = _seeds(settings.seed)
    display = _display(console, "samplers prepared", 0, options)
    with display.running(0):
        start = equilibrium(target, settings)
        for competitor in line_up(target, settings, learned, start, seeds):
            if interruption:
                break
            display.update(len(samplers), competitor.name)
            seed = next(seeds)
            samplers.append(Sampler(competitor, slow, scalars, start(seed), seed))
            samplers[-1].compile()
    return samplers


def _seeds(root: int) -> Iterator[int]:
    for number in itertools.count():
        yield int(np.random.SeedSequence((root, number)).generate_state(1)[0])


def _display(console: Console, title: str, total: int, options: ExecutionOptions) -> Display:
    return Display(console, title, total, quiet=options.quiet, callback=options.progress)


def _scalars(target: Target) -> list[str]:
    """Observables that are one real number for each chain."""
    field = jax.ShapeDtypeStruct((*target.geometry.shape, 1), target.geometry.dtype(jnp.dtype(jnp.result_type(float))))
    shapes = jax.eval_shape(target.observables, field)
    return [name for name, a in shapes.items() if a.ndim == 1 and not jnp.issubdtype(a.dtype, jnp.complexfloating)]


def _learn_variance(target: Target, samplers: Sequence[Sampler]) -> None:
    """Where σ² of the sector is not known exactly, its lower limit from the sampler that measured it best.

    It bounds τ_int of those that hardly ever changed the sector, in units of the squared changes.
    """
    sector = target.known.sector
    samplers = [sampler for sampler in samplers if sector in sampler.slow]
    if sector is None or not samplers or target.known.slow_variance(target, sector) is not None:
        return
    variances = [_variance(sampler, sector) for sampler in samplers if sampler.taus[sector].resolved]
    known = [estimate for estimate in variances if 0 < estimate.error < math.inf]
    if known:
        best = min(known, key=lambda estimate: estimate.error / estimate.value)
        unit = max(_smallest_jump(sampler.records[sector]) for sampler in samplers)
        variance = max(0.0, best.value - ONE_SIDED_SIGMA * best.error) / unit
        for sampler in samplers:
            sampler.look(lambda name: variance if name == sector else None, now=True)


def _variance(sampler: Sampler, name: str) -> Estimate:
    values, mean = sampler.records[name].astype(float), sampler.slow[name]
    return mean_and_error((values - (values.mean() if mean is None else mean)) ** 2)


def _smallest_jump(values: NDArray[Any]) -> float:
    """Squared; 0 where there was none."""
    jumps = np.diff(values.astype(float), axis=0)
    return float(np.min(jumps[jumps != 0] ** 2, initial=np.inf)) if np.any(jumps) else 0.0


def _evaluate(target: Target, sampler: Sampler, precision: float, number: int) -> Entry:
    competitor, records, exact = sampler.competitor, sampler.records, target.exact()
    proposals = sampler.rows * sampler.chains
    others = [name for name in sampler.scalars if name not in sampler.taus]
    taus = sampler.taus | {name: integrated_autocorrelation_time(records[name]) for name in others}
    moments = {
        name: _mean(target, records[observable], power, observable, exact.get(name))
        for name, (observable, power) in target.known.moments.items()
        if observable in sampler.scalars
    }
    resolved = all(tau.resolved for tau in sampler.taus.values())
    status: Status = "less precise" if resolved else "lower limit"
    return Entry(
        competitor.name,
        competitor.group,
        competitor.settings,
        competitor.kind,
        "measured" if sampler.is_known_to(precision) else status,
        competitor.kernel.leapfrog_steps,
        sampler.rows,
        float(records["accepted"].sum()) / proposals,
        int(records["nonfinite"].sum()),
        tuple(seconds / sampler.chains for seconds in sampler.pace),
        {name: Quantity.of_time(tau) for name, tau in taus.items()},
        moments,
        {name: float(records[name].mean()) for name in sampler.work},
        competitor.model,
        f"{HISTORIES}/{number}.npz",
    )


def _mean(target: Target, record: Any, power: int, observable: str, exact: float | None) -> Mean:
    estimate = mean_and_error(
        record.astype(float) ** power,
        sector=record if observable == target.known.sector else None,
        equilibrium_start=target.exact_draws() is not None,
    )
    if not math.isfinite(estimate.error):
        return Mean(estimate.value, None, exact)
    z = (estimate.value - exact) / estimate.error if exact is not None and estimate.error > 0 else None
    return Mean(estimate.value, estimate.error, exact, z)


def _warnings(samplers: Sequence[Sampler]) -> tuple[str, ...]:
    """What is to be said where chains did not start in equilibrium for sure."""
    found = {sampler.competitor.name: _rhat(sampler) for sampler in samplers if sampler.rows >= 4}
    if not found:
        return ()
    stuck = [f"{name} ({rhat:.3g})" for name, rhat in found.items() if not rhat < _LARGEST_RHAT]
    began = "This target has no exact draws, so chains may not have begun in equilibrium"
    if not stuck:
        return (f"{began}; R̂ of what moves slowly is at most {max(found.values()):.3f}.",)
    return (
        f"{began}, and some have not forgotten their starts, as R̂ of what moves slowly tells: {', '.join(stuck)}. "
        "Their means, autocorrelation times and limits may be wrong, and so may gains over them.",
    )


def _rhat(sampler: Sampler) -> float:
    stride = max(1, sampler.rows // _ROWS_FOR_RHAT)
    return max(split_rhat(sampler.records[name][::stride]) for name in sampler.slow)


def open_results(path: Path) -> Results:
    """The results of an earlier comparison."""
    open_run(KIND, path)
    file = path / RESULTS
    if not file.exists():
        raise UserError(f"{path} has no results: the comparison was stopped at once; start another one.")
    return from_json(read_json(file), str(file))


def show_results(results: Results, console: Console) -> dict[str, Any]:
    """Print the tables; returns all of it as plain data."""
    table.show(results, describe.target_in_words(results.target), symbol_of(results), console)
    return dict(msgspec.to_builtins(results))


def symbol_of(results: Results) -> table.Symbol:
    """Quantities in the notation of the theory."""
    theory = describe.known_theory(results.target)
    return lambda name: describe.symbol(theory, name)


def _write(results: Results, samplers: Sequence[Sampler], path: Path) -> None:
    """results.json, table.csv, table.md, and histories/ with an archive for each sampler."""
    (path / HISTORIES).mkdir()
    for sampler, entry in zip(samplers, results.entries, strict=True):
        write_arrays(path / entry.history, {name: sampler.records[name] for name in sampler.scalars})
    write_whole(path / RESULTS, to_json(results))
    write_whole(path / "table.csv", table.to_csv(results).encode())
    title = describe.target_in_words(results.target)
    write_whole(path / "table.md", table.to_markdown(results, title, symbol_of(results)).encode())
