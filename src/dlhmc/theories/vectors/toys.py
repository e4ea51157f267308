"""Toy problems in flat space.

They are those of Levy, Hoffman, Sohl-Dickstein, "Generalizing Hamiltonian Monte Carlo with neural networks" (ICLR
2018), and Neal's funnel: each is hard in one way only, and each is solved exactly here, for every annealing factor γ.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key
from msgspec import Meta
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray
from scipy import special

from dlhmc.errors import UserError
from dlhmc.geometry.contract import Geometry, PerChain, sum_sites
from dlhmc.numerics import rng, trig
from dlhmc.numerics.leaves import parameter
from dlhmc.settings import Count, Positive, checked
from dlhmc.targets.contract import Known, Moment, Target
from dlhmc.theories.vectors.density import WATCHED, Density, Points, Scalar, Values, of_density, start

Host = NDArray[np.floating[Any]]

# In standard deviations, where integrals are cut off: e^{−12²/2} = 5e-32.
_REACH = 12


class Toy(Density):
    """A density of which everything is known."""

    @abstractmethod
    def functions(self, x: Points) -> Values:
        """What tests of exactness look at beside the moments."""

    @abstractmethod
    def exact(self, gamma: float) -> dict[str, Any]:
        """Exact values of moments and functions."""

    @abstractmethod
    def propose(self, z: Points, u: PerChain, gamma: Scalar) -> tuple[Points, Array]:
        """Points from normal and uniform random numbers, and the logarithm with which p^γ accepts them."""


class Draws(eqx.Module):
    """Independent points of p^γ."""

    density: Toy
    gamma: Scalar

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Points:
        def propose(key: Key[Array, ""]) -> tuple[Points, Array]:
            of_normal, of_uniform = jax.random.split(key)
            z = rng.normal(of_normal, (self.density.dim, chains), dtype)
            u = rng.uniform(of_uniform, (chains,), dtype)
            return self.density.propose(z, u, self.gamma.astype(dtype))

        return rng.first_accepted(key, propose)


def _known(moments: Sequence[str], slow: Sequence[str], **more: Any) -> Known:
    """What the toys know, with the exact means of slow observables where there are any."""

    def toy(target: Target) -> Any:
        return target.actions[0]

    def exact(target: Target) -> dict[str, float]:
        values = toy(target).exact(float(target.gamma)) if len(target.actions) == 1 else {}
        return {name: float(value) for name, value in values.items()}

    return Known(
        {name: Moment(name.removesuffix("_squared"), 2 if name.endswith("_squared") else 1) for name in moments},
        lambda target: {name: target.exact().get(name) for name in slow},
        functions=lambda target, x: toy(target).functions(x),
        exact=exact,
        exact_draws=lambda target: Draws(toy(target), target.gamma) if len(target.actions) == 1 else None,
        start=start,
        **more,
    )


def _distribution(edges: Host, log_density: Callable[[Host], Host]) -> tuple[Host, Host]:
    """Nodes of Gauss–Legendre in panels of equal width, and their probabilities."""
    nodes, weights = leggauss(16)
    x = np.add.outer(edges[:-1], (edges[1] - edges[0]) * (nodes + 1) / 2)
    p = weights * np.exp(log_density(x))
    return x.ravel(), p.ravel() / p.sum()


class GaussianDensity(Toy):
    """S(x) = ½ Σ_k (u_k·x)²/σ_k², with orthonormal axes u_k, the columns of `axes`, or the coordinates' own."""

    variances: Float[Array, " dim"]
    axes: Float[Array, "dim dim"] | None

    def _along_axes(self, x: Points) -> Points:
        """u_k·x."""
        return _multiply(None if self.axes is None else self.axes.T, x)

    def terms(self, x: Points) -> Points:
        y = self._along_axes(x)
        return 0.5 * y * y / self.variances.astype(x.dtype)[:, None]

    def observe(self, x: Points) -> Values:
        """The coordinates along the widest and the narrowest axis, and |x|²."""
        y = self._along_axes(x)
        return {
            "widest": y[jnp.argmax(self.variances)],
            "narrowest": y[jnp.argmin(self.variances)],
            "squared_norm": sum_sites(x * x),
        }

    def width(self) -> Scalar:
        return jnp.sqrt(jnp.max(self.variances))

    def functions(self, x: Points) -> Values:
        """First and second moments of the first coordinates, and the action at γ = 1."""
        first = x[:WATCHED]
        found = {"widest": self.observe(x)["widest"], "action": sum_sites(self.terms(x))}
        return found | _products(first, first[:, None] * first)

    def exact(self, gamma: float) -> dict[str, Any]:
        """The covariance is Σ_k u_k σ_k² u_kᵀ/γ."""
        variances = np.asarray(self.variances, np.float64) / gamma
        axes = np.eye(self.dim) if self.axes is None else np.asarray(self.axes, np.float64)
        first = axes[:WATCHED]
        return {
            "widest": 0.0,
            "widest_squared": variances.max(),
            "narrowest_squared": variances.min(),
            "squared_norm": variances.sum(),
            "action": 0.5 * self.dim / gamma,
        } | _products([0.0] * len(first), (first * variances) @ first.T)

    def propose(self, z: Points, u: PerChain, gamma: Scalar) -> tuple[Points, PerChain]:
        """x = Σ_k u_k σ_k z_k/√γ."""
        y = z * jnp.sqrt(self.variances.astype(z.dtype)[:, None] / gamma)
        return _multiply(self.axes, y), jnp.zeros_like(u)


