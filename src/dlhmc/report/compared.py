"""Comparisons as a report reads them: who took part, who won, and families of them."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from dlhmc.comparison.command import open_results
from dlhmc.comparison.results import Entry, Quantity, Results, in_time, in_time_for_all, ratio
from dlhmc.comparison.table import shown
from dlhmc.errors import UserError
from dlhmc.files import Archive, fingerprint
from dlhmc.models.architecture import Architecture
from dlhmc.models.architectures import ARCHITECTURES
from dlhmc.report.curves import Curve
from dlhmc.run.describe import known_theory, symbol, target_in_words
from dlhmc.settings import build, fields_of
from dlhmc.targets import Target
from dlhmc.theories.contract import TargetSettings, Theory

Cost = Callable[[Entry], Quantity]
_KINDS = ("hmc", "model", "move", "exact")


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
    def theory(self) -> Theory | None:
        """The theory of the target; None for one of one's own."""
        return known_theory(self.results.target)

    @functools.cached_property
    def target(self) -> Target | None:
        """The target, where its theory can build it."""
        return None if self.theory is None else self._settings(self.theory).build()

    def _settings(self, theory: Theory) -> TargetSettings:
        names = {field.name for field in fields_of(theory.settings)}
        return build(theory.settings, {k: v for k, v in self.results.target.items() if k in names}, str(self.path))

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

    def best(self, kind: str, cost: Cost = in_time) -> Entry | None:
        """The cheapest of a kind; what has not been measured counts with its lower limit."""
        return cheapest([entry for entry in self.results.entries if entry.kind == kind], cost)

    @functools.cached_property
    def contenders(self) -> dict[str, Entry]:
        """The best HMC in time, and the best of each kind of learned samplers."""
        best = {name: cheapest(entries, in_time) for name, entries in groups([self]).items()}
        return {name: entry for name, entry in best.items() if entry and entry.kind in ("hmc", "model")}

    def history(self, entry: Entry, name: str) -> NDArray[Any]:
        """An observable of a sampler, [trajectory, chain]."""
        file = self.path / entry.history
        try:
            if not file.resolve().is_relative_to(self.path.resolve()):
                raise ValueError("it is not in the directory of the comparison")
            if fingerprint(file) != entry.history_sha256:
                raise ValueError("it is not what was saved (SHA-256)")
            return Archive(file).read(name)
        except (OSError, ValueError) as error:
            raise UserError(f"{file} is missing or damaged: {error}.") from None


def cheapest(entries: Iterable[Entry], cost: Cost) -> Entry | None:
    """The one that costs least; those that were dropped cost more than others."""
    known = [entry for entry in entries if entry.status != "dropped" and cost(entry).figure is not None]
    return min(known, key=lambda entry: cost(entry).figure or 0.0, default=None)


def group_of(entry: Entry) -> str:
    """What samplers such as this are called."""
    if entry.model is None:
        by_integrator = entry.kind in ("hmc", "move") and entry.integrator is not None
        return "HMC" + "".join(entry.name.partition(" + ")[1:]) if by_integrator else entry.name
    known = ARCHITECTURES.get(entry.network or "", Architecture)
    return f"{known.words} in turn with HMC" if entry.integrator else f"{known.words}, {entry.leapfrog_steps} layers"


def in_words(entry: Entry) -> str:
    """A sampler for a reader who does not know the short names."""
    if entry.model is not None:
        hmc = f" of length {entry.length:g}" if entry.integrator and entry.length else ""
        return f"{group_of(entry)}{hmc} ({Path(entry.model).name})"
    if entry.kind not in ("hmc", "move") or entry.integrator is None or entry.length is None:
        return entry.name
    moves = entry.name.partition(" + ")[2]
    words = f"{entry.integrator.capitalize()}, length {entry.length:g}, {entry.leapfrog_steps} steps"
    return f"{words}, {moves}" if moves else words


