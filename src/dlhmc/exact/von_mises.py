"""Independent configurations of 2D U(1), at every coupling: the oracle that every kernel is held to.

On a torus the plaquettes are independent von Mises variables but for one constraint: they add up to 0 mod 2π.
Draw V − 1 of them, let the last one close the torus, and accept with probability e^{β(cos x_last − 1)}, about
1/√(2πβ). A maximal tree, two uniform holonomies and a uniform gauge transformation make links of them.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray
from scipy import special

from dlhmc.geometry.contract import PerChain, sum_sites
from dlhmc.geometry.torus import TWO_PI, wrap_angle
from dlhmc.lattice.tree import from_plaquettes
from dlhmc.numerics import rng, trig
from dlhmc.numerics.leaves import leaf

Links = Float[Array, "2 x t chain"]
Plaquettes = Float[Array, "x t chain"]

# Box–Muller from 65 bits never exceeds √(130 ln 2) = 9.49.
_LARGEST_NORMAL = 9.5
_CELLS = 4096


class U1Draws(eqx.Module):
    """Exact draws on a lattice at one coupling; the coupling and its table are leaves.

    A von Mises variable is h(z) with z a standard normal and h = F⁻¹∘Φ, tabulated as a cubic in each of 4096
    cells to better than 1e-10: beyond float32, and far below what any test can resolve in float64.
    """

    lattice: tuple[int, int] = eqx.field(static=True)
    beta: Float[Array, ""]
    cubic: Float[Array, "4 cells"]

    @classmethod
    def build(cls, lattice: tuple[int, int], beta: float) -> "U1Draws":
        """The sampler for one coupling; the table is computed on the host."""
        return cls(lattice, leaf(beta), leaf(_quantile_cubics(beta)))

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Links:
        """One independent configuration for each chain."""
        of_plaquettes, of_holonomies, of_gauge = jax.random.split(key, 3)
        holonomies = TWO_PI * rng.uniform(of_holonomies, (2, chains), dtype)
        x = from_plaquettes(self._closed_plaquettes(of_plaquettes, chains, dtype), holonomies)
        alpha = TWO_PI * rng.uniform(of_gauge, (*self.lattice, chains), dtype)
        ahead = jnp.stack([jnp.roll(alpha, -1, axis=0), jnp.roll(alpha, -1, axis=1)])
        return wrap_angle(x + alpha - ahead)

    def _von_mises(self, key: Key[Array, ""], shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
        z = rng.normal(key, shape, dtype)
        position = jnp.abs(z) * (_CELLS / _LARGEST_NORMAL)
        cell = jnp.minimum(position.astype(jnp.int32), _CELLS - 1)
        t = position - cell.astype(dtype)
        rows = jnp.asarray(self.cubic, dtype)
        c0, c1, c2, c3 = (row.at[cell].get(mode="promise_in_bounds", wrap_negative_indices=False) for row in rows)
        return jnp.sign(z) * (c0 + t * (c1 + t * (c2 + t * c3)))

    def _closed_plaquettes(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Plaquettes:
        """Rejection until every chain has plaquettes that close."""

        def propose(key: Key[Array, ""]) -> tuple[Plaquettes, PerChain]:
            p = self._von_mises(key, (*self.lattice, chains), dtype)
            # The last plaquette closes the torus; the value drawn for it is not used.
            last = wrap_angle(p[-1, -1] - sum_sites(p))
            return p.at[-1, -1].set(last), self.beta.astype(dtype) * (trig.cos(last) - 1)

        return rng.first_accepted(key, propose)


def _quantile_cubics(beta: float) -> NDArray[np.float64]:
    """Hermite cubics of h(z) = F⁻¹(Φ(z)), z ≥ 0, for the von Mises distribution function F, cell by cell."""
    z = np.linspace(0, _LARGEST_NORMAL, _CELLS + 1)
    x = _upper_quantile(beta, special.log_ndtr(-z))
    # dh/dz = φ(z)/f(h); densities in logs, as both underflow in the tail.
    log_density = beta * (np.cos(x) - 1) - np.log(TWO_PI * special.ive(0, beta))
    slope = np.exp(-0.5 * z**2 - 0.5 * np.log(TWO_PI) - log_density) * (_LARGEST_NORMAL / _CELLS)
    rise, left, right = np.diff(x), slope[:-1], slope[1:]
    return np.stack([x[:-1], left, 3 * rise - 2 * left - right, left + right - 2 * rise])


def _upper_quantile(beta: float, log_tail: NDArray[np.float64]) -> NDArray[np.float64]:
    """x ∈ [0, π] with log ∫_x^π f = log_tail, by bisection on panels integrated with Gauss–Legendre."""
    edges = np.linspace(0, np.pi, 4001)
    nodes, weights = leggauss(16)
    norm = TWO_PI * special.ive(0, beta)

    def integral(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        half, centre = (b - a)[:, None] / 2, (a + b)[:, None] / 2
        values = np.exp(beta * (np.cos(centre + half * nodes) - 1)) / norm
        return np.asarray((values * weights * half).sum(axis=1))

    # Summed from π inwards: the tail keeps its relative precision.
    panels = integral(edges[:-1], edges[1:])
    tails = np.append(np.cumsum(panels[::-1])[::-1], 0.0)

    low, high = np.zeros_like(log_tail), np.full_like(log_tail, np.pi)
    for _ in range(60):
        middle = (low + high) / 2
        panel = np.clip(np.searchsorted(edges, middle, side="right"), 1, len(edges) - 1)
        tail = tails[panel] + integral(middle, edges[panel])
        with np.errstate(divide="ignore"):  # beyond the smallest number: log 0 = −∞ compares as it should
            inside = np.log(tail) > log_tail
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return (low + high) / 2
