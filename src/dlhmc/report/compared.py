"""Comparisons as a report reads them: who took part, who won, and families of them."""

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dlhmc.comparison.command import RESULTS, open_results
from dlhmc.comparison.results import Entry, Quantity, Results, in_time, ratio
from dlhmc.comparison.table import shown
from dlhmc.errors import UserError
from dlhmc.report.curves import Curve
from dlhmc.runs.describe import known_theory, symbol, target_in_words
from dlhmc.settings import picked
from dlhmc.storage.files import Archive, fingerprint
from dlhmc.targets import Target
from dlhmc.theories import registry
from dlhmc.theories.contract import Theory

Cost = Callable[[Entry], Quantity]


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """A finished comparison and where it is."""

    path: Path
    results: Results

    @classmethod
    def open(cls, path: Path) -> "ComparedRun":
        """What `dlhmc compare` left in a directory."""
        return cls(path, open_results(path))

    @property
    def name(self) -> str:
        """That of the directory."""
        return self.path.resolve().name

    @property
    def theory(self) -> Theory | None:
        """The theory of the target; None for one of one's own."""
        return known_theory(self.results.target)

    @functools.cached_property
    def target(self) -> Target | None:
        """The target, where its theory can build it."""
        return None if self.theory is None else picked(self.theory.settings, self.results.target).build()

    @property
    def where(self) -> str:
        """The target in words."""
        name, *settings = target_in_words(self.results.target).split("  ")
        title = "" if self.theory is None else self.theory.title.partition(":")[0]
        return ", ".join([title or name, *settings])

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

    def best(self, kind: str, cost: Cost = in_time) -> Entry | None:
        """The cheapest of a kind; what has not been measured counts with its lower limit."""
        return cheapest(self.of_kind(kind), cost)

    def contenders(self, moves: str) -> dict[str, Entry]:
        """The best HMC in time, and the best of each kind of learned samplers."""
        best = {name: cheapest(entries, in_time) for name, entries in groups([self], moves).items()}
        return {name: entry for name, entry in best.items() if entry and entry.kind in ("hmc", "model")}

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


def cheapest(entries: Iterable[Entry], cost: Cost) -> Entry | None:
    """The one that costs least; those that were dropped cost more than others."""
    known = [entry for entry in entries if entry.status != "dropped" and cost(entry).figure is not None]
    return min(known, key=lambda entry: cost(entry).figure or 0.0, default=None)


def group_of(entry: Entry, moves: str) -> str:
    """What samplers such as this are called; `moves` is what HMC with the theory's own moves is."""
    if entry.kind != "model":
        return {"hmc": "HMC", "move": moves}.get(entry.kind, "exact draws")
    if entry.model is None:
        return entry.name
    known = registry.architectures().get(entry.network or "")
    words = "trained" if known is None else known.meaning.partition(",")[0]
    return f"{words} in turn with HMC" if entry.integrator else f"{words}, {entry.leapfrog_steps} layers"


def in_words(entry: Entry) -> str:
    """A sampler for a reader who does not know the short names."""
    if entry.kind == "model" and entry.model is not None:
        hmc = f" of length {entry.length:g}" if entry.integrator and entry.length else ""
        return f"{group_of(entry, '')}{hmc} ({Path(entry.model).name})"
    if entry.integrator is None or entry.length is None:
        return entry.name
    moves = entry.name.partition(" + ")[2]
    words = f"{entry.integrator.capitalize()}, length {entry.length:g}, {entry.leapfrog_steps} steps"
    return f"{words}, {moves}" if moves else words


def groups(runs: Sequence[ComparedRun], moves: str) -> dict[str, list[Entry]]:
    """All samplers by what they are called: HMC first, learned ones next."""
    found: dict[str, list[Entry]] = {}
    for kind in ("hmc", "model", "move", "exact"):
        for entry in (entry for run in runs for entry in run.of_kind(kind)):
            found.setdefault(group_of(entry, moves), []).append(entry)
    return found


