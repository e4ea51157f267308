"""Independent configurations of 2D U(1), at every coupling: the oracle that every kernel is held to.

On a torus the plaquettes are independent von Mises variables but for one constraint: they add up to 0 mod 2π.
Draw V − 1 of them, let the last one close the torus, and accept with probability e^{β(cos x_last − 1)}, about
1/√(2πβ). A maximal tree, two uniform holonomies and a uniform gauge transformation make links of them.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from numpy.typing import NDArray
from scipy import integrate, interpolate, optimize, special

from dlhmc.geometry.contract import PerChain, sum_sites
from dlhmc.geometry.torus import TWO_PI, wrap_angle
from dlhmc.lattice.links import gauge_transform
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
        return wrap_angle(gauge_transform(x, alpha))

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
    """Hermite cubics of h(z) = F⁻¹(Φ(z)), z ≥ 0, for the von Mises distribution function F, cell by cell.

    They follow from dh/dz = φ(z)/f(h), integrated from the tail inwards, where errors shrink.
    """
    log_norm = np.log(TWO_PI * special.ive(0, beta))

    def slope(z: Any, h: Any) -> Any:
        return np.exp(-0.5 * z**2 - 0.5 * np.log(TWO_PI) - beta * (np.cos(h) - 1) + log_norm)

    z = np.linspace(0, _LARGEST_NORMAL, _CELLS + 1)
    span = (_LARGEST_NORMAL, 0.0)
    start = [_quantile_of_tail(beta, special.log_ndtr(-_LARGEST_NORMAL) + log_norm)]
    h = integrate.solve_ivp(slope, span, start, "DOP853", z[::-1], rtol=1e-13, atol=1e-14).y[0, ::-1]
    cubics = interpolate.CubicHermiteSpline(np.arange(_CELLS + 1), h, slope(z, h) * (_LARGEST_NORMAL / _CELLS))
    return np.asarray(cubics.c[::-1])


def _quantile_of_tail(beta: float, log_tail: float) -> float:
    """x with log ∫_x^π e^{β(cos y − 1)} dy = log_tail, for a tail so small that it decides nothing but its own size."""
    nodes, weights = np.polynomial.legendre.leggauss(200)

    def excess(x: float) -> float:
        y = x + (np.pi - x) * (nodes + 1) / 2
        exponents = beta * (np.cos(y) - np.cos(x))
        return float(beta * (np.cos(x) - 1) + np.log(weights @ np.exp(exponents) * (np.pi - x) / 2) - log_tail)

    nearest = np.nextafter(np.pi, 0)
    return nearest if excess(nearest) > 0 else float(optimize.brentq(excess, 0.0, nearest))
