"""Heat bath with overrelaxation: what pure gauge theory is really simulated with.

A link with its staples has the weight e^{(β/N) Re tr W}, W = U·(sum of staples). Links of one direction on even sites,
or on odd ones, do not see each other and are drawn together, subgroup by subgroup: SU(2) subgroups of SU(N) (Cabibbo,
Marinari, Phys. Lett. B 119 (1982) 387) and, for U(N), the phase of the determinant.
"""

import itertools
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Complex, Key

from dlhmc.geometry.contract import all_finite, real_dtype
from dlhmc.geometry.unitary import Matrices, UnitaryMatrices, adjoint, multiply, trace
from dlhmc.kernels.contract import Info, Kernel, State
from dlhmc.kernels.metropolis import select
from dlhmc.lattice.links import Links, shifted, sides_of, total
from dlhmc.numerics import rng, trig
from dlhmc.targets.contract import Target
from dlhmc.theories.gauge.known import wilson_coupling

# Rejection ends after so many attempts: a link that has none accepted stays as it is. How likely that is depends on the
# staples and not on the link, so that the target is left invariant all the same.
_ATTEMPTS = 3
# Below, Creutz's way to draw accepts more often than that of Kennedy and Pendleton.
_WEAK = 1.68
# Enough for lattices on which layers are trained.
_SWEEPS = 100

#: a, b of the matrix ((a, b), (−b*, a*)), on the links of one direction
Pair = tuple[Complex[Array, "*site chain"], Complex[Array, "*site chain"]]


class HeatBath(Kernel):
    """One heat-bath sweep over all links, then `overrelaxation` sweeps that keep the action.

    >>> from dlhmc.theories.gauge.field import wilson
    >>> kernel = HeatBath(wilson("su2", (4, 4), beta=2.0), overrelaxation=2)
    >>> state = kernel.init(kernel.target.start(jax.random.key(0), "cold", 3, jnp.float32))
    >>> state, info = jax.jit(kernel.step)(jax.random.key(1), state)
    >>> info.accepted.tolist()
    [True, True, True]
    """

    name: ClassVar[str] = "heatbath"

    target: Target
    overrelaxation: int = eqx.field(static=True)

    def __init__(self, target: Target, overrelaxation: int = 4) -> None:
        if wilson_coupling(target) is None or not isinstance(target.geometry, UnitaryMatrices):
            raise TypeError("the heat bath is made for the Wilson action of gauge fields")
        if any(side % 2 for side in sides_of(target.geometry)):
            raise ValueError(f"the heat bath needs a lattice with even sides, not {sides_of(target.geometry)}")
        self.target, self.overrelaxation = target, overrelaxation

    def describe(self) -> dict[str, Any]:
        """With the number of sweeps."""
        return super().describe() | {"overrelaxation": self.overrelaxation}

    def swept(self, key: Key[Array, ""], x: Links) -> Links:
        """A heat-bath sweep and the sweeps after it."""
        x = self._sweep(x, key)
        x = jax.lax.fori_loop(0, self.overrelaxation, lambda _, links: self._sweep(links, None), x)
        return self.target.geometry.project(x)

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """The sweeps, which are always accepted."""
        x = self.swept(key, state.x)
        finite, dtype = all_finite(x), real_dtype(x)
        x = select(finite, x, state.x)
        return State.at(self.target, x), Info(finite.astype(dtype), finite, jnp.zeros(finite.shape, dtype), ~finite)

    def _sweep(self, x: Links, key: Key[Array, ""] | None) -> Links:
        """Directions and parities one after the other; a draw with a key, overrelaxation without."""
        sides = sides_of(self.target.geometry)
        masks = _parities(sides)
        coupling: Any = wilson_coupling(self.target)
        strength = coupling.astype(real_dtype(x)) / x.shape[0]

        for mu in range(len(sides)):

            def half(parity: Array, links: Links, mu: int = mu) -> Links:
                own_key = None if key is None else jax.random.fold_in(key, 2 * mu + parity)
                mask = jnp.asarray(masks)[parity][..., None]
                u = self._updated(links[:, :, mu], staple_sum(links, mu), strength, mask, own_key)
                return links.at[:, :, mu].set(u)

            x = jax.lax.fori_loop(0, 2, half, x)
        return x

    def _updated(
        self, u: Matrices, staples: Matrices, strength: Array, mask: Bool[Array, "*site 1"], key: Key[Array, ""] | None
    ) -> Matrices:
        """Links where the mask is set, one subgroup after the other."""
        w = multiply(u, staples)
        pairs = list(itertools.combinations(range(len(w)), 2))
        keys = None if key is None else jax.random.split(key, len(pairs) + 1)
        for index, (i, j) in enumerate(pairs):
            a, b = _subgroup_part(w, i, j)
            new = _reflection(a, b) if keys is None else _draw_su2(keys[index], a, b, strength)
            g = jnp.where(mask, new[0], 1), jnp.where(mask, new[1], 0)
            u, w = _rotated(u, g, i, j), _rotated(w, g, i, j)
        if not self.target.geometry.special:  # type: ignore[attr-defined]
            phase = _mirror_phase(trace(w)) if keys is None else _draw_phase(keys[-1], trace(w), strength)
            u = u * jnp.where(mask, phase, 1)
        return u


