"""Neal's funnel: a width that changes by orders of magnitude."""

import math
from collections.abc import Mapping
from typing import ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dlhmc.geometry.contract import PerChain, sum_sites
from dlhmc.numerics import rng
from dlhmc.targets.contract import Moment, Symmetry
from dlhmc.theories.vectors.euclidean import REACH, Euclidean, Points, mean_functional, positive, quadrature, whole


class Funnel(Euclidean):
    """Neal's funnel: v ~ N(0, σ²) and x_i | v ~ N(0, e^v), so S = v²/2σ² + Σ_i (e^{−v} x_i² + v)/2.

    The point is (v, x₁, …, x_n) with n = dim − 1. To the power γ it is a funnel still: v ~ N((1 − γ) n σ²/2γ, σ²/γ)
    and x_i | v ~ N(0, e^v/γ). What is measured of x is bounded or scaled: x² itself has a variance of order e^{2σ²}.

    >>> target = Funnel(dim=10)
    >>> round(target.exact()["v_squared"], 6), round(target.exact()["inside"], 4)
    (9.0, 0.6223)
    """

    moments: ClassVar[Mapping[str, Moment]] = {
        "v": Moment("v"),
        "v_squared": Moment("v", 2),
        "inside": Moment("inside"),
        "scaled_square": Moment("scaled_square"),
    }

    dim: int = eqx.field(static=True)
    sigma: Float[Array, ""]
    gamma: Float[Array, ""]

    def __init__(self, dim: int = 10, sigma: ArrayLike = 3.0, gamma: ArrayLike = 1.0) -> None:
        self.dim = whole("dim", dim, 2)
        self.sigma, self.gamma = positive("sigma", sigma), positive("gamma", gamma)

    @property
    def slow(self) -> Mapping[str, float]:  # type: ignore[override]
        """The width's logarithm v, whose mean is 0 at γ = 1."""
        return {"v": self.exact()["v"]}

    def _spread(self) -> Float[Array, ""]:
        return self.sigma

    def local_action(self, x: Points) -> Points:
        """γ v²/2σ², then γ (e^{−v} x_i² + v)/2 for each x_i."""
        gamma, sigma = self.gamma.astype(x.dtype), self.sigma.astype(x.dtype)
        v, rest = x[0], x[1:]
        neck = (v / sigma) * (v / sigma)
        return (0.5 * gamma) * jnp.concatenate([neck[None], jnp.exp(-v) * rest * rest + v])

    def force(self, x: Points) -> Points:
        """∂S/∂v = γ (v/σ² + Σ_i (1 − e^{−v} x_i²)/2) and ∂S/∂x_i = γ e^{−v} x_i."""
        gamma, sigma = self.gamma.astype(x.dtype), self.sigma.astype(x.dtype)
        v, rest = x[0], x[1:]
        scaled = jnp.exp(-v) * rest
        along_v = v / (sigma * sigma) + 0.5 * sum_sites(1 - scaled * rest)
        return gamma * jnp.concatenate([along_v[None], scaled])

    def observables(self, x: Points) -> dict[str, PerChain]:
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

    def test_functions(self, x: Points) -> dict[str, PerChain]:
        """The moments, tanh x₁, and how v and the x_i depend on each other."""
        observables = self.observables(x)
        return super().test_functions(x) | {
            "tanh_x1": observables["tanh_x1"],
            "v inside": observables["v"] * observables["inside"],
        }

    def exact(self) -> dict[str, float]:
        """Integrals over v, with P(|x_i| < 1 | v) = erf(e^{−v/2} √(γ/2))."""
        gamma, variance = float(self.gamma), float(self.sigma) ** 2 / float(self.gamma)
        centre = 0.5 * (1 - gamma) * (self.dim - 1) * variance
        z, weight = quadrature(-REACH, REACH, 0.02)
        mean = mean_functional(centre + math.sqrt(variance) * z, weight, -0.5 * z**2)

        def inside(v: NDArray[np.float64]) -> NDArray[np.float64]:
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

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Points:
        """First v, then the x_i of that width."""
        gamma, sigma = self.gamma.astype(dtype), self.sigma.astype(dtype)
        variance = sigma * sigma / gamma
        z = rng.normal(key, (self.dim, chains), dtype)
        v = 0.5 * (1 - gamma) * (self.dim - 1) * variance + jnp.sqrt(variance) * z[0]
        return jnp.concatenate([v[None], jnp.exp(0.5 * v) * z[1:] / jnp.sqrt(gamma)])

    def exact_draws(self) -> Self:
        """Itself: see `draw`."""
        return self
