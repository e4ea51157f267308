"""Masses of mesons: A cosh(M(L/2 − t)) fitted to the means of a correlator, with the correlations between all times."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import chdtrc

from dlhmc.statistics import Estimate, Series, mean_and_error
from dlhmc.statistics.autocorrelation import BLOCK_SAMPLES, Mapped, blocks

FloatArray = NDArray[np.float64]

# A correlator is lost in its noise where it is smaller than so many errors.
_SIGNAL = 3.0
# The fit begins at the first time from which on a cosh describes the data: a fit that is worse is this improbable.
_PROBABILITY = 0.05
# One degree of freedom.
_FEWEST = 3
# Correlations between times are close to 1, and those of numbers in single precision known no better.
_SMALLEST_EIGENVALUE = 1e-6


class Fit(NamedTuple):
    """A mass, and from which time on the correlator was fitted."""

    mass: Estimate
    first: int


def masses(
    correlators: Mapping[str, Callable[[int], Series]], points: int, *, equilibrium_start: bool = False
) -> dict[str, Estimate]:
    """`{name}_mass` and `{name}_fit_from` of each correlator; left out where nothing can be fitted."""
    found: dict[str, Estimate] = {}
    for name, correlator in correlators.items():
        fit = cosh_fit([correlator(t) for t in range(points)], equilibrium_start=equilibrium_start)
        if fit is not None:
            found |= {f"{name}_mass": fit.mass, f"{name}_fit_from": Estimate(fit.first, 0.0)}
    return found


def cosh_fit(correlator: list[Series], *, equilibrium_start: bool = False) -> Fit | None:
    """The mass in a correlator of which the measurements [trajectory, chain] at t = 0 … L/2 are given.

    The least squares are weighted with Γ-method errors and the correlations between times. The error is that of the
    fitted mass as a function of the means, to first order: the Γ-method sees M + Σ_t ∂M/∂C(t) (C_t − C(t)), so that
    autocorrelations and covariances are in it whatever the weights.
    """
    estimates = [mean_and_error(series, equilibrium_start=equilibrium_start) for series in correlator]
    mean, error = (np.array([getattr(e, name) for e in estimates]) for name in ("value", "error"))
    signal = np.isfinite(error) & (error > 0) & (mean > _SIGNAL * error)
    last = len(mean) if signal[1:].all() else int(np.argmin(signal[1:])) + 1
    if np.prod(correlator[0].shape) < 10 * len(mean):
        return None
    correlation = _correlation(correlator, mean)
    for first in range(1, last - _FEWEST + 1):
        window = slice(first, last)
        weights = _whitening(correlation[window, window], error[window])
        from_middle = np.arange(len(mean) - 1, -1, -1, dtype=np.float64)[window]
        mass, gradient, square = _least_squares(from_middle, mean[window], weights)
        if chdtrc(last - first - 2, square) >= _PROBABILITY or first == last - _FEWEST:
            series = _linear(mass, gradient, mean[window], correlator[window])
            return Fit(Estimate(mass, mean_and_error(series, equilibrium_start=equilibrium_start).error), first)
    return None


def _linear(mass: float, gradient: FloatArray, mean: FloatArray, correlator: list[Series]) -> Mapped:
    def fluctuating(*parts: FloatArray) -> FloatArray:
        return mass + sum(g * (part - m) for g, part, m in zip(gradient, parts, mean, strict=True))

    return Mapped(fluctuating, *correlator)


def _correlation(correlator: list[Series], mean: FloatArray) -> FloatArray:
    """The matrix of correlations between times, read a few chains at a time."""
    number = len(correlator)
    width = max(1, BLOCK_SAMPLES // (number * correlator[0].shape[0]))
    covariance = np.zeros((number, number))
    for parts in zip(*(blocks(series, width) for series in correlator), strict=True):
        away = np.stack([part.ravel() for part in parts]) - mean[:, None]
        covariance += away @ away.T
    size = np.sqrt(np.maximum(np.diag(covariance), np.finfo(np.float64).tiny))
    return covariance / np.multiply.outer(size, size)


def _whitening(correlation: FloatArray, error: FloatArray) -> FloatArray:
    """W with WᵀW the inverse of the covariance of the means."""
    values, vectors = np.linalg.eigh(correlation)
    values = np.maximum(values, _SMALLEST_EIGENVALUE * values[-1])
    return (vectors / np.sqrt(values)).T / error


def _least_squares(time: FloatArray, mean: FloatArray, weights: FloatArray) -> tuple[float, FloatArray, float]:
    """M, ∂M/∂C(t) and χ² of A cosh(M·time), `time` counted from the middle."""

    def curve(logarithm: float, mass: float) -> FloatArray:
        return np.exp(logarithm) * np.cosh(mass * time)

    def slopes(logarithm: float, mass: float) -> FloatArray:
        return np.stack([curve(logarithm, mass), np.exp(logarithm) * time * np.sinh(mass * time)], axis=1)

    start = (np.log(mean[-1]), np.arccosh(max(mean[0] / mean[-1], 1 + 1e-6)) / max(time[0], 1.0))

    def residuals(p: FloatArray) -> FloatArray:
        return weights @ (curve(p[0], p[1]) - mean)

    def jacobian(p: FloatArray) -> FloatArray:
        return weights @ slopes(p[0], p[1])

    found = least_squares(residuals, start, jacobian, x_scale="jac")
    sensitivity = np.linalg.pinv(jacobian(found.x)) @ weights
    sign = np.copysign(1.0, found.x[1])  # cosh does not know it
    return abs(float(found.x[1])), sign * sensitivity[1], float(2 * found.cost)