def _multiply(matrix: Array | None, x: Points) -> Points:
    return x if matrix is None else jnp.matmul(matrix.astype(x.dtype), x, precision="highest")


def _products(first: Any, second: Any) -> dict[str, Any]:
    """First and second moments of coordinates, by name."""
    table = {f"x{i}": value for i, value in enumerate(first)}
    return table | {f"x{i} x{j}": second[i][j] for j in range(len(first)) for i in range(j + 1)}


_GAUSSIAN = _known(["widest_squared", "narrowest_squared", "squared_norm"], slow=["widest"])


def Gaussian(variances: ArrayLike | Sequence[float], axes: ArrayLike | None = None, gamma: ArrayLike = 1.0) -> Target:  # noqa: N802
    """The Gaussian with these variances along orthonormal axes, the columns of a matrix.

    >>> target = Gaussian([4.0, 0.25])
    >>> target.action(jnp.array([[2.0], [1.0]])).tolist()
    [2.5]
    >>> target.exact()["squared_norm"]
    4.25
    """
    variances = parameter("variances", variances, tuple[Positive, ...])
    dim = len(variances)
    if axes is not None:
        axes = jnp.asarray(axes, float)
        if axes.shape != (dim, dim) or not np.allclose(axes.T @ axes, np.eye(dim), atol=1e-5):
            raise UserError(f"axes must be the orthonormal columns of a {dim} × {dim} matrix.")
    return of_density(GaussianDensity(dim, variances, axes), _GAUSSIAN, gamma)


def gaussian_from_covariance(covariance: ArrayLike | Sequence[Sequence[float]], gamma: ArrayLike = 1.0) -> Target:
    """The Gaussian with this covariance matrix.

    >>> gaussian_from_covariance([[2.0, 1.0], [1.0, 2.0]]).actions[0].variances.round(5).tolist()
    [1.0, 3.0]
    """
    matrix = np.asarray(covariance, np.float64)
    if matrix.shape != matrix.T.shape or not np.allclose(matrix, matrix.T, rtol=1e-6):
        raise UserError(f"covariance must be a symmetric matrix, got {matrix.tolist()}.")
    return Gaussian(*np.linalg.eigh(matrix), gamma)


