"""Comparisons as a report reads them, whatever the theory: who took part, histories, autocorrelations, tables."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlhmc.comparison.command import RESULTS, open_results
from dlhmc.comparison.results import Entry, Quantity, Results, cheapest, in_time
from dlhmc.comparison.table import LEGEND, sections
from dlhmc.errors import UserError
from dlhmc.report.charts import BLUE, ORANGE, PURPLE, VERMILION, WINE, Chart, Panel, Series, Table
from dlhmc.runs.describe import known_theory, symbol, target_in_words
from dlhmc.settings import hints_of, picked
from dlhmc.statistics.autocorrelation import autocorrelation_function
from dlhmc.storage.files import Archive, fingerprint
from dlhmc.targets import Target
from dlhmc.theories.contract import TargetSettings, Theory

MODEL_COLOURS = (VERMILION, PURPLE, ORANGE, WINE)
_MOST_LAGS = 200
_AUTOCORRELATION = (
    "ρ(t) with its error (Madras and Sokal). Triangles: the window W at which the sum for τ_{int} ends (Wolff). "
    "The window of a frozen chain lies far beyond the lags shown."
)


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """A finished comparison and where it is."""

    path: Path
    results: Results

    @classmethod
    def open(cls, path: Path) -> "ComparedRun":
        """What `dlhmc compare` left in a directory."""
        run = cls(path, open_results(path))
        if run.theory is not None:
            run.require(hints_of(run.theory.settings).keys(), run.results.target.keys())
            try:
                run.settings  # noqa: B018
            except UserError as error:
                raise run.damaged(str(error).removesuffix(".")) from None
        return run

    def require(self, needed: Collection[str], found: Collection[str]) -> None:
        """Refuse results that lack something."""
        if missing := sorted(set(needed) - set(found)):
            raise self.damaged(f"it has no {missing[0]}")

    def damaged(self, what: str) -> UserError:
        """What to say of results that cannot be."""
        return UserError(f"{self.path / RESULTS} is damaged or of another version of dlhmc: {what}.")

    @property
    def name(self) -> str:
        """That of the directory."""
        return self.path.resolve().name

    @property
    def theory(self) -> Theory | None:
        """The theory of the target; None for one of one's own."""
        return known_theory(self.results.target)

    @property
    def settings(self) -> TargetSettings | None:
        """Those of the target in its theory."""
        return None if self.theory is None else picked(self.theory.settings, self.results.target)

    @functools.cached_property
    def target(self) -> Target | None:
        """The target, where its theory can build it."""
        return None if self.settings is None else self.settings.build()

    @property
    def where(self) -> str:
        """The target in words."""
        return ", ".join(target_in_words(self.results.target).split("  "))

    @property
    def slow(self) -> list[str]:
        """Observables by which samplers are judged, the first of them above all."""
        return list(self.results.entries[0].tau_int) if self.results.entries else []

    def symbol(self, name: str) -> str:
        """A quantity in the notation of the field."""
        return symbol(self.theory, name)

    def of_kind(self, kind: str) -> list[Entry]:
        """Its samplers of one kind."""
        return [entry for entry in self.results.entries if entry.kind == kind]

    def best(self, kind: str, cost: Callable[[Entry], Quantity]) -> Entry | None:
        """The one of a kind that costs least; what has not been measured counts with its lower limit."""
        return cheapest(self.results.entries, kind, cost)

    @property
    def trained(self) -> list[Entry]:
        """Learned samplers and those given from Python, the longest trajectories first."""
        return sorted(self.of_kind("model"), key=lambda entry: -entry.leapfrog_steps)

    def history(self, entry: Entry, name: str) -> NDArray[Any]:
        """An observable of a sampler, [trajectory, chain]."""
        file = self.path / entry.history
        try:
            if not file.resolve().is_relative_to(self.path.resolve()):
                raise ValueError("it is not in the directory of the comparison")
            if fingerprint(file) != entry.history_sha256:
                raise ValueError("it is not what was saved (SHA-256)")
            history = Archive(file).read(name)
        except (OSError, ValueError) as error:
            raise UserError(f"{file} is missing or damaged: {error}.") from None
        if history.shape != (entry.trajectories, self.results.chains):
            raise UserError(f"{file} is damaged: '{name}' has the shape {history.shape}.")
        if not history.size or not np.isfinite(history).all():
            raise UserError(f"{file} is damaged, or the comparison was stopped too early: '{name}' has no numbers.")
        return history