class HeatBathDraws(eqx.Module):
    """Configurations near equilibrium, one for each chain: a cold start after many sweeps."""

    target: Target

    @classmethod
    def of(cls, target: Target) -> "HeatBathDraws | None":
        """Where there is a heat bath."""
        if wilson_coupling(target) is None or not isinstance(target.geometry, UnitaryMatrices):
            return None
        return None if any(side % 2 for side in sides_of(target.geometry)) else cls(target)

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Links:
        """Independent of each other, but for the start that they share."""
        kernel = HeatBath(self.target, overrelaxation=1)

        def sweep(index: Array, x: Links) -> Links:
            return kernel.swept(jax.random.fold_in(key, index), x)

        return jax.lax.fori_loop(0, _SWEEPS, sweep, self.target.start(key, "cold", chains, dtype))


def staple_sum(x: Links, mu: int) -> Matrices:
    """For the links of one direction, the sum of what closes them to plaquettes."""
    d = x.shape[2]
    u, staples = x[:, :, mu], []
    for nu in (nu for nu in range(d) if nu != mu):
        w = x[:, :, nu]
        side = shifted(w, 1, mu, d)
        staples.append(multiply(side, adjoint(multiply(w, shifted(u, 1, nu, d)))))
        staples.append(shifted(multiply(adjoint(multiply(u, side)), w), -1, nu, d))
    return total(staples)


