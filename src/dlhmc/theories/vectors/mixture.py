"""A mixture of two Gaussians: modes that HMC does not cross between."""

import math
from collections.abc import Mapping
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from numpy.typing import ArrayLike

from dlhmc.geometry.contract import PerChain, sum_sites
from dlhmc.names import Start
from dlhmc.numerics import rng
from dlhmc.targets.contract import Moment, Symmetry
from dlhmc.theories.vectors.euclidean import (
    REACH,
    Euclidean,
    Points,
    host,
    mean_functional,
    positive,
    quadrature,
    whole,
)


class GaussianMixture(Euclidean):
    """S(x) = −log Σ_± w_± e^{−|x ∓ a e₀|²/2σ²}: two Gaussians of variance σ², 2a apart along the first axis.

    The observable `mode` is −1 or +1, whichever centre is nearer; its changes are the tunnellings.

    >>> target = GaussianMixture(separation=4.0, variance=0.1, weights=(1, 3))
    >>> round(target.exact()["mode"], 6), round(target.exact()["x0"], 6)
    (0.5, 1.0)
    """

    moments: ClassVar[Mapping[str, Moment]] = {
        "mode": Moment("mode"),
        "x0": Moment("x0"),
        "x0_squared": Moment("x0", 2),
        "squared_norm": Moment("squared_norm"),
    }
    sector: ClassVar[str | None] = "mode"

    separation: Float[Array, ""]
    variance: Float[Array, ""]
    weights: Float[Array, "2"]
    dim: int = eqx.field(static=True)
    gamma: Float[Array, ""]

    def __init__(
        self,
        separation: ArrayLike = 4.0,
        variance: ArrayLike = 0.1,
        weights: ArrayLike = (0.5, 0.5),
        dim: int = 2,
        gamma: ArrayLike = 1.0,
    ) -> None:
        self.separation, self.variance = positive("separation", separation), positive("variance", variance)
        weights = positive("weights", weights, ndim=1)
        if weights.shape != (2,):
            raise ValueError(f"weights must be two numbers, got {weights.shape[0]}")
        self.weights = weights / jnp.sum(weights)
        self.dim, self.gamma = whole("dim", dim, 1), positive("gamma", gamma)

    @property
    def slow(self) -> Mapping[str, float]:  # type: ignore[override]
        """The mode, and what a sampler that changes it may move too little: the place within a mode."""
        exact = self.exact()
        return {name: exact[name] for name in ("mode", "squared_norm")}

    def slow_variance(self, name: str) -> float | None:
        """The mode is ±1 and changes by 2."""
        return (1 - self.slow[name] ** 2) / 4 if name == "mode" else None

    def _spread(self) -> Float[Array, ""]:
        return 0.5 * self.separation + jnp.sqrt(self.variance)

    def start(self, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Points:
        """Hot: an isotropic Gaussian over both modes; cold: the centre of the left one."""
        x = super().start(key, kind, chains, dtype)
        return x.at[0].set(-0.5 * self.separation.astype(dtype)) if kind == "cold" else x

    def _components(self, x0: PerChain) -> tuple[PerChain, PerChain]:
        """The logarithms log w_± − (x₀ ∓ a)²/2σ² of both components, first the left one."""
        a, precision = 0.5 * self.separation.astype(x0.dtype), 1 / self.variance.astype(x0.dtype)
        log_weights = jnp.log(self.weights.astype(x0.dtype))
        left, right = x0 + a, x0 - a
        return log_weights[0] - 0.5 * precision * left * left, log_weights[1] - 0.5 * precision * right * right

    def local_action(self, x: Points) -> Points:
        """−γ log Σ_± w_± e^{−(x₀ ∓ a)²/2σ²} for the first coordinate, γ x²/2σ² for the others."""
        gamma = self.gamma.astype(x.dtype)
        terms = (0.5 * gamma / self.variance.astype(x.dtype)) * x * x
        return terms.at[0].set(-gamma * jnp.logaddexp(*self._components(x[0])))

    def force(self, x: Points) -> Points:
        """∂S/∂x = (γ/σ²) (x − a e₀ tanh(a x₀/σ² + ½ log(w₊/w₋)))."""
        a, precision = 0.5 * self.separation.astype(x.dtype), 1 / self.variance.astype(x.dtype)
        left, right = self._components(x[0])
        pull = a * jnp.tanh(0.5 * (right - left))
        return (self.gamma.astype(x.dtype) * precision) * x.at[0].add(-pull)

    def mode(self, x: Points) -> PerChain:
        """+1 where the right centre is nearer, −1 elsewhere."""
        return 2 * (x[0] > 0).astype(x.dtype) - 1

    def observables(self, x: Points) -> dict[str, PerChain]:
        """The mode, the coordinate that tells the modes apart, and |x|²."""
        return {"mode": self.mode(x), "x0": x[0], "squared_norm": sum_sites(x * x)}

    def symmetries(self) -> dict[str, Symmetry]:
        """Reflections: of the first axis where the weights are equal, of the others always."""
        table = {}
        if self.weights[0] == self.weights[1]:
            table["exchange of the modes"] = Symmetry(lambda _, x: x.at[0].multiply(-1), frozenset({"mode", "x0"}))
        if self.dim > 1:
            table["reflection of the other axes"] = Symmetry(lambda _, x: x.at[1:].multiply(-1))
        return table

    def test_functions(self, x: Points) -> dict[str, PerChain]:
        """The moments, and the mean of |x₀|."""
        return super().test_functions(x) | {"distance": jnp.abs(x[0])}

    def exact(self) -> dict[str, float]:
        """Integrals over the first coordinate; the others have variance σ²/γ."""
        a, variance, gamma = 0.5 * float(self.separation), float(self.variance), float(self.gamma)
        log_weights = np.log(host(self.weights))
        sigma = math.sqrt(variance / gamma)
        # Both sides of zero, where the mode jumps.
        right, weight = quadrature(0.0, a + REACH * sigma, sigma)
        x, weight = np.concatenate([-right, right]), np.concatenate([weight, weight])
        left, right = (log_weights[i] - 0.5 * (x + shift) ** 2 / variance for i, shift in enumerate((a, -a)))
        mean = mean_functional(x, weight, gamma * np.logaddexp(left, right))
        return {
            "mode": mean(np.sign),
            "x0": mean(lambda x: x),
            "x0_squared": mean(np.square),
            "squared_norm": mean(np.square) + (self.dim - 1) * variance / gamma,
            "distance": mean(np.abs),
        }

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Points:
        """Rejection from a mixture of both components to the power γ; at γ = 1 nothing is rejected.

        With components A and B, the bound is (A + B)^γ ≤ c (A^γ + B^γ), c = 1 for γ ≤ 1 and 2^{γ−1} above.
        """
        gamma, a = self.gamma.astype(dtype), 0.5 * self.separation.astype(dtype)
        width = jnp.sqrt(self.variance.astype(dtype) / gamma)
        powers = self.weights.astype(dtype) ** gamma
        bound = jnp.maximum(gamma - 1, 0) * math.log(2)

        def propose(key: Key[Array, ""]) -> tuple[Points, PerChain]:
            choice, noise = jax.random.split(key)
            right = rng.uniform(choice, (chains,), dtype) * jnp.sum(powers) < powers[1]
            x = (width * rng.normal(noise, (self.dim, chains), dtype)).at[0].add(jnp.where(right, a, -a))
            log_a, log_b = self._components(x[0])
            return x, gamma * jnp.logaddexp(log_a, log_b) - jnp.logaddexp(gamma * log_a, gamma * log_b) - bound

        return rng.first_accepted(key, propose)

    def exact_draws(self) -> Self:
        """Itself: see `draw`."""
        return self
