"""Masses in correlators of periodic lattices: Σ_k A_k cosh(M_k(L/2 − t)) of one or two states, averaged over fits.

A fit to the times from `first` on has the weight exp(−(χ² + 2k + 2n)/2), with k parameters and n times left out
(W. I. Jay, E. T. Neil, Phys. Rev. D 103 (2021) 114502). The spread of the fits is part of the error: what heavier
states leave in one of them is in no statistical error.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from dlhmc.statistics import Estimate, Series, mean_and_error
from dlhmc.statistics.autocorrelation import BLOCK_SAMPLES, Mapped, blocks

FloatArray = NDArray[np.float64]

# A correlator is lost in its noise where it is smaller than so many errors.
_SIGNAL = 3.0
# Correlations between times are close to 1, and those of numbers in single precision known no better.
_SMALLEST_EIGENVALUE = 1e-6
# Two states that do not lower χ² by what their parameters cost are not told apart, and their masses undetermined.
_IMPROVEMENT = 4.0
_LARGEST_ERROR = 0.5


class Mass(NamedTuple):
    """A mass, and from which time on one state describes the correlator best."""

    mass: Estimate
    first: int


class _Fit(NamedTuple):
    first: int
    #: ln A_k and ln(M_k − M_{k−1}), in turn
    parameters: FloatArray
    #: ∂M/∂C(t) from `first` on
    gradient: FloatArray
    #: of the mass, without autocorrelations
    error: float
    #: χ²
    square: float

    @property
    def mass(self) -> float:
        return float(np.exp(self.parameters[1]))

    @property
    def information(self) -> float:
        return self.square + 2 * len(self.parameters) + 2 * self.first


def masses(
    correlators: Mapping[str, Callable[[int], Series]], points: int, *, equilibrium_start: bool = False
) -> dict[str, Estimate]:
    """`{name}_mass` and `{name}_fit_from` of each correlator; left out where nothing can be fitted."""
    found: dict[str, Estimate] = {}
    for name, correlator in correlators.items():
        fitted = average_mass([correlator(t) for t in range(points)], equilibrium_start=equilibrium_start)
        if fitted is not None:
            found |= {f"{name}_mass": fitted.mass, f"{name}_fit_from": Estimate(fitted.first, 0.0)}
    return found


def average_mass(correlator: list[Series], *, equilibrium_start: bool = False) -> Mass | None:
    """The smallest mass in a correlator of which the measurements [trajectory, chain] at t = 0 … L/2 are given.

    The least squares are weighted with Γ-method errors and the correlations between times. The statistical error is
    that of the averaged mass as a function of the means, to first order: the Γ-method sees M + Σ_t ∂M/∂C(t) (C_t −
    C(t)), so that autocorrelations and covariances are in it whatever these weights.
    """
    estimates = [mean_and_error(series, equilibrium_start=equilibrium_start) for series in correlator]
    mean, error = (np.array([getattr(e, name) for e in estimates]) for name in ("value", "error"))
    signal = np.isfinite(error) & (error > 0) & (mean > _SIGNAL * error)
    last = len(mean) if signal[1:].all() else int(np.argmin(signal[1:])) + 1
    if np.prod(correlator[0].shape) < 10 * len(mean) or last < 4:
        return None
    fits = _fits(mean[:last], error[:last], _correlation(correlator[:last], mean[:last]), len(mean) - 1)
    information = np.array([fit.information for fit in fits])
    weights = np.exp((information.min() - information) / 2)
    weights /= weights.sum()
    found = np.array([fit.mass for fit in fits])
    mass = float(weights @ found)
    gradient = np.zeros(last)
    for weight, fit in zip(weights, fits, strict=True):
        gradient[fit.first :] += weight * fit.gradient

    def fluctuating(*parts: FloatArray) -> FloatArray:
        return mass + sum(g * (part - m) for g, part, m in zip(gradient, parts, mean[:last], strict=True))

    series = Mapped(fluctuating, *correlator[:last])
    statistical = mean_and_error(series, equilibrium_start=equilibrium_start).error
    spread = np.sqrt(weights @ (found - mass) ** 2)
    alone = min((fit for fit in fits if len(fit.parameters) == 2), key=lambda fit: fit.information)
    return Mass(Estimate(mass, float(np.hypot(statistical, spread))), alone.first)


def _fits(mean: FloatArray, error: FloatArray, correlation: FloatArray, half: int) -> list[_Fit]:
    """Those of one state to three times or more, and those of two states to five or more that tell them apart."""
    one: dict[int, _Fit] = {}
    two = []
    for first in reversed(range(1, len(mean) - 2)):
        window = slice(first, len(mean))
        time = half - np.arange(first, len(mean), dtype=np.float64)
        whitening = _whitening(correlation[window, window], error[window])
        mass = np.arccosh(max(mean[first] / mean[-1], 1 + 1e-6)) / time[0]
        one[first] = _least_squares(first, time, mean[window], whitening, [np.log(mean[-1]), np.log(mass)])
        if len(time) >= 5:
            tail = one[first + len(time) // 2 - 1]
            rest = max(mean[first] - _curves(tail.parameters, time).sum(axis=0)[0], 0.01 * mean[first])
            heavier = [np.log(rest) - 3 * tail.mass * time[0], np.log(2 * tail.mass)]
            fit = _least_squares(first, time, mean[window], whitening, [*tail.parameters, *heavier])
            if fit.square < one[first].square - _IMPROVEMENT and fit.error < _LARGEST_ERROR * fit.mass:
                two.append(fit)
    return [*one.values(), *two]


def _curves(parameters: FloatArray, time: FloatArray) -> FloatArray:
    mass = np.cumsum(np.exp(parameters[1::2]))
    return np.exp(parameters[::2])[:, None] * np.cosh(np.outer(mass, time))


def _least_squares(
    first: int, time: FloatArray, mean: FloatArray, whitening: FloatArray, start: Sequence[float]
) -> _Fit:
    def residuals(p: FloatArray) -> FloatArray:
        return whitening @ (_curves(p, time).sum(axis=0) - mean)

    def jacobian(p: FloatArray) -> FloatArray:
        curves = _curves(p, time)
        mass = np.cumsum(np.exp(p[1::2]))
        slopes = curves * time * np.tanh(np.outer(mass, time))
        # M_k is a sum of differences: the k-th one moves all from it on.
        moved = np.cumsum(slopes[::-1], axis=0)[::-1] * np.exp(p[1::2])[:, None]
        return whitening @ np.stack([curves, moved], axis=1).reshape(len(p), -1).T

    # Masses below e^{-10} or above 10 make no difference, and cosh overflows.
    low = np.tile([-np.inf, -10.0], len(start) // 2)
    high = np.tile([np.inf, np.log(10.0)], len(start) // 2)
    found = least_squares(residuals, np.clip(start, low, high), jacobian, (low, high), x_scale="jac", max_nfev=100)
    slope = np.exp(found.x[1]) * np.linalg.pinv(jacobian(found.x))[1]
    return _Fit(first, found.x, slope @ whitening, float(np.linalg.norm(slope)), float(2 * found.cost))


def _correlation(correlator: list[Series], mean: FloatArray) -> FloatArray:
    """The matrix of correlations between times, read a few chains at a time."""
    number = len(correlator)
    covariance = np.zeros((number, number))
    for parts in zip(*(blocks(series, BLOCK_SAMPLES // number) for series in correlator), strict=True):
        away = np.stack([part.ravel() for part in parts]) - mean[:, None]
        covariance += away @ away.T
    size = np.sqrt(np.maximum(np.diag(covariance), np.finfo(np.float64).tiny))
    return covariance / np.multiply.outer(size, size)


def _whitening(correlation: FloatArray, error: FloatArray) -> FloatArray:
    """W with WᵀW the inverse of the covariance of the means."""
    values, vectors = np.linalg.eigh(correlation)
    values = np.maximum(values, _SMALLEST_EIGENVALUE * values[-1])
    return (vectors / np.sqrt(values)).T / error
