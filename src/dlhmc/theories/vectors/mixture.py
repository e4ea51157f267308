"""A mixture of two Gaussians: modes that HMC does not cross between."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from dlhmc.geometry.contract import Geometry, PerChain, sum_sites
from dlhmc.numerics import rng
from dlhmc.targets.contract import Moment, Symmetry, Target
from dlhmc.theories.vectors.density import (
    REACH,
    Drawable,
    Gamma,
    Points,
    host,
    known_of,
    mean_functional,
    of_density,
    positive,
    quadrature,
    whole,
)


class MixtureDensity(Drawable):
    """S(x) = −log Σ_± w_± e^{−|x ∓ a e₀|²/2σ²}, with a = separation/2."""

    dim: int = eqx.field(static=True)
    separation: Float[Array, ""]
    variance: Float[Array, ""]
    weights: Float[Array, "2"]

    def width(self) -> Float[Array, ""]:
        return 0.5 * self.separation + jnp.sqrt(self.variance)

    def centre(self, chains: int, dtype: jnp.dtype) -> Points:
        """That of the left mode."""
        return jnp.zeros((self.dim, chains), dtype).at[0].set(-0.5 * self.separation.astype(dtype))

    def _components(self, x0: PerChain) -> tuple[PerChain, PerChain]:
        """The logarithms log w_± − (x₀ ∓ a)²/2σ² of both components, first the left one."""
        a, precision = 0.5 * self.separation.astype(x0.dtype), 1 / self.variance.astype(x0.dtype)
        logs = jnp.log(self.weights.astype(x0.dtype))
        left, right = x0 + a, x0 - a
        return logs[0] - 0.5 * precision * left * left, logs[1] - 0.5 * precision * right * right

    def terms(self, x: Points) -> Points:
        """−log Σ_± w_± e^{−(x₀ ∓ a)²/2σ²} for the first coordinate, x²/2σ² for the others."""
        terms = (0.5 / self.variance.astype(x.dtype)) * x * x
        return terms.at[0].set(-jnp.logaddexp(*self._components(x[0])))

    def force(self, geometry: Geometry, x: Points) -> Points:
        """(x − a e₀ tanh(a x₀/σ² + ½ log(w₊/w₋)))/σ²."""
        left, right = self._components(x[0])
        pull = 0.5 * self.separation.astype(x.dtype) * jnp.tanh(0.5 * (right - left))
        return x.at[0].add(-pull) / self.variance.astype(x.dtype)

    def observe(self, x: Points) -> dict[str, PerChain]:
        """The mode whose centre is nearer, the coordinate that tells modes apart, and |x|²."""
        return {"mode": 2 * (x[0] > 0).astype(x.dtype) - 1, "x0": x[0], "squared_norm": sum_sites(x * x)}

    def symmetries(self) -> dict[str, Symmetry]:
        """Reflections: of the first axis where the weights are equal, of the others always."""
        table = {}
        if self.weights[0] == self.weights[1]:
            table["exchange of the modes"] = Symmetry(lambda _, x: x.at[0].multiply(-1), frozenset({"mode", "x0"}))
        if self.dim > 1:
            table["reflection of the other axes"] = Symmetry(lambda _, x: x.at[1:].multiply(-1))
        return table

    def functions(self, x: Points) -> dict[str, PerChain]:
        return {"distance": jnp.abs(x[0])}

    def exact(self, gamma: float) -> dict[str, float]:
        """Integrals over the first coordinate; the others have variance σ²/γ."""
        a, variance = 0.5 * float(self.separation), float(self.variance)
        logs, sigma = np.log(host(self.weights)), math.sqrt(variance / gamma)
        # Both sides of zero, where the mode jumps.
        right, weight = quadrature(0.0, a + REACH * sigma, sigma)
        x, weight = np.concatenate([-right, right]), np.concatenate([weight, weight])
        left, right = (logs[i] - 0.5 * (x + shift) ** 2 / variance for i, shift in enumerate((a, -a)))
        mean = mean_functional(x, weight, gamma * np.logaddexp(left, right))
        return {
            "mode": mean(np.sign),
            "x0": mean(lambda x: x),
            "x0_squared": mean(np.square),
            "squared_norm": mean(np.square) + (self.dim - 1) * variance / gamma,
            "distance": mean(np.abs),
        }

    def draw(self, key: Key[Array, ""], gamma: Gamma, chains: int, dtype: jnp.dtype) -> Points:
        """Rejection from a mixture of both components to the power γ; at γ = 1 nothing is rejected.

        With components A and B, the bound is (A + B)^γ ≤ c (A^γ + B^γ), c = 1 for γ ≤ 1 and 2^{γ−1} above.
        """
        a, width = 0.5 * self.separation.astype(dtype), jnp.sqrt(self.variance.astype(dtype) / gamma)
        powers = self.weights.astype(dtype) ** gamma
        bound = jnp.maximum(gamma - 1, 0) * math.log(2)

        def propose(key: Key[Array, ""]) -> tuple[Points, PerChain]:
            choice, noise = jax.random.split(key)
            right = rng.uniform(choice, (chains,), dtype) * jnp.sum(powers) < powers[1]
            x = (width * rng.normal(noise, (self.dim, chains), dtype)).at[0].add(jnp.where(right, a, -a))
            log_a, log_b = self._components(x[0])
            return x, gamma * jnp.logaddexp(log_a, log_b) - jnp.logaddexp(gamma * log_a, gamma * log_b) - bound

        return rng.first_accepted(key, propose)


def _slow_variance(target: Target, name: str) -> float | None:
    """The mode is ±1 and changes by 2."""
    return (1 - target.exact()["mode"] ** 2) / 4 if name == "mode" else None


_MOMENTS = {
    "mode": Moment("mode"),
    "x0": Moment("x0"),
    "x0_squared": Moment("x0", 2),
    "squared_norm": Moment("squared_norm"),
}
# The mode, and what a sampler that changes it may move too little: the place within a mode.
_KNOWN = known_of(_MOMENTS, ["mode", "squared_norm"], sector="mode", slow_variance=_slow_variance)


def GaussianMixture(  # noqa: N802
    separation: ArrayLike = 4.0,
    variance: ArrayLike = 0.1,
    weights: ArrayLike | Sequence[float] = (0.5, 0.5),
    dim: int = 2,
    gamma: ArrayLike = 1.0,
) -> Target:
    """Two Gaussians whose centres are apart along the first axis; changes of `mode` (−1 or +1) are the tunnellings.

    >>> target = GaussianMixture(separation=4.0, variance=0.1, weights=(1, 3))
    >>> round(target.exact()["mode"], 6), round(target.exact()["x0"], 6)
    (0.5, 1.0)
    """
    both = positive("weights", weights, ndim=1)
    if both.shape != (2,):
        raise ValueError(f"weights must be two numbers, got {both.shape[0]}")
    sizes = positive("separation", separation), positive("variance", variance)
    return of_density(MixtureDensity(whole("dim", dim, 1), *sizes, both / jnp.sum(both)), _KNOWN, gamma)
