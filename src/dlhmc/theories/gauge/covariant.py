"""Gauge-covariant networks for the paper's leapfrog layers: (s, q, t) at each link of U(N) and SU(N) gauge fields.

A momentum V of U̇ = iVU transforms at the site n from which its link U_μ(n) starts. Vectors at n are there

    V, and M = Σ_P w(P)·P over the plaquettes P that start with the link, with w = 1 and w = Re tr P/N,

each for the link itself and, transported to n as U†·…·U, for the link U_μ(n − μ̂) before it. Their inner products with V
and the traces of M are gauge invariant. A small network of these numbers, the same for all links, gives

    s and q, the same for all components of the algebra, and c_j in t = Σ_j c_j·(vector j):

the layers commute with gauge transformations, and parameters do not know the lattice. Links that are about to move
are 0 in ζ_x, and so is every loop through them. `every_other_link` leaves loops through the link before.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Complex, Float, Key

from dlhmc.geometry.unitary import UnitaryMatrices, adjoint, multiply, trace
from dlhmc.lattice.links import Links, dimensions_of, shifted
from dlhmc.lattice.loops import loop_traces, loops_of_links_at_once
from dlhmc.networks.contract import SQT, Network, Zeta
from dlhmc.networks.linear import Linear

# V and two sums of loops, here and from the link before; the traces of those sums.
_VECTORS, _TRACES = 6, 4


class Covariant(Network):
    """Hidden layers on gauge-invariant numbers, then heads: s and q bounded by a trainable scale, c linear."""

    hidden: tuple[Linear, ...]
    heads: Linear
    log_scales: Float[Array, "2"]
    #: of one link: what a network knows of the field is its group
    group: UnitaryMatrices

    def __init__(self, key: Key[Array, ""], geometry: UnitaryMatrices, hidden: Sequence[int]) -> None:
        widths = [_VECTORS + _TRACES, *hidden]
        keys = jax.random.split(key, len(hidden))
        self.hidden = tuple(Linear.random(k, a, b) for k, a, b in zip(keys, widths[:-1], widths[1:], strict=True))
        self.heads = Linear.zero(widths[-1], 2 + _VECTORS)
        self.log_scales = jnp.zeros(2)
        self.group = UnitaryMatrices(geometry.colors, geometry.special, ())

    def __call__(self, zeta: Zeta) -> SQT:
        """(s, q, t) at ζ."""
        v, n = zeta.vector, self.group.colors
        x = jax.lax.complex(*zeta.position.reshape(2, n, n, *v.shape[1:]))
        matrices = self._matrices(x, v)
        vectors = self.group.components(matrices)
        # Means of Re tr P/N and of its square, where loops that are not there count as 0.
        traces = trace(matrices).real[jnp.asarray([1, 2, 4, 5])] / (2 * n * (dimensions_of(x) - 1))
        products = jnp.sum(v[:, None] * vectors, axis=0) / v.shape[0]
        # A force may be large.
        h = jnp.concatenate([jnp.arcsinh(products), traces]).reshape(_VECTORS + _TRACES, -1)
        for layer in self.hidden:
            h = jax.nn.leaky_relu(layer(h))
        s, q, *c = self.heads(h).reshape(-1, *v.shape[1:])
        scale_s, scale_q = jnp.exp(self.log_scales.astype(v.dtype))
        s, q = (jnp.broadcast_to(bounded, v.shape) for bounded in (scale_s * jnp.tanh(s), scale_q * jnp.tanh(q)))
        return SQT(s, q, jnp.sum(jnp.stack(c) * vectors, axis=1))

    def _matrices(self, x: Links, v: Float[Array, "..."]) -> Complex[Array, "N N vector direction *site chain"]:
        """For each link: iV and the sums M, then those of the link before it."""
        traces = loop_traces(x)
        weights = jnp.stack([jnp.ones_like(traces), traces])
        loops = jax.vmap(lambda w: loops_of_links_at_once(x, weights=w), out_axes=2)(weights)
        here = jnp.concatenate([1j * self.group.hermitian(v)[:, :, None], loops], axis=2)
        return jnp.concatenate([here, self._from_before(x, here)], axis=2)

    def _from_before(self, x: Links, here: Complex[Array, "..."]) -> Complex[Array, "..."]:
        """U†·M·U of U = U_μ(n − μ̂) and M at n − μ̂: there the link before starts, and here it ends."""
        u, d = x[:, :, None], dimensions_of(x)
        ends = multiply(adjoint(u), multiply(here, u))
        return jnp.stack([shifted(ends[:, :, :, mu], -1, mu, d) for mu in range(d)], axis=3)


def every_other_link(sides: Sequence[int]) -> Bool[Array, "direction *cell"]:
    """Links that start at an even coordinate along their own direction, in one cell of the lattice.

    The link before each of them stays, and with it one plaquette in each plane (a half of all links that is drawn at
    random, or a checkerboard, leaves few or none). A side that is odd has no smaller cell than itself.
    """
    coordinates = np.indices([side if side % 2 else 2 for side in sides])
    return jnp.asarray(coordinates % 2 == 0)