def ill_conditioned_gaussian(
    dim: int = 50, smallest: float = 1e-2, largest: float = 1e2, gamma: ArrayLike = 1.0
) -> Target:
    """Independent coordinates with variances spaced evenly in the logarithm.

    >>> ill_conditioned_gaussian(dim=3, smallest=0.25, largest=4.0).actions[0].variances.tolist()
    [0.25, 1.0, 4.0]
    """
    ends = checked("smallest", smallest, Positive), checked("largest", largest, Positive)
    return Gaussian(np.geomspace(*ends, checked("dim", dim, Count)), gamma=gamma)


def correlated_gaussian(
    variances: tuple[float, float] = (100.0, 0.1), angle: float = math.pi / 4, gamma: ArrayLike = 1.0
) -> Target:
    """Two dimensions, with the axes turned by an angle so that the coordinates are strongly correlated.

    >>> target = correlated_gaussian()
    >>> round(target.exact()["x0 x1"], 4), round(target.exact()["x0 x0"], 4)
    (49.95, 50.05)
    """
    c, s = math.cos(angle), math.sin(angle)
    return Gaussian(variances, np.array([[c, -s], [s, c]]), gamma)


class MixtureDensity(Toy):
    """S(x) = −log Σ_± w_± e^{−|x ∓ a e₀|²/2σ²}, with a = separation/2."""

    separation: Scalar
    variance: Scalar
    weights: Float[Array, "2"]

    def _components(self, x0: PerChain) -> PerChain:
        """The logarithms log w_± − (x₀ ∓ a)²/2σ² of both components, first the left one."""
        like = jax.tree.map(lambda leaf: leaf.astype(x0.dtype), self)
        a = 0.5 * like.separation
        away = jnp.stack([x0 + a, x0 - a])
        return jnp.log(like.weights)[:, None] - 0.5 * away * away / like.variance

    def terms(self, x: Points) -> Points:
        """−log Σ_± w_± e^{−(x₀ ∓ a)²/2σ²} for the first coordinate, x²/2σ² for the others."""
        terms = (0.5 / self.variance.astype(x.dtype)) * x * x
        return terms.at[0].set(-jnp.logaddexp(*self._components(x[0])))

    def force(self, geometry: Geometry, x: Points) -> Points:
        """(x − a e₀ tanh(a x₀/σ² + ½ log(w₊/w₋)))/σ², twice as fast as autodiff."""
        left, right = self._components(x[0])
        pull = 0.5 * self.separation.astype(x.dtype) * jnp.tanh(0.5 * (right - left))
        return x.at[0].add(-pull) / self.variance.astype(x.dtype)

    def observe(self, x: Points) -> Values:
        """The mode whose centre is nearer, the coordinate that tells modes apart, and |x|²."""
        return {"mode": 2 * (x[0] > 0).astype(x.dtype) - 1, "x0": x[0], "squared_norm": sum_sites(x * x)}

    def width(self) -> Scalar:
        return 0.5 * self.separation + jnp.sqrt(self.variance)

    def centre(self) -> Scalar:
        """That of the left mode."""
        return -0.5 * self.separation

    def functions(self, x: Points) -> Values:
        return {"distance": jnp.abs(x[0])}

    def exact(self, gamma: float) -> dict[str, Any]:
        """Integrals over the first coordinate; the others have variance σ²/γ."""
        a = 0.5 * float(self.separation)
        variance = float(self.variance)
        sigma = math.sqrt(variance / gamma)
        panels = math.ceil(a / sigma) + _REACH
        log_left, log_right = np.log(np.asarray(self.weights, np.float64))

        def log_density(x: Host) -> Host:
            left = log_left - 0.5 * (x + a) ** 2 / variance
            right = log_right - 0.5 * (x - a) ** 2 / variance
            return gamma * np.logaddexp(left, right)

        # Zero, where the mode jumps, is among the edges.
        x, p = _distribution(sigma * np.arange(-panels, panels + 1), log_density)
        return {
            "mode": np.sign(x) @ p,
            "x0": x @ p,
            "x0_squared": x**2 @ p,
            "squared_norm": x**2 @ p + (self.dim - 1) * variance / gamma,
            "distance": np.abs(x) @ p,
        }

    def propose(self, z: Points, u: PerChain, gamma: Scalar) -> tuple[Points, PerChain]:
        """From a mixture of both components to the power γ; at γ = 1 nothing is rejected.

        With components A and B, the bound is (A + B)^γ ≤ c (A^γ + B^γ), c = 1 for γ ≤ 1 and 2^{γ−1} above.
        """
        a = 0.5 * self.separation.astype(z.dtype)
        powers = self.weights.astype(z.dtype) ** gamma
        centre = jnp.where(u * jnp.sum(powers) < powers[1], a, -a)
        x = (jnp.sqrt(self.variance.astype(z.dtype) / gamma) * z).at[0].add(centre)
        logs = self._components(x[0])
        bound = jnp.maximum(gamma - 1, 0) * math.log(2)
        return x, gamma * jnp.logaddexp(*logs) - jnp.logaddexp(*(gamma * logs)) - bound


