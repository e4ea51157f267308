"""A harmonic well with a rough bottom."""

import math
from collections.abc import Mapping
from typing import ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from numpy.typing import ArrayLike

from dlhmc.geometry.contract import PerChain, sum_sites
from dlhmc.numerics import rng, trig
from dlhmc.targets.contract import Moment, Symmetry
from dlhmc.theories.vectors.euclidean import (
    REACH,
    Euclidean,
    Points,
    mean_functional,
    positive,
    quadrature,
    whole,
)

# cos(x/η) has no meaning in float32 for a smaller η.
_SMALLEST_ETA = 1e-4


class RoughWell(Euclidean):
    """S(x) = Σ_i x_i²/2 + η cos(x_i/η): hardly more than a standard normal, but its force is rough at scale η.

    >>> target = RoughWell(dim=2, eta=0.01)
    >>> round(target.exact()["squared_norm"], 4), round(target.exact()["roughness"], 6)
    (2.0, -0.005)
    """

    moments: ClassVar[Mapping[str, Moment]] = {
        "x0_squared": Moment("x0", 2),
        "squared_norm": Moment("squared_norm"),
        "roughness": Moment("roughness"),
    }
    slow: ClassVar[Mapping[str, float | None]] = {"x0": 0.0}

    dim: int = eqx.field(static=True)
    eta: Float[Array, ""]
    gamma: Float[Array, ""]

    def __init__(self, dim: int = 2, eta: ArrayLike = 1e-2, gamma: ArrayLike = 1.0) -> None:
        self.dim, self.gamma = whole("dim", dim, 1), positive("gamma", gamma)
        self.eta = positive("eta", eta, least=_SMALLEST_ETA)

    def _spread(self) -> Float[Array, ""]:
        return jnp.ones_like(self.eta)

    def local_action(self, x: Points) -> Points:
        """γ (x²/2 + η cos(x/η)) for each coordinate."""
        eta = self.eta.astype(x.dtype)
        return self.gamma.astype(x.dtype) * (0.5 * x * x + eta * trig.cos(x / eta))

    def force(self, x: Points) -> Points:
        """∂S/∂x = γ (x − sin(x/η))."""
        return self.gamma.astype(x.dtype) * (x - trig.sin(x / self.eta.astype(x.dtype)))

    def observables(self, x: Points) -> dict[str, PerChain]:
        """The first coordinate, |x|², and the average of cos(x_i/η)."""
        roughness = sum_sites(trig.cos(x / self.eta.astype(x.dtype))) / self.dim
        return {"x0": x[0], "squared_norm": sum_sites(x * x), "roughness": roughness}

    def symmetries(self) -> dict[str, Symmetry]:
        """x → −x."""
        return {"point reflection": Symmetry(lambda _, x: -x, frozenset({"x0"}))}

    def test_functions(self, x: Points) -> dict[str, PerChain]:
        """The moments, the first coordinate, its fourth power, and its wave sin(x₀/η)."""
        wave = trig.sin(x[0] / self.eta.astype(x.dtype))
        return super().test_functions(x) | {"x0": x[0], "x0 to the fourth": x[0] ** 4, "wave": wave}

    def exact(self) -> dict[str, float]:
        """Integrals over one coordinate: the others are the same, and all are independent."""
        eta, gamma = float(self.eta), float(self.gamma)
        sigma = 1 / math.sqrt(gamma)
        x, weight = quadrature(0.0, REACH * sigma, min(eta, sigma))
        mean = mean_functional(x, weight, -gamma * (0.5 * x**2 + eta * np.cos(x / eta)))
        return {
            "x0_squared": mean(np.square),
            "squared_norm": self.dim * mean(np.square),
            "roughness": mean(lambda x: np.cos(x / eta)),
            "x0": 0.0,
            "x0 to the fourth": mean(lambda x: x**4),
            "wave": 0.0,
        }

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Points:
        """Rejection from the normal of variance 1/γ, coordinate by coordinate: accept with e^{−γη (1 + cos(x/η))}."""
        gamma, eta = self.gamma.astype(dtype), self.eta.astype(dtype)

        def propose(key: Key[Array, ""]) -> tuple[Points, Points]:
            x = rng.normal(key, (self.dim, chains), dtype) / jnp.sqrt(gamma)
            return x, -gamma * eta * (1 + trig.cos(x / eta))

        return rng.first_accepted(key, propose)

    def exact_draws(self) -> Self:
        """Itself: see `draw`."""
        return self
