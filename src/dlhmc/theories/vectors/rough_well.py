"""A harmonic well with a rough bottom."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from dlhmc.geometry.contract import Geometry, PerChain, sum_sites
from dlhmc.numerics import rng, trig
from dlhmc.targets.contract import Moment, Symmetry, Target
from dlhmc.theories.vectors.density import (
    REACH,
    Drawable,
    Gamma,
    Points,
    known_of,
    mean_functional,
    of_density,
    positive,
    quadrature,
    whole,
)

# cos(x/η) has no meaning in float32 for a smaller η.
_SMALLEST_ETA = 1e-4


class RoughDensity(Drawable):
    """S(x) = Σ_i x_i²/2 + η cos(x_i/η)."""

    dim: int = eqx.field(static=True)
    eta: Float[Array, ""]

    def width(self) -> Float[Array, ""]:
        return jnp.ones_like(self.eta)

    def terms(self, x: Points) -> Points:
        eta = self.eta.astype(x.dtype)
        return 0.5 * x * x + eta * trig.cos(x / eta)

    def force(self, geometry: Geometry, x: Points) -> Points:
        return x - trig.sin(x / self.eta.astype(x.dtype))

    def observe(self, x: Points) -> dict[str, PerChain]:
        """The first coordinate, |x|², and the average of cos(x_i/η)."""
        roughness = sum_sites(trig.cos(x / self.eta.astype(x.dtype))) / self.dim
        return {"x0": x[0], "squared_norm": sum_sites(x * x), "roughness": roughness}

    def symmetries(self) -> dict[str, Symmetry]:
        return {"point reflection": Symmetry(lambda _, x: -x, frozenset({"x0"}))}

    def functions(self, x: Points) -> dict[str, PerChain]:
        """The first coordinate, its fourth power, and its wave sin(x₀/η)."""
        return {"x0": x[0], "x0 to the fourth": x[0] ** 4, "wave": trig.sin(x[0] / self.eta.astype(x.dtype))}

    def exact(self, gamma: float) -> dict[str, float]:
        """Integrals over one coordinate: the others are the same, and all are independent."""
        eta, sigma = float(self.eta), 1 / math.sqrt(gamma)
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

    def draw(self, key: Key[Array, ""], gamma: Gamma, chains: int, dtype: jnp.dtype) -> Points:
        """Rejection from the normal of variance 1/γ, coordinate by coordinate: accept with e^{−γη (1 + cos(x/η))}."""
        eta = self.eta.astype(dtype)

        def propose(key: Key[Array, ""]) -> tuple[Points, Points]:
            x = rng.normal(key, (self.dim, chains), dtype) / jnp.sqrt(gamma)
            return x, -gamma * eta * (1 + trig.cos(x / eta))

        return rng.first_accepted(key, propose)


_MOMENTS = {
    "x0_squared": Moment("x0", 2),
    "squared_norm": Moment("squared_norm"),
    "roughness": Moment("roughness"),
}
_KNOWN = known_of(_MOMENTS, ["x0"])


def RoughWell(dim: int = 2, eta: ArrayLike = 1e-2, gamma: ArrayLike = 1.0) -> Target:  # noqa: N802
    """Hardly more than a standard normal, but its force is rough at scale η.

    >>> target = RoughWell(dim=2, eta=0.01)
    >>> round(target.exact()["squared_norm"], 4), round(target.exact()["roughness"], 6)
    (2.0, -0.005)
    """
    return of_density(RoughDensity(whole("dim", dim, 1), positive("eta", eta, least=_SMALLEST_ETA)), _KNOWN, gamma)