_MIXTURE = _known(
    ["mode", "x0", "x0_squared", "squared_norm"],
    # The mode, and what a sampler that changes it may move too little: the place within a mode.
    slow=["mode", "squared_norm"],
    sector="mode",
    # It is ±1 and changes by 2.
    slow_variance=lambda target, name: (1 - target.exact()["mode"] ** 2) / 4 if name == "mode" else None,
)


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
    both = parameter("weights", weights, tuple[Positive, Positive])
    density = MixtureDensity(
        checked("dim", dim, Count),
        parameter("separation", separation, Positive),
        parameter("variance", variance, Positive),
        both / jnp.sum(both),
    )
    return of_density(density, _MIXTURE, gamma)


class RoughDensity(Toy):
    """S(x) = Σ_i x_i²/2 + η cos(x_i/η)."""

    eta: Scalar

    def terms(self, x: Points) -> Points:
        eta = self.eta.astype(x.dtype)
        return 0.5 * x * x + eta * trig.cos(x / eta)

    def observe(self, x: Points) -> Values:
        """The first coordinate, |x|², and the average of cos(x_i/η)."""
        roughness = sum_sites(trig.cos(x / self.eta.astype(x.dtype))) / self.dim
        return {"x0": x[0], "squared_norm": sum_sites(x * x), "roughness": roughness}

    def width(self) -> Scalar:
        return jnp.ones(())

    def functions(self, x: Points) -> Values:
        """The first coordinate, its fourth power, and its wave sin(x₀/η)."""
        return {"x0": x[0], "x0 to the fourth": x[0] ** 4, "wave": trig.sin(x[0] / self.eta.astype(x.dtype))}

    def exact(self, gamma: float) -> dict[str, Any]:
        """Integrals over one coordinate: the others are the same, and all are independent."""
        eta, sigma = float(self.eta), 1 / math.sqrt(gamma)
        width = min(eta, sigma)
        edges = np.arange(0, _REACH * sigma + width, width)
        x, p = _distribution(edges, lambda x: -gamma * (0.5 * x**2 + eta * (1 + np.cos(x / eta))))
        return {
            "x0_squared": x**2 @ p,
            "squared_norm": self.dim * x**2 @ p,
            "roughness": np.cos(x / eta) @ p,
            "x0": 0.0,
            "x0 to the fourth": x**4 @ p,
            "wave": 0.0,
        }

    def propose(self, z: Points, u: PerChain, gamma: Scalar) -> tuple[Points, Points]:
        """Coordinate by coordinate from the normal distribution of variance 1/γ."""
        x = z / jnp.sqrt(gamma)
        eta = self.eta.astype(z.dtype)
        return x, -gamma * eta * (1 + trig.cos(x / eta))


_ROUGH_WELL = _known(["x0_squared", "squared_norm", "roughness"], slow=["x0"])
# cos(x/η) has no meaning in float32 for a smaller η.
Eta = Annotated[float, Meta(ge=1e-4, lt=1e300)]


