"""Gaussians, ill-conditioned and strongly correlated ones among them."""

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
from dlhmc.theories.vectors.density import WATCHED, Drawable, Gamma, Points, host, known_of, of_density, positive, whole


class GaussianDensity(Drawable):
    """S(x) = ½ Σ_k (u_k·x)²/σ_k², with orthonormal axes u_k, the columns of `axes`, or the coordinates' own."""

    dim: int = eqx.field(static=True)
    variances: Float[Array, " dim"]
    axes: Float[Array, "dim dim"] | None

    def width(self) -> Float[Array, ""]:
        return jnp.sqrt(jnp.max(self.variances))

    def _to_axes(self, x: Points) -> Points:
        """y_k = u_k·x."""
        return x if self.axes is None else jnp.matmul(self.axes.T.astype(x.dtype), x, precision="highest")

    def _from_axes(self, y: Points) -> Points:
        """x = Σ_k u_k y_k."""
        return y if self.axes is None else jnp.matmul(self.axes.astype(y.dtype), y, precision="highest")

    def terms(self, x: Points) -> Points:
        y = self._to_axes(x)
        return 0.5 * y * y / self.variances.astype(x.dtype)[:, None]

    def force(self, geometry: Geometry, x: Points) -> Points:
        return self._from_axes(self._to_axes(x) / self.variances.astype(x.dtype)[:, None])

    def observe(self, x: Points) -> dict[str, PerChain]:
        """The coordinates along the widest and the narrowest axis, and |x|²."""
        y = self._to_axes(x)
        return {
            "widest": y[jnp.argmax(self.variances)],
            "narrowest": y[jnp.argmin(self.variances)],
            "squared_norm": sum_sites(x * x),
        }

    def symmetries(self) -> dict[str, Symmetry]:
        return {"point reflection": Symmetry(lambda _, x: -x, frozenset({"widest", "narrowest"}))}

    def functions(self, x: Points) -> dict[str, PerChain]:
        """First and second moments of the first coordinates, and the action at γ = 1."""
        watched = range(min(self.dim, WATCHED))
        found = {"widest": self.observe(x)["widest"], "action": sum_sites(self.terms(x))}
        found |= {f"x{i}": x[i] for i in watched}
        return found | {f"x{i} x{j}": x[i] * x[j] for i in watched for j in watched if i <= j}

    def exact(self, gamma: float) -> dict[str, float]:
        """The covariance is Σ_k u_k σ_k² u_kᵀ/γ."""
        variances = host(self.variances) / gamma
        axes = np.eye(self.dim) if self.axes is None else host(self.axes)
        covariance = (axes * variances) @ axes.T
        watched = range(min(self.dim, WATCHED))
        values = {
            "widest": 0.0,
            "widest_squared": float(variances.max()),
            "narrowest_squared": float(variances.min()),
            "squared_norm": float(variances.sum()),
            "action": 0.5 * self.dim / gamma,
        }
        values |= {f"x{i}": 0.0 for i in watched}
        return values | {f"x{i} x{j}": float(covariance[i, j]) for i in watched for j in watched if i <= j}

    def draw(self, key: Key[Array, ""], gamma: Gamma, chains: int, dtype: jnp.dtype) -> Points:
        """x = Σ_k u_k σ_k z_k/√γ with z standard normal."""
        z = rng.normal(key, (self.dim, chains), dtype)
        return self._from_axes(z * jnp.sqrt(self.variances.astype(dtype)[:, None] / gamma))


_MOMENTS = {
    "widest_squared": Moment("widest", 2),
    "narrowest_squared": Moment("narrowest", 2),
    "squared_norm": Moment("squared_norm"),
}
_KNOWN = known_of(_MOMENTS, ["widest"])


def Gaussian(variances: ArrayLike | Sequence[float], axes: ArrayLike | None = None, gamma: ArrayLike = 1.0) -> Target:  # noqa: N802
    """The Gaussian with these variances along orthonormal axes, the columns of a matrix.

    >>> target = Gaussian([4.0, 0.25])
    >>> target.action(jnp.array([[2.0], [1.0]])).tolist()
    [2.5]
    >>> target.exact()["squared_norm"]
    4.25
    """
    leaf = positive("variances", variances, ndim=1)
    dim = len(leaf)
    return of_density(GaussianDensity(dim, leaf, None if axes is None else _orthogonal(axes, dim)), _KNOWN, gamma)


def gaussian_from_covariance(covariance: ArrayLike | Sequence[Sequence[float]], gamma: ArrayLike = 1.0) -> Target:
    """The Gaussian with this covariance matrix.

    >>> gaussian_from_covariance([[2.0, 1.0], [1.0, 2.0]]).actions[0].variances.round(5).tolist()
    [1.0, 3.0]
    """
    matrix = np.asarray(covariance, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T, rtol=1e-6):
        raise ValueError(f"covariance must be a symmetric matrix, got one of shape {matrix.shape}")
    variances, axes = np.linalg.eigh(matrix)
    if variances[0] <= 0:
        raise ValueError(f"covariance must be positive definite, but has the eigenvalue {variances[0]:g}")
    return Gaussian(variances, axes, gamma)


def ill_conditioned_gaussian(
    dim: int = 50, smallest: float = 1e-2, largest: float = 1e2, gamma: ArrayLike = 1.0
) -> Target:
    """Independent coordinates with variances spaced evenly in the logarithm.

    >>> ill_conditioned_gaussian(dim=3, smallest=0.25, largest=4.0).actions[0].variances.tolist()
    [0.25, 1.0, 4.0]
    """
    whole("dim", dim, 2)
    if not 0 < smallest <= largest < math.inf:
        raise ValueError(f"variances must be positive with smallest ≤ largest, got {smallest} and {largest}")
    return Gaussian(np.geomspace(smallest, largest, dim), gamma=gamma)


def correlated_gaussian(
    variances: tuple[float, float] = (100.0, 0.1), angle: float = math.pi / 4, gamma: ArrayLike = 1.0
) -> Target:
    """Two dimensions, with the axes turned by an angle so that the coordinates are strongly correlated.

    >>> target = correlated_gaussian()
    >>> round(target.exact()["x0 x1"], 4), round(target.exact()["x0 x0"], 4)
    (49.95, 50.05)
    """
    if len(variances) != 2:
        raise ValueError(f"variances must be two numbers, got {len(variances)}")
    c, s = math.cos(angle), math.sin(angle)
    return Gaussian(np.asarray(variances), np.array([[c, -s], [s, c]]), gamma)


def _orthogonal(axes: ArrayLike, dim: int) -> Float[Array, "dim dim"]:
    leaf = jnp.asarray(axes, dtype=jnp.result_type(float))
    if leaf.shape != (dim, dim):
        raise ValueError(f"axes must be a {dim} × {dim} matrix, got the shape {leaf.shape}")
    if not isinstance(leaf, jax.core.Tracer) and not np.allclose(host(leaf).T @ host(leaf), np.eye(dim), atol=1e-5):
        raise ValueError("the columns of axes must be orthonormal")
    return leaf
