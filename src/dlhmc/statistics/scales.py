"""The scales t₀ and w₀ from the energy density along the gradient flow."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlhmc.statistics import Estimate, Series, mean_and_error
from dlhmc.statistics.autocorrelation import Mapped

#: t²E at t₀, and t·d(t²E)/dt at w₀²
REFERENCE = 0.3


def reference_scales(
    times: NDArray[np.float64], energy: Callable[[int], Series], *, equilibrium_start: bool = False
) -> Mapping[str, Estimate]:
    """t₀ with ⟨t²E⟩ = 0.3 and w₀ with t·d⟨t²E⟩/dt = 0.3 at t = w₀², in lattice units; left out where not reached.

    `energy(k)` are the measurements [trajectory, chain] of t²E at the k-th time. The mean is interpolated by a spline.
    The errors are those of the mean at that place, divided by the slope.
    """
    if len(times) < 4:
        return {}
    from scipy.interpolate import CubicSpline  # takes a while, and a report only needs the reference

    mean = CubicSpline(times, [np.mean(energy(k)[:, :]) for k in range(len(times))])
    slope = mean.derivative()
    found: dict[str, Estimate] = {}

    def between(t: float, function: Callable[[Any, Any, float], Any]) -> float:
        """The error of a function of the energies at the times before and after t."""
        k = int(np.clip(np.searchsorted(times, t) - 1, 0, len(times) - 2))
        fraction = (t - times[k]) / (times[k + 1] - times[k])
        if energy(k).shape[0] < 4:
            return np.inf
        series = Mapped(lambda a, b: function(a, b, fraction), energy(k), energy(k + 1))
        return mean_and_error(series, equilibrium_start=equilibrium_start).error

    if (t := _crossing(times, mean)) is not None:
        error = between(t, lambda a, b, fraction: a + fraction * (b - a)) / abs(float(slope(t)))
        found["t0"] = Estimate(t, error)
    if (t := _crossing(times, lambda time: time * slope(time))) is not None:
        steepness = abs(float(slope(t) + t * slope(t, 1)))
        gap = float(np.diff(times)[np.clip(np.searchsorted(times, t) - 1, 0, len(times) - 2)])
        error = between(t, lambda a, b, _: t * (b - a) / gap) / steepness
        found["w0"] = Estimate(float(np.sqrt(t)), error / (2 * float(np.sqrt(t))))
    return found


def _crossing(times: NDArray[np.float64], curve: Callable[[Any], Any]) -> float | None:
    """Where a curve first reaches the reference value."""
    fine = np.linspace(times[0], times[-1], 100 * len(times))
    above = np.flatnonzero(curve(fine) >= REFERENCE)
    if not len(above) or above[0] == 0:
        return None
    low, high = fine[above[0] - 1], fine[above[0]]
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) < REFERENCE else (low, middle)
    return float(high)