def headline(run: ComparedRun, judge: str, moves: str) -> str | None:
    """Who won, and by how much; None where nothing is known."""
    trained, hmc = run.best("model"), run.best("hmc")
    own = trained or hmc
    if own is None:
        return None
    said = [f"On {run.where} an independent {judge} costs {in_words(own)} {_needs(own)}."]
    if trained and hmc:
        gain = trained.gain_in_time
        won, lost = (gain.lower or 0.0) > 1, gain.upper is not None and gain.upper < 1
        verdict = "The trained sampler won" if won else "The trained sampler lost" if lost else "It is open who wins"
        said = [
            f"{verdict} on {run.where}: an independent {judge} costs {in_words(trained)} {_needs(trained)}, and the best "
            f"HMC ({in_words(hmc)}) {_needs(hmc)}.",
            f"HMC takes {_times(gain, 'long')} as the trained sampler, {_times(trained.gain_in_steps, 'many leapfrog steps')}, "
            f"and for the slowest of all observables {_times(trained.gain_for_all, 'long')}.",
        ]
    for kind, name in (("move", moves), ("exact", "Drawing exact configurations")):
        if (other := run.best(kind)) is not None:
            said.append(f"{name} takes {_say(other.seconds_per_independent, 1e3)} ms.")
    limits = "More or less than: limits at 95 %." if any(" than " in sentence for sentence in said) else ""
    return " ".join([*said, limits]).rstrip()


def _needs(entry: Entry) -> str:
    steps = f"{_say(entry.steps_tau)} leapfrog steps and " if entry.leapfrog_steps else ""
    return f"{steps}{_say(entry.seconds_per_independent, 1e3)} ms"


def _times(gain: Quantity, unit: str) -> str:
    """A factor, that of the smaller over the larger turned round."""
    if gain.upper is None or gain.upper > 1:
        return f"{_say(gain)} times as {unit}"
    turned = Quantity(lower=1 / gain.upper) if gain.value is None else ratio(Quantity(1.0, 0.0), gain)
    return f"{_say(turned)} times less"


def _say(quantity: Quantity, factor: float = 1.0) -> str:
    return shown(quantity, factor).replace("> ", "more than ").replace("< ", "less than ") or "an unknown number of"


class Family(NamedTuple):
    """Comparisons on targets that differ in one setting at most, in its order."""

    runs: Sequence[ComparedRun]
    #: that setting
    axis: str | None = None
    #: from elsewhere, for targets such as these
    curves: Sequence[Curve] = ()

    @property
    def last(self) -> ComparedRun:
        """The one that is looked at more closely."""
        return self.runs[-1]

    @property
    def judge(self) -> str:
        """The observable whose autocorrelation counts, in the notation of the field."""
        return self.last.symbol(self.last.slow[0]) if self.last.slow else ""

    def at(self, run: ComparedRun) -> float:
        """Where a comparison stands on the axis."""
        return float(run.results.target[self.axis]) if self.axis else 0.0


def families(
    runs: Sequence[ComparedRun],
    axis: str | None,
    alike: Callable[[ComparedRun, ComparedRun, str | None], bool],
    curves: Sequence[Curve],
) -> list[Family]:
    """Comparisons along the axis, or along the setting that varies most if None."""
    axis = axis or _most_varied([run.results.target for run in runs])
    found: list[list[ComparedRun]] = []
    for run in runs:
        same = next((group for group in found if alike(group[0], run, axis)), None)
        if same is None:
            found.append(same := [])
        same.append(run)
    made = []
    for group in found:
        fitting = [curve for curve in curves if curve.holds_for(group[0].results.target, axis)]
        family = Family(group, axis, fitting)
        made.append(family._replace(runs=sorted(group, key=family.at)))
    return made


def differ_only_in(one: ComparedRun, other: ComparedRun, axis: str | None) -> bool:
    """Whether the targets of two comparisons are the same but for a setting."""
    described = [json.dumps({**run.results.target, axis: None}, sort_keys=True) for run in (one, other)]
    return described[0] == described[1]


def _most_varied(targets: Sequence[Mapping[str, Any]]) -> str | None:
    """The setting, a number in all of them, that has the most different values."""
    numbers = (name for name in targets[0] if all(isinstance(target.get(name), int | float) for target in targets))
    varied = {name: len({target[name] for target in targets}) for name in numbers}
    most = max(varied, key=varied.__getitem__, default=None)
    return None if most is None or varied[most] == 1 else most
