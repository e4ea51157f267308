"""Comparing samplers from Python."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from rich.console import Console

from dlhmc.api.running import Progress, conclude, is_double, shown
from dlhmc.comparison import comparing, table
from dlhmc.comparison.lineup import Learned
from dlhmc.comparison.results import Entry, Results
from dlhmc.comparison.settings import CompareSettings
from dlhmc.kernels import Kernel
from dlhmc.run.describe import target_in_words
from dlhmc.run.directory import Place
from dlhmc.settings import build
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
        return self.results.best("hmc", self.results.in_time)

    def show(self, console: Console | None = None) -> None:
        """Print the tables."""
        comparing.show_results(self.results, console or Console())

    def __repr__(self) -> str:
        """The tables as Markdown."""
        title = target_in_words(self.results.target)
        return table.to_markdown(self.results, title, comparing.symbol_of(self.results))


def compare(
    target: Target,
    kernels: Mapping[str, Kernel] | None = None,
    *,
    budget: float = 60.0,
    out: str | Path | None = None,
    progress: Progress = True,
    **settings: Any,
) -> Comparison:
    """Run samplers in turn until τ_int of each is known: those given, HMC on a grid that is tuned first, and others.

    The first of the target's slow observables judges. Chains start from exact draws; for targets that have none from
    approximate ones or hot configurations, and some trajectories of HMC.

    Args:
        target: what all of them sample.
        kernels: samplers by name.
        budget: seconds after which the comparison ends, measured or not.
        out: new directory for tables and histories; without one, nothing is left on disk.
        progress: a live line, nothing, or a function that is called instead.
        **settings: others of `dlhmc compare --help-all`, such as lengths=(1, 2) or hits=0.

    Ctrl-C ends the comparison, then raises a KeyboardInterrupt with what has been found as its `result`.
    """
    given = {} if kernels is None else dict(kernels)
    table = {"budget": float(budget), "float64": is_double(), **settings}
    chosen = build(CompareSettings, table, "A comparison")
    options, console = shown(progress, None, None)
    objects = {"seed": chosen.seed, "objects": "Target", "kernels": list(given)}
    place = None if out is None else Place(Path(out), objects)
    learned = [Learned(name, kernel) for name, kernel in given.items()]
    results, code = comparing.compare(target, chosen, learned, place, console, options)
    done = f"{results.seconds:.0f} of {budget:g} seconds"
    return cast(Comparison, conclude(Comparison(results), code, done, None))
