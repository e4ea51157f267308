"""Neal's funnel: a width that changes by orders of magnitude."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key
from scipy import special

from dlhmc.geometry.contract import Geometry, PerChain, sum_sites
from dlhmc.numerics import rng
from dlhmc.targets.contract import Moment, Symmetry, Target
from dlhmc.theories.vectors.density import (
    REACH,
    Drawable,
    Gamma,
    Host,
    Points,
    known_of,
    mean_functional,
    of_density,
    positive,
    quadrature,
    whole,
)


class FunnelDensity(Drawable):
    """S = v²/2σ² + Σ_i (e^{−v} x_i² + v)/2 of the point (v, x₁, …, x_n)."""

    dim: int = eqx.field(static=True)
    sigma: Float[Array, ""]

    def width(self) -> Float[Array, ""]:
        return self.sigma

    def terms(self, x: Points) -> Points:
        v, rest = x[0], x[1:]
        neck = (v / self.sigma.astype(x.dtype)) ** 2
        return 0.5 * jnp.concatenate([neck[None], jnp.exp(-v) * rest * rest + v])

    def force(self, geometry: Geometry, x: Points) -> Points:
        """∂S/∂v = v/σ² + Σ_i (1 − e^{−v} x_i²)/2 and ∂S/∂x_i = e^{−v} x_i."""
        v, rest, sigma = x[0], x[1:], self.sigma.astype(x.dtype)
        scaled = jnp.exp(-v) * rest
        along_v = v / (sigma * sigma) + 0.5 * sum_sites(1 - scaled * rest)
        return jnp.concatenate([along_v[None], scaled])

    def observe(self, x: Points) -> dict[str, PerChain]:
        """The width's logarithm v, tanh x₁, the fraction of |x_i| < 1, and the average of e^{−v} x_i²."""
        v, rest = x[0], x[1:]
        return {
            "v": v,
            "tanh_x1": jnp.tanh(x[1]),
            "inside": jnp.mean((jnp.abs(rest) < 1).astype(x.dtype), axis=0),
            "scaled_square": sum_sites(jnp.exp(-v) * rest * rest) / (self.dim - 1),
        }

    def symmetries(self) -> dict[str, Symmetry]:
        """x_i → −x_i for all i, at the same v."""
        return {"reflection": Symmetry(lambda _, x: x.at[1:].multiply(-1), frozenset({"tanh_x1"}))}

    def functions(self, x: Points) -> dict[str, PerChain]:
        """Tanh x₁, and how v and the x_i depend on each other."""
        found = self.observe(x)
        return {"tanh_x1": found["tanh_x1"], "v inside": found["v"] * found["inside"]}

    def exact(self, gamma: float) -> dict[str, float]:
        """Integrals over v, with P(|x_i| < 1 | v) = erf(e^{−v/2} √(γ/2))."""
        variance = float(self.sigma) ** 2 / gamma
        centre = 0.5 * (1 - gamma) * (self.dim - 1) * variance
        z, weight = quadrature(-REACH, REACH, 0.02)
        mean = mean_functional(centre + math.sqrt(variance) * z, weight, -0.5 * z**2)

        def inside(v: Host) -> Host:
            scale = np.exp(-0.5 * np.maximum(v, -1000))  # erf is 1 long before e^500
            return np.asarray(special.erf(scale * math.sqrt(0.5 * gamma)))

        return {
            "v": centre,
            "v_squared": centre**2 + variance,
            "inside": mean(inside),
            "scaled_square": 1 / gamma,
            "tanh_x1": 0.0,
            "v inside": mean(lambda v: v * inside(v)),
        }

    def draw(self, key: Key[Array, ""], gamma: Gamma, chains: int, dtype: jnp.dtype) -> Points:
        """First v ~ N((1 − γ) n σ²/2γ, σ²/γ), then the x_i ~ N(0, e^v/γ)."""
        variance = self.sigma.astype(dtype) ** 2 / gamma
        z = rng.normal(key, (self.dim, chains), dtype)
        v = 0.5 * (1 - gamma) * (self.dim - 1) * variance + jnp.sqrt(variance) * z[0]
        return jnp.concatenate([v[None], jnp.exp(0.5 * v) * z[1:] / jnp.sqrt(gamma)])


_MOMENTS = {
    "v": Moment("v"),
    "v_squared": Moment("v", 2),
    "inside": Moment("inside"),
    "scaled_square": Moment("scaled_square"),
}
_KNOWN = known_of(_MOMENTS, ["v"])


def Funnel(dim: int = 10, sigma: ArrayLike = 3.0, gamma: ArrayLike = 1.0) -> Target:  # noqa: N802
    """Neal's funnel: v ~ N(0, σ²) and x_i | v ~ N(0, e^v), with n = dim − 1 of the x_i.

    What is measured of x is bounded or scaled: x² itself has a variance of order e^{2σ²}.

    >>> target = Funnel(dim=10)
    >>> round(target.exact()["v_squared"], 6), round(target.exact()["inside"], 4)
    (9.0, 0.6223)
    """
    return of_density(FunnelDensity(whole("dim", dim, 2), positive("sigma", sigma)), _KNOWN, gamma)
