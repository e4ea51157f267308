"""Targets in flat space, x[dim, chain]: the toy problems of the L2HMC paper, a funnel, and a user's own density.

The toys are those of Levy, Hoffman, Sohl-Dickstein, "Generalizing Hamiltonian Monte Carlo with neural networks"
(ICLR 2018): each is hard in one way only, and each is solved exactly here, for every annealing factor γ.
"""

import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Key
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dlhmc import rng, trig
from dlhmc.names import Start
from dlhmc.targets.contract import Moment, PerChain, Symmetry, Target, registry, sum_sites

Points = Float[Array, "dim chain"]
#: a function of one point x[dim]
PointFunction = Callable[[Float[Array, " dim"]], Float[Array, ""]]

# In standard deviations, where integrals are cut off: e^{−12²/2} = 5e-32.
_REACH = 12.0
# cos(x/η) has no meaning in float32 for a smaller η.
_SMALLEST_ETA = 1e-4
# Coordinates that are looked at one by one.
_WATCHED = 3


class Euclidean(Target):
    """p(x) ∝ e^{−γ S(x)} on vectors; γ is an array leaf, as are all parameters."""

    gamma: eqx.AbstractVar[Float[Array, ""]]
    dim: eqx.AbstractVar[int]

    @property
    def shape(self) -> tuple[int, ...]:
        """(dim,)."""
        return (self.dim,)

    @abstractmethod
    def _spread(self) -> Float[Array, ""]:
        """The largest standard deviation, or a guess at it."""

    def start(self, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Points:
        """Hot: an isotropic Gaussian as wide as the target at its widest; cold: the origin."""
        shape = (*self.shape, chains)
        if kind == "cold":
            return jnp.zeros(shape, dtype)
        return self._spread().astype(dtype) * rng.normal(key, shape, dtype)


class Gaussian(Euclidean):
    """S(x) = ½ Σ_k (u_k·x)²/σ_k², with orthonormal axes u_k, the columns of `axes`, or the coordinates' own.

    >>> target = Gaussian([4.0, 0.25])
    >>> target.action(jnp.array([[2.0], [1.0]])).tolist()
    [2.5]
    >>> target.exact()["squared_norm"]
    4.25
    """

    moments: ClassVar[Mapping[str, Moment]] = {
        "widest_squared": Moment("widest", 2),
        "narrowest_squared": Moment("narrowest", 2),
        "squared_norm": Moment("squared_norm"),
    }
    slow: ClassVar[Mapping[str, float]] = {"widest": 0.0}

    dim: int = eqx.field(static=True)
    variances: Float[Array, " dim"]
    axes: Float[Array, "dim dim"] | None
    gamma: Float[Array, ""]

    def __init__(self, variances: ArrayLike, axes: ArrayLike | None = None, gamma: ArrayLike = 1.0) -> None:
        self.variances, self.gamma = _positive("variances", variances, ndim=1), _positive("gamma", gamma)
        self.dim = self.variances.shape[0]
        self.axes = None if axes is None else _orthogonal(axes, self.dim)

    @classmethod
    def from_covariance(cls, covariance: ArrayLike, gamma: ArrayLike = 1.0) -> Self:
        """The Gaussian with this covariance matrix.

        >>> Gaussian.from_covariance([[2.0, 1.0], [1.0, 2.0]]).variances.round(5).tolist()
        [1.0, 3.0]
        """
        matrix = np.asarray(covariance, np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T, rtol=1e-6):
            raise ValueError(f"covariance must be a symmetric matrix, got one of shape {matrix.shape}")
        variances, axes = np.linalg.eigh(matrix)
        if variances[0] <= 0:
            raise ValueError(f"covariance must be positive definite, but has the eigenvalue {variances[0]:g}")
        return cls(variances, axes, gamma)

    def _spread(self) -> Float[Array, ""]:
        return jnp.sqrt(jnp.max(self.variances))

    def _to_axes(self, x: Points) -> Points:
        """y_k = u_k·x."""
        return x if self.axes is None else jnp.matmul(self.axes.T.astype(x.dtype), x, precision="highest")

    def _from_axes(self, y: Points) -> Points:
        """X = Σ_k u_k y_k."""
        return y if self.axes is None else jnp.matmul(self.axes.astype(y.dtype), y, precision="highest")

    def _precisions(self, dtype: jnp.dtype) -> Float[Array, "dim 1"]:
        return (self.gamma.astype(dtype) / self.variances.astype(dtype))[:, None]

    def local_action(self, x: Points) -> Points:
        """γ (u_k·x)²/2σ_k² for each axis."""
        y = self._to_axes(x)
        return 0.5 * self._precisions(x.dtype) * y * y

    def force(self, x: Points) -> Points:
        """∂S/∂x = γ Σ_k u_k (u_k·x)/σ_k²."""
        return self._from_axes(self._precisions(x.dtype) * self._to_axes(x))

    def observables(self, x: Points) -> dict[str, PerChain]:
        """The coordinates along the widest and the narrowest axis, and |x|²."""
        y = self._to_axes(x)
        return {
            "widest": y[jnp.argmax(self.variances)],
            "narrowest": y[jnp.argmin(self.variances)],
            "squared_norm": sum_sites(x * x),
        }

    def symmetries(self) -> dict[str, Symmetry]:
        """X → −x."""
        return {"point reflection": Symmetry(lambda _, x: -x, frozenset({"widest", "narrowest"}))}

    def test_functions(self, x: Points) -> dict[str, PerChain]:
        """The moments, first and second moments of the first coordinates, and the action."""
        watched = range(min(self.dim, _WATCHED))
        functions = super().test_functions(x) | {"action": self.action(x)}
        functions |= {f"x{i}": x[i] for i in watched}
        return functions | {f"x{i} x{j}": x[i] * x[j] for i in watched for j in watched if i <= j}

    def exact(self) -> dict[str, float]:
        """The covariance is Σ_k u_k σ_k² u_kᵀ/γ."""
        variances = _host(self.variances) / _host(self.gamma)
        axes = np.eye(self.dim) if self.axes is None else _host(self.axes)
        covariance = (axes * variances) @ axes.T
        watched = range(min(self.dim, _WATCHED))
        values = {
            "widest_squared": float(variances.max()),
            "narrowest_squared": float(variances.min()),
            "squared_norm": float(variances.sum()),
            "action": self.dim / 2,
        }
        values |= {f"x{i}": 0.0 for i in watched}
        return values | {f"x{i} x{j}": float(covariance[i, j]) for i in watched for j in watched if i <= j}

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Points:
        """X = Σ_k u_k σ_k z_k/√γ with z standard normal."""
        z = rng.normal(key, (self.dim, chains), dtype)
        return self._from_axes(z / jnp.sqrt(self._precisions(dtype)))

    def exact_draws(self) -> Self:
        """Itself: see `draw`."""
        return self


def ill_conditioned_gaussian(
    dim: int = 50, smallest: float = 1e-2, largest: float = 1e2, gamma: ArrayLike = 1.0
) -> Gaussian:
    """Independent coordinates with variances spaced evenly in the logarithm.

    >>> ill_conditioned_gaussian(dim=3, smallest=0.25, largest=4.0).variances.tolist()
    [0.25, 1.0, 4.0]
    """
    _whole("dim", dim, 2)
    if not 0 < smallest <= largest < math.inf:
        raise ValueError(f"variances must be positive with smallest ≤ largest, got {smallest} and {largest}")
    return Gaussian(np.geomspace(smallest, largest, dim), gamma=gamma)


def correlated_gaussian(
    variances: tuple[float, float] = (100.0, 0.1), angle: float = math.pi / 4, gamma: ArrayLike = 1.0
) -> Gaussian:
    """Two dimensions, with the axes turned by an angle so that the coordinates are strongly correlated.

    >>> target = correlated_gaussian()
    >>> round(target.exact()["x0 x1"], 4), round(target.exact()["x0 x0"], 4)
    (49.95, 50.05)
    """
    if len(variances) != 2:
        raise ValueError(f"variances must be two numbers, got {len(variances)}")
    c, s = math.cos(angle), math.sin(angle)
    return Gaussian(np.asarray(variances), np.array([[c, -s], [s, c]]), gamma)


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
        self.separation, self.variance = _positive("separation", separation), _positive("variance", variance)
        weights = _positive("weights", weights, ndim=1)
        if weights.shape != (2,):
            raise ValueError(f"weights must be two numbers, got {weights.shape[0]}")
        self.weights = weights / jnp.sum(weights)
        self.dim, self.gamma = _whole("dim", dim, 1), _positive("gamma", gamma)

    @property
    def slow(self) -> Mapping[str, float]:  # type: ignore[override]
        """The mode, whose mean depends on the weights."""
        return {"mode": self.exact()["mode"]}

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
        log_weights = np.log(_host(self.weights))
        sigma = math.sqrt(variance / gamma)
        # Both sides of zero, where the mode jumps.
        right, weight = _quadrature(0.0, a + _REACH * sigma, sigma)
        x, weight = np.concatenate([-right, right]), np.concatenate([weight, weight])
        left, right = (log_weights[i] - 0.5 * (x + shift) ** 2 / variance for i, shift in enumerate((a, -a)))
        mean = _mean(x, weight, gamma * np.logaddexp(left, right))
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

        return _first_accepted(key, propose)

    def exact_draws(self) -> Self:
        """Itself: see `draw`."""
        return self


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
    slow: ClassVar[Mapping[str, float]] = {"x0": 0.0}

    dim: int = eqx.field(static=True)
    eta: Float[Array, ""]
    gamma: Float[Array, ""]

    def __init__(self, dim: int = 2, eta: ArrayLike = 1e-2, gamma: ArrayLike = 1.0) -> None:
        self.dim, self.gamma = _whole("dim", dim, 1), _positive("gamma", gamma)
        self.eta = _positive("eta", eta, least=_SMALLEST_ETA)

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
        """X → −x."""
        return {"point reflection": Symmetry(lambda _, x: -x, frozenset({"x0"}))}

    def test_functions(self, x: Points) -> dict[str, PerChain]:
        """The moments, the first coordinate, its fourth power, and its wave sin(x₀/η)."""
        wave = trig.sin(x[0] / self.eta.astype(x.dtype))
        return super().test_functions(x) | {"x0": x[0], "x0 to the fourth": x[0] ** 4, "wave": wave}

    def exact(self) -> dict[str, float]:
        """Integrals over one coordinate: the others are the same, and all are independent."""
        eta, gamma = float(self.eta), float(self.gamma)
        sigma = 1 / math.sqrt(gamma)
        x, weight = _quadrature(0.0, _REACH * sigma, min(eta, sigma))
        mean = _mean(x, weight, -gamma * (0.5 * x**2 + eta * np.cos(x / eta)))
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

        return _first_accepted(key, propose)

    def exact_draws(self) -> Self:
        """Itself: see `draw`."""
        return self


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
        self.dim = _whole("dim", dim, 2)
        self.sigma, self.gamma = _positive("sigma", sigma), _positive("gamma", gamma)

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
        """X_i → −x_i for all i, at the same v."""
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
        z, weight = _quadrature(-_REACH, _REACH, 0.02)
        mean = _mean(centre + math.sqrt(variance) * z, weight, -0.5 * z**2)

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


class LogDensity(Euclidean):
    """A user's own density: any JAX function of one point x[dim] that returns log p(x), up to a constant.

    Parameters in a closure are compiled in; those of `jax.tree_util.Partial(function, parameters)`, or of an
    Equinox module that is called, are leaves. The observables are functions of one point, too: by default the first
    coordinates and |x|². Nothing is known exactly, so there are no exact draws; `spread` is the width of a hot start.

    >>> target = LogDensity(lambda x: -jnp.sum(x**4), dim=2)
    >>> target.force(jnp.array([[1.0], [2.0]])).tolist()
    [[4.0], [32.0]]
    """

    function: PointFunction
    dim: int = eqx.field(static=True)
    functions: dict[str, PointFunction]
    spread: Float[Array, ""]
    gamma: Float[Array, ""]

    def __init__(
        self,
        function: PointFunction,
        dim: int,
        observables: Mapping[str, PointFunction] | None = None,
        spread: ArrayLike = 1.0,
        gamma: ArrayLike = 1.0,
    ) -> None:
        self.dim = _whole("dim", dim, 1)
        if observables is None:
            observables = {f"x{i}": _coordinate(i) for i in range(min(dim, _WATCHED))}
            observables["squared_norm"] = _squared_norm
        self.function = _scalar_function("the log-density", function, dim)
        self.functions = {name: _scalar_function(name, f, dim) for name, f in observables.items()}
        self.spread, self.gamma = _positive("spread", spread), _positive("gamma", gamma)

    @property
    def moments(self) -> Mapping[str, Moment]:  # type: ignore[override]
        """The mean of every observable."""
        return {name: Moment(name) for name in self.functions}

    def _spread(self) -> Float[Array, ""]:
        return self.spread

    def local_action(self, x: Points) -> Float[Array, "1 chain"]:
        """−γ log p(x), one term."""
        return -self.gamma.astype(x.dtype) * _each(self.function, x)[None]

    def observables(self, x: Points) -> dict[str, PerChain]:
        """What the user asked for."""
        return {name: _each(function, x) for name, function in self.functions.items()}


# Functions of a user.


@functools.cache  # the same function each time: another one would be compiled again
def _coordinate(i: int) -> PointFunction:
    return lambda x: x[i]


def _squared_norm(x: Float[Array, " dim"]) -> Float[Array, ""]:
    return jnp.sum(x * x)


def _each(function: PointFunction, x: Points) -> PerChain:
    """The function of each chain's point."""
    return jax.vmap(function, in_axes=-1)(x).astype(x.dtype)


def _scalar_function(name: str, function: PointFunction, dim: int) -> PointFunction:
    """The function as a pytree, so that it can be part of a target; its result must be one number."""
    if not callable(function):
        raise ValueError(f"{name} must be a function of one point x[{dim}], got {function!r}")
    shape = jax.eval_shape(function, jax.ShapeDtypeStruct((dim,), jnp.result_type(float))).shape
    if shape != ():
        raise ValueError(f"{name} must return one number for a point x[{dim}], but returns the shape {shape}")
    return function if isinstance(function, eqx.Module | Partial) else Partial(function)


# Parameters.


def _host(leaf: Array) -> NDArray[np.float64]:
    return np.asarray(leaf, np.float64)


def _positive(name: str, value: ArrayLike, *, ndim: int = 0, least: float = 0.0) -> Array:
    """The value as a leaf; it must be positive unless it is being traced, when nobody knows."""
    leaf = jnp.asarray(value, dtype=jnp.result_type(float))
    if leaf.ndim != ndim or leaf.size == 0:
        raise ValueError(f"{name} must be {'a list of numbers' if ndim else 'a number'}, got {value!r}")
    if not isinstance(leaf, jax.core.Tracer):
        numbers = _host(leaf)
        if not (np.isfinite(numbers) & (numbers > 0) & (numbers >= np.float32(least))).all():
            wanted = f"at least {least:g}" if least else "positive"
            raise ValueError(f"{name} must be {wanted} and finite, got {value!r}")
    return leaf


def _orthogonal(axes: ArrayLike, dim: int) -> Float[Array, "dim dim"]:
    leaf = jnp.asarray(axes, dtype=jnp.result_type(float))
    if leaf.shape != (dim, dim):
        raise ValueError(f"axes must be a {dim} × {dim} matrix, got the shape {leaf.shape}")
    if not isinstance(leaf, jax.core.Tracer) and not np.allclose(_host(leaf).T @ _host(leaf), np.eye(dim), atol=1e-5):
        raise ValueError("the columns of axes must be orthonormal")
    return leaf


def _whole(name: str, value: int, least: int) -> int:
    if not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value}")
    return int(value)


