"""Small targets of every kind, by name: the conformance tests and others run on all of them."""

from dlhmc import (
    CPN,
    U1,
    Funnel,
    GaussianMixture,
    LogDensity,
    RoughWell,
    Schwinger,
    correlated_gaussian,
    ill_conditioned_gaussian,
    wilson,
)
from guest_theories import Ring, Villain


def banana(x):
    """A curved valley."""
    return -0.5 * (x[0] ** 2 + (x[1] - x[0] ** 2) ** 2)


EXAMPLES = {
    "u1": lambda: U1((4, 6), beta=2.5, gamma=0.8),
    "u1-square": lambda: U1((4, 4), beta=1.5),
    "u2": lambda: wilson("u2", (4, 3), beta=4.0, gamma=0.8),
    "su2": lambda: wilson("su2", (2, 3, 4), beta=4.0, gamma=0.8),
    "su3": lambda: wilson("su3", (2, 2, 2, 3), beta=6.0, gamma=0.8),
    "schwinger": lambda: Schwinger((4, 6), 2.0, 0.1),
    "cpn": lambda: CPN(3, (4, 3), beta=0.7),
    "mixture": lambda: GaussianMixture(separation=2.0, variance=0.3, dim=3, gamma=0.7),
    "ill-conditioned-gaussian": lambda: ill_conditioned_gaussian(dim=5, gamma=0.8),
    "correlated-gaussian": correlated_gaussian,
    "rough-well": lambda: RoughWell(dim=3, eta=0.1, gamma=1.5),
    "funnel": lambda: Funnel(dim=3, sigma=1.5, gamma=0.9),
    "log-density": lambda: LogDensity(banana, dim=2),
    "ring": lambda: Ring(3, beta=1.5, gamma=0.8),
    "villain": lambda: Villain((4, 6), beta=1.7, gamma=0.9),
}