def in_words(entry: Entry) -> str:
    """A sampler for a reader who does not know how they are called.

    HMC by integrator, length and steps; others by their name.
    """
    if entry.kind not in ("hmc", "move") or entry.integrator is None or entry.length is None:
        layers = entry.model is not None and entry.integrator is None  # in turn with HMC, they are not all of it
        return f"{entry.name}, {entry.leapfrog_steps} layers" if layers else entry.name
    moves = entry.name.partition(" + ")[2]
    words = f"{entry.integrator.capitalize()}, length {entry.length:g}, {entry.leapfrog_steps} steps"
    return f"{words}, {moves}" if moves else words


def label(entry: Entry) -> str:
    """A sampler that was given from Python has the name it was given."""
    return entry.name if entry.model is None else f"{entry.network or 'trained'}, N_{{LF}} = {entry.leapfrog_steps}"


def contenders(run: ComparedRun) -> list[tuple[str, Entry, str]]:
    """The best HMC in time, and the trained samplers: label, entry, colour."""
    hmc = run.best("hmc", in_time)
    found = [] if hmc is None else [(f"HMC ({in_words(hmc)})", hmc, BLUE)]
    colours = itertools.cycle(MODEL_COLOURS)
    return found + [(label(entry), entry, colour) for entry, colour in zip(run.trained, colours, strict=False)]


def autocorrelation_chart(run: ComparedRun, observables: Sequence[str], name: str, title: str) -> Chart:
    """ρ(t) of observables of the contenders."""
    panels = [_autocorrelation_panel(run, observable) for observable in observables]
    return Chart(name, title, _AUTOCORRELATION, panels, columns=min(2, len(panels)))


def _autocorrelation_panel(run: ComparedRun, name: str) -> Panel:
    """ρ(t) of an observable, with the window at which the sum for τ_int was cut."""
    series = []
    mean = None if run.target is None else run.target.slow.get(name)
    windows = [int(entry.tau_int[name]["window"] or 0) for entry in run.of_kind("model")]
    reach = min(_MOST_LAGS, max(2 * max(windows, default=0), 20))
    for title, entry, colour in contenders(run):
        history = run.history(entry, name).astype(float)
        window = int(entry.tau_int[name]["window"] or 0)
        function = autocorrelation_function(history, mean, max_lag=min(reach, max(1, len(history) // 2 - 1)))
        lags = list(range(len(function.rho)))
        series.append(Series(title, lags, function.rho.tolist(), "line", colour))
        low, high = function.rho - function.error, function.rho + function.error
        if np.isfinite(low).all():
            series.append(Series(title, lags, low.tolist(), "band", colour, upper=high.tolist()))
        if 0 < window < len(lags):
            rho = [float(function.rho[window])]
            title = f"window W, {title.removeprefix('trained, ')}"
            series.append(Series(title, [window], rho, "points", colour, marker="v"))
    lowest = min((value for one in series for value in one.y if value is not None), default=0.0)
    limits = (min(-0.1, lowest - 0.05), 1.05)
    return Panel("lag t (trajectories)", f"ρ(t) of {run.symbol(name)}", series, y_limits=limits)


def all_tables(run: ComparedRun, where: str) -> list[Table]:
    """Every sampler of a comparison: costs, trajectories, observables, and what kernels tell beside."""
    captions = (
        f"Cost, {where}. {LEGEND}",
        f"Trajectories, {where}",
        f"Observables (deviation from exact), {where}",
        f"Moves that were accepted, and work for a trajectory and for an independent configuration, {where}",
    )
    return [
        Table(caption, section.header, section.rows, section.marked)
        for caption, section in zip(captions, sections(run.results), strict=False)
    ]
