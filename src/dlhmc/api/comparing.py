"""Comparing samplers from Python."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from dlhmc.api.running import Progress, is_double, shown
from dlhmc.comparison import table
from dlhmc.comparison.command import hold_race, write_results
from dlhmc.comparison.config import ObjectCompareConfig
from dlhmc.comparison.contestants import contestant_of
from dlhmc.comparison.results import Entry, Results
from dlhmc.errors import UserError, in_words_of_python
from dlhmc.kernels import Kernel
from dlhmc.names import Scheme
from dlhmc.runs.directory import new_run
from dlhmc.runs.interruption import watch_signals
from dlhmc.targets import Target
from dlhmc.theories.u1.action import U1


class Comparison:
    """What a comparison gives: for each sampler its autocorrelation times and what an independent sample costs."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def __getitem__(self, name: str) -> Entry:
        """All that was found about a sampler."""
        for entry in self.results.entries:
            if entry.name == name:
                return entry
        raise KeyError(f"no sampler is called {name!r}: there are {', '.join(entry.name for entry in self)}")

    def __iter__(self) -> Iterator[Entry]:
        """All samplers."""
        return iter(self.results.entries)

    @property
    def best_hmc(self) -> Entry | None:
        """The HMC that takes least time for an independent configuration."""
        return None if self.results.best_in_time is None else self[self.results.best_in_time]

    def show(self, console: Console | None = None) -> None:
        """Print the tables."""
        table.show(self.results, console or Console())

    def __repr__(self) -> str:
        """The tables as Markdown."""
        return table.markdown(self.results)


@in_words_of_python()
def compare(
    target: Target,
    kernels: Mapping[str, Kernel] | None = None,
    *,
    integrators: Sequence[Scheme] = ("leapfrog",),
    lengths: Sequence[float] = (1.0, 2.0, 4.0),
    acceptances: Sequence[float] = (0.6, 0.8, 0.9),
    step_sizes: Sequence[float] = (),
    hits: int = 0,
    hit_lengths: Sequence[float] = (0.25, 0.5, 1.0, 2.0),
    exact: bool = False,
    chains: int = 128,
    precision: float = 0.1,
    budget: float = 60.0,
    seed: int = 1,
    out: str | Path | None = None,
    progress: Progress = True,
) -> Comparison:
    """Race samplers side by side until τ_int of each is known: those given, and HMC on a grid that is tuned first.

    The first observable in `target.slow` judges. Chains start from exact draws; for targets that have none from hot
    configurations and 500 trajectories of HMC.

    Args:
        target: what all of them sample.
        kernels: samplers by name.
        integrators: of HMC.
        lengths: trajectory lengths of HMC.
        acceptances: that the step size of HMC is tuned to; each is a point of the grid for each length.
        step_sizes: of HMC, in place of acceptances.
        hits: instanton hits after each trajectory, for HMC with hits (U(1) only).
        hit_lengths: trajectory lengths of HMC with hits.
        exact: let exact draws take part.
        chains: Markov chains side by side.
        precision: relative error of τ_int at which a sampler has been measured.
        budget: seconds after which the race ends, measured or not.
        seed: root of all random numbers.
        out: new directory for tables and histories; without one, nothing is left on disk.
        progress: a live line, nothing, or a function that is called instead.
    """
    if not target.slow:
        raise UserError("This target does not say which observable is slow: set `slow`, by which samplers are judged.")
    if hits and not isinstance(target, U1):
        raise UserError("Instanton hits are for the target U1: leave out hits.")
    given = {} if kernels is None else dict(kernels)
    config = ObjectCompareConfig(
        target=type(target).__name__,
        kernels=tuple(given),
        integrators=tuple(integrators),
        lengths=tuple(map(float, lengths)),
        acceptances=tuple(map(float, acceptances)),
        step_sizes=tuple(map(float, step_sizes)),
        hits=hits,
        hit_lengths=tuple(map(float, hit_lengths)),
        exact=exact,
        chains=chains,
        precision=precision,
        budget=budget,
        seed=seed,
        float64=is_double(),
    )
    contestants = [contestant_of(name, kernel) for name, kernel in given.items()]
    conditions, console = shown(progress, None, None)

    def run() -> tuple[Results, list[Any]]:
        with watch_signals() as interruption:
            return hold_race(
                config,
                target,
                contestants,
                console,
                interruption,
                quiet=conditions.quiet,
                callback=conditions.progress,
            )

    if out is None:
        return Comparison(run()[0])
    with new_run("compare-objects", config, Path(out)):
        results, runners = run()
        write_results(results, runners, Path(out))
    return Comparison(results)