def groups(runs: Sequence[ComparedRun]) -> dict[str, list[Entry]]:
    """All samplers by what they are called: HMC first, learned ones next."""
    found: dict[str, list[Entry]] = {}
    for entry in sorted((one for run in runs for one in run.results.entries), key=lambda one: _KINDS.index(one.kind)):
        found.setdefault(group_of(entry), []).append(entry)
    return found


def headline(run: ComparedRun) -> str | None:
    """Who won, and by how much; None where nothing is known."""
    trained, hmc = run.best("model"), run.best("hmc")
    own = trained or hmc
    if own is None:
        return None
    judge = run.slow[0].replace("_", " ")
    said = [f"On {run.where} an independent {judge} costs {in_words(own)} {_needs(own)}."]
    if trained and hmc:
        gain = trained.gain_in_time
        won, lost = (gain.lower or 0.0) > 1, gain.upper is not None and gain.upper < 1
        verdict = "The trained sampler won" if won else "The trained sampler lost" if lost else "It is open who wins"
        said = [
            f"{verdict} on {run.where}: an independent {judge} costs {in_words(trained)} {_needs(trained)}, and the "
            f"best HMC ({in_words(hmc)}) {_needs(hmc)}."
        ]
        gains = {"in time": gain, "in leapfrog steps": trained.gain_in_steps}
        slowest = run.best("model", in_time_for_all) or trained
        gains[f"in time for the slowest of all observables ({group_of(slowest)})"] = slowest.gain_for_all
        factors = [f"{_factor(gain)} {what}" for what, gain in gains.items() if shown(gain)]
        said += [f"That is a factor of {', '.join(factors)}."] if factors else []
    others = [other for kind in ("move", "exact") if (other := run.best(kind))]
    beside = [f"{group_of(other)} {_say(other.seconds_per_independent, 1e3)} ms" for other in others]
    said += [f"For comparison: {', '.join(beside)}."] if beside else []
    if any(" than " in sentence for sentence in said):
        said.append("More or less than: limits at 95 %.")
    return " ".join(said)


def _needs(entry: Entry) -> str:
    steps = f"{_say(entry.steps_tau)} leapfrog steps and " if entry.leapfrog_steps else ""
    return f"{steps}{_say(entry.seconds_per_independent, 1e3)} ms"


def _factor(gain: Quantity) -> str:
    """By how much more HMC costs; what is smaller than 1 is turned round."""
    if gain.figure is None and gain.upper is not None and gain.upper < 1:
        return f"{_say(Quantity(lower=1 / gain.upper))} for HMC"
    if gain.value is not None and gain.value < 1:
        return f"{_say(ratio(Quantity(1.0, 0.0), gain))} for HMC"
    return _say(gain)


def _say(quantity: Quantity, factor: float = 1.0) -> str:
    return shown(quantity, factor).replace("> ", "more than ").replace("< ", "less than ")


class Family(NamedTuple):
    """Comparisons on targets that differ in one setting at most, in its order."""

    runs: list[ComparedRun]
    #: that setting
    axis: str | None = None
    #: from elsewhere, for targets such as these
    curves: Sequence[Curve] = ()

    @property
    def last(self) -> ComparedRun:
        """The one that is looked at more closely."""
        return self.runs[-1]

    def symbol(self, name: str | None) -> str:
        """A quantity in the notation of the field."""
        return self.last.symbol(name or "")

    def at(self, run: ComparedRun) -> float:
        """Where a comparison stands on the axis."""
        return float(run.results.target[self.axis]) if self.axis else 0.0


def differ_only_in(one: ComparedRun, other: ComparedRun, axis: str | None) -> bool:
    """Whether the targets of two comparisons are the same but for a setting."""
    first, second = ([(k, v) for k, v in run.results.target.items() if k != axis] for run in (one, other))
    return first == second


def most_varied(runs: Sequence[ComparedRun]) -> str | None:
    """The setting, a number in all of them, that has the most different values."""
    targets = [run.results.target for run in runs]
    numbers = (name for name in targets[0] if all(isinstance(target.get(name), int | float) for target in targets))
    varied = {name: len({target[name] for target in targets}) for name in numbers}
    return max((name for name in varied if varied[name] > 1), key=varied.__getitem__, default=None)
