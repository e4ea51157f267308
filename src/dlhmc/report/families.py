"""Comparisons that belong together: on targets that differ in one number at most."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from dlhmc.report.comparisons import ComparedRun
from dlhmc.report.curves import Curve
from dlhmc.runs.describe import symbol


@dataclasses.dataclass(frozen=True)
class Family:
    """Comparisons in the order of the setting in which their targets differ."""

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
        return next((run.symbol(run.slow[0]) for run in self.runs if run.slow), "")

    @property
    def axis_label(self) -> str:
        """The setting in the notation of the field."""
        return symbol(self.last.theory, self.axis or "")

    def at(self, run: ComparedRun) -> float:
        """Where a comparison stands on the axis."""
        return float(run.results.target[self.axis]) if self.axis else 0.0


def families(runs: Sequence[ComparedRun], axis: str | None, curves: Sequence[Curve]) -> list[Family]:
    """Comparisons on targets of one kind, in families along the axis; along the setting that varies most if None."""
    wanted = axis or _most_varied([run.results.target for run in runs])
    groups: dict[str, list[ComparedRun]] = {}
    for run in runs:
        others = {name: value for name, value in run.results.target.items() if name != wanted}
        groups.setdefault(json.dumps(others, sort_keys=True), []).append(run)
    found = []
    for group in groups.values():
        along = wanted if axis or len(group) > 1 else None
        fitting = [curve for curve in curves if curve.holds_for(group[0].results.target, along)]
        family = Family(group, along, fitting)
        found.append(dataclasses.replace(family, runs=sorted(group, key=family.at)))
    return found


def _most_varied(targets: Sequence[Any]) -> str | None:
    """The setting, a number in all of them, that has the most different values."""
    values = {
        name: {target.get(name) for target in targets}
        for name, value in targets[0].items()
        if isinstance(value, int | float) and all(isinstance(target.get(name), int | float) for target in targets)
    }
    varied = {name: len(different) for name, different in values.items() if len(different) > 1}
    return max(varied, key=varied.__getitem__, default=None)