# Exact results.


def _first_accepted(
    key: Key[Array, ""], propose: Callable[[Key[Array, ""]], tuple[Points, Float[Array, "*dim chain"]]]
) -> Points:
    """Rejection: propose values with the logarithms of their acceptance, and keep the first that is accepted."""
    Carry = tuple[Array, Bool[Array, "*dim chain"], Points]
    x, log_acceptance = jax.eval_shape(propose, key)

    def attempt(carry: Carry) -> Carry:
        count, done, kept = carry
        propose_key, accept_key = jax.random.split(jax.random.fold_in(key, count))
        x, log_acceptance = propose(propose_key)
        accept = jnp.log(rng.uniform(accept_key, log_acceptance.shape, x.dtype)) < log_acceptance
        return count + 1, done | accept, jnp.where(accept & ~done, x, kept)

    start = (jnp.zeros((), jnp.int32), jnp.zeros(log_acceptance.shape, bool), jnp.zeros(x.shape, x.dtype))
    return jax.lax.while_loop(lambda carry: ~jnp.all(carry[1]), attempt, start)[2]


def _quadrature(low: float, high: float, width: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of Gauss–Legendre in panels of at most this width."""
    nodes, weights = leggauss(16)
    edges = np.linspace(low, high, math.ceil((high - low) / width) + 1)
    centre, half = (edges[1:] + edges[:-1])[:, None] / 2, np.diff(edges)[:, None] / 2
    return (centre + half * nodes).ravel(), (half * weights).ravel()


def _mean(
    x: NDArray[np.float64], weight: NDArray[np.float64], log_density: NDArray[np.float64]
) -> Callable[[Callable[[NDArray[np.float64]], NDArray[np.float64]]], float]:
    """The functional f ↦ ∫ f p / ∫ p, with p known up to a factor at the nodes x."""
    probability = weight * np.exp(log_density - log_density.max())
    probability /= probability.sum()
    return lambda f: float(f(x) @ probability)


def _banana(x: Float[Array, " dim"]) -> Float[Array, ""]:
    return -0.5 * (x[0] ** 2 + (x[1] - x[0] ** 2) ** 2)


registry["ill-conditioned-gaussian"] = lambda: ill_conditioned_gaussian(dim=5, gamma=0.8)
registry["correlated-gaussian"] = lambda: correlated_gaussian()
registry["gaussian-mixture"] = lambda: GaussianMixture(separation=2.0, variance=0.3, dim=3, gamma=0.7)
registry["rough-well"] = lambda: RoughWell(dim=3, eta=0.1, gamma=1.5)
registry["funnel"] = lambda: Funnel(dim=3, sigma=1.5, gamma=0.9)
registry["log-density"] = lambda: LogDensity(_banana, dim=2)
