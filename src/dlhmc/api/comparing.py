"""Comparing samplers from Python."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from rich.console import Console

from dlhmc.api.running import Progress, conclude, is_double, shown
from dlhmc.comparison import command, table
from dlhmc.comparison.competitors import NONE, Competitors
from dlhmc.comparison.contestants import contestant_of
from dlhmc.comparison.results import Entry, Results
from dlhmc.comparison.settings import CompareSettings
from dlhmc.kernels import Kernel
from dlhmc.names import Scheme
from dlhmc.run.directory import Place
from dlhmc.settings import fields_of, require_known
from dlhmc.targets import Target


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


def compare(
    target: Target,
    kernels: Mapping[str, Kernel] | None = None,
    *,
    integrators: Sequence[Scheme] = ("leapfrog",),
    lengths: Sequence[float] = (1.0, 2.0, 4.0),
    acceptances: Sequence[float] = (0.6, 0.8, 0.9),
    step_sizes: Sequence[float] = (),
    inner_steps: Sequence[int] = (),
    exact: bool = False,
    chains: int = 128,
    precision: float = 0.1,
    budget: float = 60.0,
    seed: int = 1,
    out: str | Path | None = None,
    progress: Progress = True,
    **rivals: Any,
) -> Comparison:
    """Race samplers side by side until τ_int of each is known: those given, and HMC on a grid that is tuned first.

    The first of the target's slow observables judges. Chains start from exact draws; for targets that have none from
    approximate ones or hot configurations, and some trajectories of HMC.

    Args:
        target: what all of them sample.
        kernels: samplers by name.
        integrators: of HMC.
        lengths: trajectory lengths of HMC.
        acceptances: that the step size of HMC is tuned to; each is a point of the grid for each length.
        step_sizes: of HMC, in place of acceptances.
        inner_steps: of HMC, where the force has a fast and a slow part.
        exact: let exact draws take part.
        chains: Markov chains side by side.
        precision: relative error of τ_int at which a sampler has been measured.
        budget: seconds after which the race ends, measured or not.
        seed: root of all random numbers.
        out: new directory for tables and histories; without one, nothing is left on disk.
        progress: a live line, nothing, or a function that is called instead.
        **rivals: samplers made by hand that suit the target, such as hits=1, as `dlhmc compare u1 --help` lists them.

    Ctrl-C ends the race, then raises a KeyboardInterrupt with what has been found as its `result`.
    """
    given = {} if kernels is None else dict(kernels)
    settings = CompareSettings(
        integrators=tuple(integrators),
        lengths=tuple(map(float, lengths)),
        acceptances=tuple(map(float, acceptances)),
        step_sizes=tuple(map(float, step_sizes)),
        inner_steps=tuple(inner_steps),
        exact=exact,
        chains=chains,
        precision=precision,
        budget=budget,
        seed=seed,
        float64=is_double(),
    )
    require_known(rivals, [field.name for field in fields_of(Competitors)], "A comparison")
    moves = Competitors(**rivals) if rivals else NONE
    moves.groups(target)
    options, console = shown(progress, None, None)
    contestants = [contestant_of(name, kernel) for name, kernel in given.items()]
    config = command.settings_of_objects(target, given, settings, moves)
    place = None if out is None else Place(Path(out), config)
    results, code = command.compare(target, settings, contestants, moves, [], place, console, options)
    done = f"{results.seconds:.0f} of {budget:g} seconds"
    return cast(Comparison, conclude(Comparison(results), code, done, None))