def _parities(sides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Even sites, odd sites."""
    odd = np.indices(sides).sum(axis=0) % 2 == 1
    return np.stack([~odd, odd])


def _subgroup_part(w: Matrices, i: int, j: int) -> Pair:
    """(a, b) with Re tr(g·W) = Re tr(g·k) + const for g in the SU(2) of rows i and j, k = ((a, b), (−b*, a*))."""
    return 0.5 * (w[i, i] + jnp.conj(w[j, j])), 0.5 * (w[i, j] - jnp.conj(w[j, i]))


def _rotated(u: Matrices, g: Pair, i: int, j: int) -> Matrices:
    """g·U, g in the SU(2) of rows i and j."""
    a, b = g
    first, second = u[i], u[j]
    u = u.at[i].set(a * first + b * second)
    return u.at[j].set(jnp.conj(a) * second - jnp.conj(b) * first)


def _norm(a: Array, b: Array) -> Array:
    """|k| = √det k, never 0."""
    square = a.real**2 + a.imag**2 + b.real**2 + b.imag**2
    return jnp.sqrt(jnp.maximum(square, jnp.finfo(square.dtype).tiny))


def _inverse(a: Array, b: Array, norm: Array) -> Pair:
    """k†/|k|."""
    scale = (1 / norm).astype(a.dtype)
    return jnp.conj(a) * scale, -b * scale


def _times(first: Pair, second: Pair) -> Pair:
    (a, b), (c, d) = first, second
    return a * c - b * jnp.conj(d), a * d + b * jnp.conj(c)


def _reflection(a: Array, b: Array) -> Pair:
    """g = (k†/|k|)², for which tr(g·k) = tr(k†) = tr(k): as far from 1 as the action allows (Creutz 1987)."""
    inverse = _inverse(a, b, _norm(a, b))
    return _times(inverse, inverse)


def _draw_su2(key: Key[Array, ""], a: Array, b: Array, strength: Array) -> Pair:
    """g ~ e^{(β/N) Re tr(g·k)}: g = h·k†/|k| with h ~ e^{2(β/N)|k| h₀}.

    h₀ = 1 − δ by Kennedy, Pendleton, Phys. Lett. B 156 (1985) 393, or where the weight is weak by Creutz, Phys. Rev. D
    21 (1980) 2308; the rest of h points anywhere.
    """
    norm = _norm(a, b)
    alpha = 2 * strength * norm
    dtype = alpha.dtype
    weak = alpha < _WEAK
    range_of_weak = -jnp.expm1(-2 * jnp.minimum(alpha, _WEAK))

    def attempt(index: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        done, kept = carry
        r1, r2, r3, r4 = rng.uniform(jax.random.fold_in(key, index), (4, *alpha.shape), dtype)
        cosine = trig.cos(2 * np.pi * r2)
        strong_gap = -(jnp.log(r1) + cosine * cosine * jnp.log(r3)) / alpha
        weak_gap = -jnp.log1p(-r1 * range_of_weak) / alpha
        gap = jnp.where(weak, weak_gap, strong_gap)
        # Accept with √(1 − δ/2), or with √(1 − h₀²) = √(δ(2 − δ)).
        chance = jnp.where(weak, gap * (2 - gap), 1 - 0.5 * gap)
        accepted = r4 * r4 <= chance
        return done | accepted, jnp.where(accepted & ~done, gap, kept)

    start = (jnp.zeros(alpha.shape, bool), jnp.zeros_like(alpha))
    done, gap = jax.lax.fori_loop(0, _ATTEMPTS, attempt, start)
    of_height, of_angle = rng.uniform(jax.random.fold_in(key, _ATTEMPTS), (2, *alpha.shape), dtype)
    length = jnp.sqrt(jnp.maximum(gap * (2 - gap), 0))
    height = (2 * of_height - 1) * length
    width = jnp.sqrt(jnp.maximum(length * length - height * height, 0))
    sine, cosine = trig.sin_cos(2 * np.pi * of_angle)
    h = (jax.lax.complex(1 - gap, height), jax.lax.complex(width * cosine, width * sine))
    drawn = _times(h, _inverse(a, b, norm))
    return jnp.where(done, drawn[0], 1), jnp.where(done, drawn[1], 0)


def _size(z: Array) -> Array:
    """|z|, never 0."""
    return jnp.maximum(jnp.abs(z), jnp.finfo(z.dtype).tiny)


def _mirror_phase(z: Array) -> Array:
    """e^{iφ} with Re(e^{iφ}z) = Re z: overrelaxation of the phase."""
    unit = jnp.conj(z) / _size(z).astype(z.dtype)
    return unit * unit


def _draw_phase(key: Key[Array, ""], z: Array, strength: Array) -> Array:
    """e^{iφ} ~ e^{(β/N) Re(e^{iφ}z)}: a von Mises angle by Best, Fisher, Appl. Statist. 28 (1979) 152."""
    size = _size(z)
    kappa = jnp.maximum(strength * size, 1e-6)
    # Of the wrapped Cauchy envelope, r = (1 + ρ²)/2ρ with ρ = (τ − √2τ)/2κ, without differences of large numbers.
    hypotenuse = jnp.sqrt(1 + 4 * kappa * kappa)
    root = jnp.sqrt(2 + 2 * hypotenuse)
    rho = 2 * kappa / (1 + hypotenuse + root)
    excess = (1 + 1 / (hypotenuse + 2 * kappa) + root) / (1 + hypotenuse + root)  # 1 − ρ
    excess = excess * excess / (2 * rho)  # r − 1

    def attempt(index: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        done, kept, sign = carry
        u1, u2, u3 = rng.uniform(jax.random.fold_in(key, index), (3, *kappa.shape), kappa.dtype)
        cosine = trig.cos(np.pi * u1)
        gap = excess * (1 - cosine) / (excess + (1 + cosine))  # 1 − cos φ
        c = kappa * (excess + gap)
        accepted = jnp.log(c / u2) + 1 - c >= 0
        fresh = accepted & ~done
        return done | accepted, jnp.where(fresh, gap, kept), jnp.where(fresh, jnp.sign(u3 - 0.5), sign)

    nothing = jnp.zeros_like(kappa)
    done, gap, sign = jax.lax.fori_loop(0, _ATTEMPTS, attempt, (jnp.zeros(kappa.shape, bool), nothing, nothing))
    drawn = jax.lax.complex(1 - gap, sign * jnp.sqrt(jnp.maximum(gap * (2 - gap), 0)))
    return jnp.where(done, drawn * (jnp.conj(z) / size.astype(z.dtype)), 1)
