"""Numbers with an error, or with the limits that are all that is known of them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dlhmc.statistics.autocorrelation import ONE_SIDED_SIGMA, AutocorrelationTime


@dataclass(frozen=True)
class Quantity:
    """A value with its error; or, where there is none, one-sided limits at 95 % as far as they are known."""

    value: float | None = None
    error: float | None = None
    lower: float | None = None
    upper: float | None = None

    @classmethod
    def measured(cls, value: float, error: float) -> "Quantity":
        """A value, with the limits that follow."""
        margin = ONE_SIDED_SIGMA * error
        return cls(value, error, max(0.0, value - margin), value + margin)

    @classmethod
    def of_time(cls, tau: AutocorrelationTime) -> "Quantity":
        """τ_int, or its lower limit where it is not resolved."""
        return cls.measured(tau.value, tau.error) if tau.resolved else cls(lower=tau.lower_bound)

    @property
    def figure(self) -> float | None:
        """The value, or the lower limit in its place."""
        return self.lower if self.value is None else self.value

    @property
    def relative(self) -> float:
        """The relative error of a value."""
        return self.error / self.value if self.value and self.error is not None else 0.0

    def times(self, factor: float, relative: float = 0.0) -> "Quantity":
        """Multiplied by a factor with an independent relative error."""
        if self.value is None:
            lower = None if self.lower is None else self.lower * factor
            upper = None if self.upper is None else self.upper * factor
            return Quantity(lower=lower, upper=upper)
        value = self.value * factor
        return Quantity.measured(value, value * math.hypot(self.relative, relative))


NOTHING = Quantity()


def ratio(reference: Quantity, own: Quantity) -> Quantity:
    """How many times more the reference costs: a value if both are, else a limit."""
    if reference.value is not None and own.value:
        value = reference.value / own.value
        return Quantity.measured(value, value * math.hypot(reference.relative, own.relative))
    if own.value and own.upper and reference.lower is not None:
        return Quantity(lower=reference.lower / own.upper)
    if own.lower and reference.upper is not None:
        return Quantity(upper=reference.upper / own.lower)
    return NOTHING


def largest(quantities: Iterable[Quantity]) -> Quantity:
    """One that is only limited counts as larger than any value."""
    return max(quantities, key=lambda one: (one.value is None, one.figure or 0.0), default=NOTHING)


def median(values: Iterable[float]) -> Quantity:
    """With its error; unlike a mean, it forgets bursts of noise."""
    numbers = np.asarray(list(values), np.float64)
    middle = float(np.median(numbers))
    # 1.4826 × the median deviation estimates σ; the error of a median is √(π/2) times that of a mean.
    spread = 1.4826 * float(np.median(np.abs(numbers - middle)))
    return Quantity.measured(middle, math.sqrt(math.pi / 2 / numbers.size) * spread)
