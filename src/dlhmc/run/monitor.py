"""Running figures of a sampling run, for the progress line and metrics.jsonl; bounded memory."""

import math
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlhmc.statistics import format_uncertainty, integrated_autocorrelation_time
from dlhmc.targets.contract import Target

# The autocorrelation time is that of so many rows, the last ones.
_ROWS = 2048


class Monitor:
    """Sums over what has been measured since the run was started or resumed.

    Of the moments and of the slow observables it follows the first that is a number.
    """

    def __init__(self, target: Target, numbers: set[str]) -> None:
        known = target.known
        self._exact, self._sector, self._means = target.exact(), known.sector, known.slow(target)
        self._moments = {n: moment for n, moment in known.moments.items() if moment.observable in numbers}
        self._moment = next(iter(self._moments), None)
        self._slow = next((name for name in self._means if name in numbers), None)
        self._series: NDArray[Any] = np.empty((0, 0))
        self._last_sector: NDArray[Any] | None = None
        self._count = 0
        self._sums: defaultdict[str, float] = defaultdict(float)

    def add(self, rows: dict[str, NDArray[Any]]) -> None:
        """Take in the records of a chunk."""
        row = next(iter(rows.values()))
        self._count += row.shape[0] * row.shape[-1]
        for name, label in (("accepted", "acceptance"), ("nonfinite", "nonfinite_rejected")):
            if name in rows:
                self._sums[label] += float(rows[name].sum(dtype=np.int64))
        if self._moment is not None:
            observable, power = self._moments[self._moment]
            self._sums[self._moment] += float((rows[observable].astype(np.float64) ** power).sum())
        if self._sector is not None:
            sectors = rows[self._sector]
            before = sectors[:1] if self._last_sector is None else self._last_sector
            changes = np.diff(np.concatenate([before, sectors]), axis=0)
            self._sums["tunnelling_rate"] += float(np.count_nonzero(changes))
            self._last_sector = sectors[-1:].copy()  # a view would keep the whole chunk in memory
        if self._slow is not None:
            new = rows[self._slow]
            self._series = np.concatenate([self._series.reshape(-1, *new.shape[1:]), new])[-_ROWS:]

    def metrics(self) -> dict[str, float]:
        """Means so far, and the number of proposals that were not finite."""
        return {
            name: total if name == "nonfinite_rejected" else total / self._count for name, total in self._sums.items()
        }

    def status_line(self) -> str:
        """The same for people, with the autocorrelation time."""
        if not self._count:
            return "warming up"
        values = self.metrics()
        parts = [f"acceptance {values['acceptance']:.3f}"] if "acceptance" in values else []
        if self._moment is not None:
            exact = self._exact.get(self._moment)
            beside = "" if exact is None else f" (exact {exact:.4f})"
            parts.append(f"{self._moment} {values[self._moment]:.4f}{beside}")
        if self._sector is not None:
            parts.append(f"tunnelling {values['tunnelling_rate']:.2g}")
        if self._slow is not None and len(self._series) >= 8:
            mean = self._means[self._slow]
            tau = integrated_autocorrelation_time(self._series, mean=mean)
            unresolved = not tau.resolved or math.isinf(tau.value)
            text = f"> {tau.lower_bound:.0f}" if unresolved else format_uncertainty(tau.value, tau.error)
            parts.append(f"τ({self._slow}) {text}")
        if values.get("nonfinite_rejected"):
            parts.append(f"not finite, rejected {values['nonfinite_rejected']:.0f}")
        return "  ".join(parts)
