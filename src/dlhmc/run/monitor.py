"""Running figures of a sampling run, for the progress line and metrics.jsonl; bounded memory."""

import math
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlhmc.statistics import format_uncertainty, integrated_autocorrelation_time
from dlhmc.targets.contract import Target

Rows = dict[str, NDArray[Any]]
# So that the memory of a run does not go up and down with the number of recent rows.


class RecentRows:
    """The last `capacity` rows of a series at a stride that can be doubled.

    They are in one array from the first row on: rows that are kept one by one, each for a long time, would leave holes
    all over the memory of the process.
    """

    def __init__(self, capacity: int = 2048) -> None:
        self.stride = 1
        self._seen = 0
        self._capacity = capacity
        self._count = 0
        self._buffer = np.empty((0, 0))

    def extend(self, rows: NDArray[Any]) -> None:
        """Take in new rows."""
        if not len(self._buffer):
            self._buffer = np.empty((self._capacity, *rows.shape[1:]), rows.dtype)
        new = rows[-self._seen % self.stride :: self.stride][-self._capacity :]
        pushed_out = max(0, self._count + len(new) - self._capacity)
        self._keep(self.array()[pushed_out:], new)
        self._seen += len(rows)

    @property
    def full(self) -> bool:
        """Whether new rows push out old ones."""
        return self._count == self._capacity

    def thin(self) -> None:
        """Double the stride: every other row stays, and the rows will span twice the time."""
        newest = (self._seen - 1) // self.stride  # number of the newest row at the stride until now
        oldest = newest - self._count + 1
        self._keep(self.array()[oldest % 2 :: 2])
        self.stride *= 2

    def _keep(self, *parts: NDArray[Any]) -> None:
        """These rows, of the buffer or new ones, and no others."""
        self._count = 0
        for part in parts:
            self._buffer[self._count : self._count + len(part)] = part
            self._count += len(part)

    def array(self) -> NDArray[Any]:
        """The rows, oldest first, until new ones come."""
        return self._buffer[: self._count]


class Monitor:
    """Sums over what has been measured since the run was started or resumed.

    Of the moments and of the slow observables it follows the first that is a number.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._exact = target.exact()
        self._moment: str | None = None
        self._slow: str | None = None
        self._series = RecentRows()
        self._last_sector: NDArray[Any] | None = None
        self._count = 0
        self._sums: defaultdict[str, float] = defaultdict(float)

    def add(self, rows: Rows) -> None:
        """Take in the records of a chunk."""
        if not self._count:
            numbers = {name for name, values in rows.items() if values.ndim == 2}
            moments = self._target.known.moments.items()
            self._moment = next((name for name, (observable, _) in moments if observable in numbers), None)
            self._slow = next((name for name in self._target.known.slow(self._target) if name in numbers), None)
        row = next(iter(rows.values()))
        self._count += row.shape[0] * row.shape[-1]
        for name in rows.keys() & {"accepted", "nonfinite"}:
            self._sums[name] += float(rows[name].sum(dtype=np.int64))
        if self._moment is not None:
            observable, power = self._target.known.moments[self._moment]
            self._sums["moment"] += float((rows[observable].astype(np.float64) ** power).sum())
        if self._target.known.sector is not None:
            sectors = rows[self._target.known.sector]
            before = sectors[:1] if self._last_sector is None else self._last_sector
            self._sums["tunnellings"] += float(np.count_nonzero(np.diff(np.concatenate([before, sectors]), axis=0)))
            self._last_sector = sectors[-1:].copy()  # a view would keep the whole chunk in memory
        if self._slow is not None:
            self._series.extend(rows[self._slow])

    def metrics(self) -> dict[str, float]:
        """Means so far."""
        if not self._count:
            return {}
        values = {}
        if "accepted" in self._sums:
            values["acceptance"] = self._sums["accepted"] / self._count
        if "nonfinite" in self._sums:
            values["nonfinite_rejected"] = self._sums["nonfinite"]
        if self._moment is not None:
            values[self._moment] = self._sums["moment"] / self._count
        if self._target.known.sector is not None:
            values["tunnelling_rate"] = self._sums["tunnellings"] / self._count
        return values

    def status_line(self) -> str:
        """The same for people, with the autocorrelation time so far."""
        if not self._count:
            return "warming up"
        values = self.metrics()
        parts = [f"acceptance {values['acceptance']:.3f}"] if "acceptance" in values else []
        if self._moment is not None:
            exact = self._exact.get(self._moment)
            beside = "" if exact is None else f" (exact {exact:.4f})"
            parts.append(f"{self._moment} {values[self._moment]:.4f}{beside}")
        if self._target.known.sector is not None:
            parts.append(f"tunnelling {values['tunnelling_rate']:.2g}")
        if self._slow is not None:
            parts.append(f"τ({self._slow}) {self._tau()}")
        if values.get("nonfinite_rejected"):
            parts.append(f"not finite, rejected {values['nonfinite_rejected']:.0f}")
        return "  ".join(parts)

    def _tau(self) -> str:
        series = self._series.array()
        if self._slow is None or len(series) < 8:
            return "…"
        tau = integrated_autocorrelation_time(series, mean=self._target.known.slow(self._target)[self._slow])
        stride = self._series.stride
        # The shortest stride at which the time can be measured: a longer one cannot see a time below itself.
        if not tau.resolved and self._series.full:
            self._series.thin()
        if not tau.resolved or math.isinf(tau.value):
            return f"> {tau.lower_bound * stride:.0f}"
        return format_uncertainty(tau.value * stride, tau.error * stride)