def RoughWell(dim: int = 2, eta: ArrayLike = 1e-2, gamma: ArrayLike = 1.0) -> Target:  # noqa: N802
    """Hardly more than a standard normal, but its force is rough at scale η.

    >>> target = RoughWell(dim=2, eta=0.01)
    >>> round(target.exact()["squared_norm"], 4), round(target.exact()["roughness"], 6)
    (2.0, -0.005)
    """
    return of_density(RoughDensity(checked("dim", dim, Count), parameter("eta", eta, Eta)), _ROUGH_WELL, gamma)


class FunnelDensity(Toy):
    """S = v²/2σ² + Σ_i (e^{−v} x_i² + v)/2 of the point (v, x₁, …, x_n)."""

    sigma: Scalar

    def terms(self, x: Points) -> Points:
        v, rest = x[0], x[1:]
        neck = (v / self.sigma.astype(x.dtype)) ** 2
        return 0.5 * jnp.concatenate([neck[None], jnp.exp(-v) * rest * rest + v])

    def observe(self, x: Points) -> Values:
        """The width's logarithm v, tanh x₁, the fraction of |x_i| < 1, and the average of e^{−v} x_i²."""
        v, rest = x[0], x[1:]
        return {
            "v": v,
            "tanh_x1": jnp.tanh(x[1]),
            "inside": jnp.mean((jnp.abs(rest) < 1).astype(x.dtype), axis=0),
            "scaled_square": sum_sites(jnp.exp(-v) * rest * rest) / (self.dim - 1),
        }

    def width(self) -> Scalar:
        return self.sigma

    def functions(self, x: Points) -> Values:
        """Tanh x₁, and how v and the x_i depend on each other."""
        found = self.observe(x)
        return {"tanh_x1": found["tanh_x1"], "v inside": found["v"] * found["inside"]}

    def _neck(self, gamma: Any) -> tuple[Any, Any]:
        """Mean (1 − γ) n σ²/2γ and variance σ²/γ of v."""
        variance = self.sigma.astype(gamma.dtype) ** 2 / gamma
        return 0.5 * (1 - gamma) * (self.dim - 1) * variance, variance

    def exact(self, gamma: float) -> dict[str, Any]:
        """Integrals over v, with P(|x_i| < 1 | v) = erf(e^{−v/2} √(γ/2))."""
        mean, variance = map(float, self._neck(np.float64(gamma)))
        z, p = _distribution(np.linspace(-_REACH, _REACH, 1201), lambda z: -0.5 * z**2)
        v = mean + math.sqrt(variance) * z
        # erf is 1 long before e^500.
        inside = special.erf(np.exp(-0.5 * np.maximum(v, -1000)) * math.sqrt(0.5 * gamma))
        return {
            "v": mean,
            "v_squared": mean**2 + variance,
            "inside": inside @ p,
            "scaled_square": 1 / gamma,
            "tanh_x1": 0.0,
            "v inside": (v * inside) @ p,
        }

    def propose(self, z: Points, u: PerChain, gamma: Scalar) -> tuple[Points, PerChain]:
        """First v, then the x_i ~ N(0, e^v/γ)."""
        mean, variance = self._neck(gamma)
        v = mean + jnp.sqrt(variance) * z[0]
        return jnp.concatenate([v[None], jnp.exp(0.5 * v) * z[1:] / jnp.sqrt(gamma)]), jnp.zeros_like(u)


_FUNNEL = _known(["v", "v_squared", "inside", "scaled_square"], slow=["v"])


def Funnel(dim: int = 10, sigma: ArrayLike = 3.0, gamma: ArrayLike = 1.0) -> Target:  # noqa: N802
    """Neal's funnel: v ~ N(0, σ²) and x_i | v ~ N(0, e^v), with n = dim − 1 of the x_i.

    What is measured of x is bounded or scaled: x² itself has a variance of order e^{2σ²}.

    >>> target = Funnel(dim=10)
    >>> round(target.exact()["v_squared"], 6), round(target.exact()["inside"], 4)
    (9.0, 0.6223)
    """
    dim = checked("dim", dim, Annotated[int, Meta(ge=2)])
    return of_density(FunnelDensity(dim, parameter("sigma", sigma, Positive)), _FUNNEL, gamma)
