"""The scales t₀ and w₀ from the energy density along the gradient flow."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq

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
    mean = CubicSpline(times, [np.mean(energy(k)[:, :]) for k in range(len(times))])
    slope = mean.derivative()

    def error(t: float, weights: Callable[[float, float], tuple[float, float]]) -> float:
        """That of the sum of the energies before and after t with weights, functions of the interval and its part."""
        k = int(np.clip(np.searchsorted(times, t) - 1, 0, len(times) - 2))
        if energy(k).shape[0] < 4:
            return np.inf
        gap = float(times[k + 1] - times[k])
        before, after = weights(gap, (t - times[k]) / gap)
        series = Mapped(lambda a, b: before * a + after * b, energy(k), energy(k + 1))
        return mean_and_error(series, equilibrium_start=equilibrium_start).error

    found: dict[str, Estimate] = {}
    t = _crossing(times, mean)
    if t is not None:
        found["t0"] = Estimate(t, error(t, lambda _, part: (1 - part, part)) / abs(float(slope(t))))
    t = _crossing(times, lambda time: time * slope(time))
    if t is not None:
        w0 = float(np.sqrt(t))
        steepness = abs(float(slope(t) + t * slope(t, 1)))
        found["w0"] = Estimate(w0, error(t, lambda gap, _: (-t / gap, t / gap)) / steepness / (2 * w0))
    return found


def _crossing(times: NDArray[np.float64], curve: Callable[[Any], Any]) -> float | None:
    """Where a curve first reaches the reference value."""
    fine = np.linspace(times[0], times[-1], 100 * len(times))
    above = np.flatnonzero(curve(fine) >= REFERENCE)
    if not len(above) or above[0] == 0:
        return None
    return float(brentq(lambda t: curve(t) - REFERENCE, fine[above[0] - 1], fine[above[0]]))
