"""Independent configurations of 2D SU(2) and U(2) gauge theory on the torus: the oracle that every kernel is held to.

In a maximal-tree gauge the links are V plaquettes and two holonomies A and B, with A B A† B† the ordered product of all
plaquettes. The weight of s plaquettes of product g, summed over everything else, is K_s(g) = Σ_r d_r a_r^s χ_r(g), with
the coefficients a_r of `characters`. So

1. draw A and B from the Haar measure until they are accepted with probability K_V(A B A† B†)/K_V(1);
2. split the V plaquettes of product R = A B A† B† in two: the product H of the first s has the density
   K_s(H) K_{V−s}(H†R). Split the parts in the same way, and so on, until all plaquettes are there;
3. build the links, and apply a random gauge transformation.

Apart from a factor that is near its maximum where it matters, K_s(g) is e^{x_s Re tr(g − 1)}, exactly so for s = 1. The
exponentials alone give H the density of a heat bath, e^{Re tr H(x_s + x_{s′}R†)}, and the factors are the probability
to accept it. They are tabulated with relative errors of about 1e-6 where K_s(g)/K_s(1) > 0.01, and absolute errors of
K_s(g)/K_s(1) that are smaller still elsewhere: far below what any test can resolve.

"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, erfinv
from jaxtyping import Array, Complex, Float, Int, Key
from numpy.typing import NDArray
from scipy import optimize, special

from dlhmc.exact import characters
from dlhmc.geometry.unitary import (
    Matrices,
    UnitaryMatrices,
    adjoint,
    determinant,
    identity,
    multiply,
    square_norm,
    trace,
)
from dlhmc.lattice.links import gauge_transform
from dlhmc.lattice.tree import matrices_from_plaquettes
from dlhmc.numerics import rng, trig
from dlhmc.numerics.leaves import leaf

Links = Complex[Array, "2 2 mu x t chain"]
PerChain = Float[Array, " chain"]
Quaternions = Float[Array, "4 chain"]
Host = NDArray[np.float64]

_CELLS = (64, 128)  # of a table: α ∈ [0, π/2], q₀ ∈ [−1, 1]
_RESOLVED = 1e-13  # smallest K_s(g)/K_s(1) that the sum over representations resolves
_TINY = 1e-6
_STRONG = 1.6847376  # where √(π/2) e^κ/κ^{3/2} = 2 sinh(κ)/κ


class TorusDraws(eqx.Module):
    """Exact draws on a lattice at one coupling; the couplings x_s of all parts and their tables are leaves."""

    lattice: tuple[int, int] = eqx.field(static=True)
    special: bool = eqx.field(static=True)
    couplings: Float[Array, " part"]
    tables: Float[Array, "part alpha q0"]

    @classmethod
    def build(cls, lattice: tuple[int, int], special: bool, beta: float) -> "TorusDraws":
        """The sampler for one coupling; the tables are computed on the host."""
        *parts, whole = _sizes(lattice[0] * lattice[1])
        couplings = [*(_best_coupling(special, beta, size) for size in parts), 0.0]
        tables = [_log_factors(special, beta, size, x) for size, x in zip([*parts, whole], couplings, strict=True)]
        return cls(lattice, special, leaf(np.array(couplings)), leaf(np.array(tables)))

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Links:
        """One independent configuration for each chain, complex links of the precision `dtype`."""
        dtype = jnp.dtype(dtype)
        of_holonomies, of_plaquettes, of_gauge = jax.random.split(key, 3)
        a, b = self._holonomies(of_holonomies, chains, dtype)
        x = matrices_from_plaquettes(self._plaquettes(of_plaquettes, _commutator(a, b)), a, b)
        g = self._matrices(*self.lattice).scatter(of_gauge, chains, dtype)
        return self._matrices(2, *self.lattice).project(gauge_transform(x, g))

    def _matrices(self, *sides: int) -> UnitaryMatrices:
        return UnitaryMatrices(2, self.special, sides)

    def _holonomies(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> tuple[Matrices, Matrices]:
        whole = jnp.full(chains, len(self.couplings) - 1, jnp.int32)

        def propose(key: Key[Array, ""]) -> tuple[Matrices, PerChain]:
            pair = self._matrices(2).scatter(key, chains, dtype)
            return pair, self._log_factor(whole, _commutator(pair[:, :, 0], pair[:, :, 1]))

        pair = rng.first_accepted(key, propose)
        return pair[:, :, 0], pair[:, :, 1]

    def _log_factor(self, part: Int[Array, " chain"], g: Matrices) -> PerChain:
        """ln[K_s(g)/(B_s e^{x_s Re tr(g − 1)})] ≤ 0 with the s of each part, by cubic interpolation in the tables."""
        rows, columns = self.tables.shape[1:]
        if self.special:
            q0 = jax.lax.optimization_barrier(trace(g).real / 2)
            row, of_row = jnp.zeros_like(part), jnp.ones((1, 1), q0.dtype)
        else:
            alpha = jnp.angle(determinant(g)) / 2
            sine, cosine = trig.sin_cos(alpha)
            q0 = (trace(g).real * cosine + trace(g).imag * sine) / 2
            # Barriers: XLA would compute all of it again for every index into the tables.
            alpha, q0 = jax.lax.optimization_barrier((jnp.abs(alpha), q0))
            row, of_row = _cubic(alpha * (2 / np.pi), _CELLS[0])
        column, of_column = _cubic(0.5 * (q0 + 1), _CELLS[1])
        corner = (part * rows + row) * columns + column
        around = np.add.outer(columns * np.arange(len(of_row)), np.arange(4)).astype(np.int32)
        table = jnp.asarray(self.tables, q0.dtype).ravel()
        values = table.at[corner + around[..., None]].get(mode="promise_in_bounds", wrap_negative_indices=False)
        return jnp.sum(of_row[:, None] * of_column * values, axis=(0, 1))

    def _plaquettes(self, key: Key[Array, ""], product: Matrices) -> Complex[Array, "2 2 x t chain"]:
        """All plaquettes, in an order in which they have this product, by splits of ever smaller parts.

        Each chain goes on to its next split when one is accepted, and does not wait for others. The product of
        plaquettes i to j is kept at i.
        """
        volume, chains = self.lattice[0] * self.lattice[1], product.shape[-1]
        couplings = jnp.asarray(self.couplings, product.real.dtype)
        splits = np.array(_splits(volume), np.int32)
        splits[:, 2:] = np.searchsorted(_sizes(volume), splits[:, 2:])
        first, second, *halves = jnp.asarray(splits.T)
        chain = jnp.arange(chains, dtype=jnp.int32)
        Carry = tuple[Array, Int[Array, " chain"], Matrices]

        def attempt(carry: Carry) -> Carry:
            count, done, products = carry
            of_normal, of_uniform = jax.random.split(jax.random.fold_in(key, count))
            n = rng.normal(of_normal, (3, chains), couplings.dtype)
            u = rng.uniform(of_uniform, (3, chains), couplings.dtype)
            split = jnp.minimum(done, volume - 2)
            left, right = halves[0][split], halves[1][split]
            r = products[:, :, first[split], chain]
            x, y = couplings[left].astype(r.dtype), couplings[right].astype(r.dtype)
            m = x * identity(r) + y * adjoint(r)
            h, log_accept = jax.lax.optimization_barrier(_heat_bath(self.special, m, n, u[:2]))
            other = jax.lax.optimization_barrier(multiply(adjoint(h), r))
            log_accept += self._log_factor(left, h) + self._log_factor(right, other)
            accept = (jnp.log(u[2]) < log_accept) & (done < volume - 1)
            products = products.at[:, :, first[split], chain].set(jnp.where(accept, h, r))
            rest = products[:, :, second[split], chain]
            products = products.at[:, :, second[split], chain].set(jnp.where(accept, other, rest))
            return count + 1, done + accept.astype(jnp.int32), products

        products = jnp.broadcast_to(product[:, :, None], (2, 2, volume, chains))
        start = (jnp.zeros((), jnp.int32), jnp.zeros(chains, jnp.int32), products)
        _, _, products = jax.lax.while_loop(lambda carry: jnp.any(carry[1] < volume - 1), attempt, start)
        return products.reshape(2, 2, *self.lattice, chains)


def _splits(volume: int) -> list[tuple[int, int, int, int]]:
    """All splits from the whole lattice to single plaquettes: where both halves begin, and how large they are."""
    parts, splits = [(0, volume)], []
    for start, size in parts:  # the list grows meanwhile
        if size > 1:
            left = (size + 1) // 2
            halves = (start, left), (start + left, size - left)
            splits.append((start, start + left, left, size - left))
            parts += halves
    return splits


def _sizes(volume: int) -> list[int]:
    """All sizes of parts, the whole lattice last."""
    return sorted({volume, *(size for split in _splits(volume) for size in split[2:])})


def _commutator(a: Matrices, b: Matrices) -> Matrices:
    return multiply(multiply(a, b), multiply(adjoint(a), adjoint(b)))


def _heat_bath(
    is_special: bool, m: Matrices, n: Float[Array, "3 chain"], u: Float[Array, "2 chain"]
) -> tuple[Matrices, PerChain]:
    """H = e^{iα}·h of SU(2) or U(2) with the density e^{Re tr HM}, and the logarithm of the probability to accept it.

    `_quaternion` draws h for a given α, and its mass M(κ), where κ/2 is the size of the quaternion in e^{iα}M, is left
    as the density of α.
    """
    phase, log_bound = (jnp.ones_like(m[0, 0]), 0.0) if is_special else _draw_phase(m, u[0])
    q = phase * m[0, 0] + jnp.conj(phase * m[1, 1]), phase * m[0, 1] - jnp.conj(phase * m[1, 0])
    a, b, log_accept, kappa = jax.lax.optimization_barrier(_quaternion(q, n, u[1]))
    h = jnp.stack([jnp.stack([phase * a, phase * b]), jnp.stack([-phase * jnp.conj(b), phase * jnp.conj(a)])])
    return h, log_accept if is_special else log_accept + _log_mass(kappa) - log_bound


def _draw_phase(m: Matrices, u: PerChain) -> tuple[Complex[Array, " chain"], PerChain]:
    """e^{iα} of U(2), and the logarithm of what its density is, at most M(κ).

    κ² = z₀ + z₁ cos ψ, with z₀ = tr MM†, z₁ = 2|det M| and ψ = 2α + arg det M. As a function of κ², ln M is concave but
    for its kink, and for all κ² ≤ k² = z₀ + z₁ it is below ln M(k) + 0.15 + (κ² − k²)/(4 + 2√(1 + k²)). So M(κ)/M(k) ≤
    e^{0.15 + η(cos ψ − 1)} ≤ e^{0.15 − 2ηψ²/π²}, and ψ is drawn from a truncated normal distribution.
    """
    det = determinant(m)
    size = jnp.abs(det)
    largest = jnp.sqrt(jnp.maximum(square_norm(m) + 2 * size, _TINY**2))
    eta = jnp.maximum(size / (2 + jnp.sqrt(1 + largest * largest)), _TINY)
    root = jnp.sqrt(2 * eta)
    psi = (np.pi / root) * erfinv((2 * u - 1) * erf(root))
    sine, cosine = trig.sin_cos((psi - jnp.angle(det)) / 2)
    log_bound = _log_mass(largest) + 0.15 - (root * psi / np.pi) ** 2
    found: tuple[Array, Array] = jax.lax.optimization_barrier((jax.lax.complex(cosine, sine), log_bound))
    return found


def _log_mass(kappa: PerChain) -> PerChain:
    """ln M of `_quaternion`, up to a constant."""
    weak, strong = -jnp.expm1(-2 * kappa) / kappa, np.sqrt(np.pi / 2) / (kappa * jnp.sqrt(kappa))
    return kappa + jnp.log(jnp.where(kappa < _STRONG, weak, strong))


def _quaternion(
    q: tuple[Array, Array], n: Float[Array, "3 chain"], u: PerChain
) -> tuple[Array, Array, PerChain, PerChain]:
    """h of SU(2) with the density e^{Re tr hq}, the logarithm of the probability to accept it, and κ.

    Multiples of SU(2) matrices are given by their first rows. v = hq/κ has the density √(1 − v₀²) e^{κv₀} of v₀ = Re tr
    v/2, with κ² = det q. Where κ is large, δ = 1 − v₀ comes from √δ e^{−κδ} (A. D. Kennedy and B. J. Pendleton, Phys.
    Lett. B 156 (1985) 393): it is n²/2κ for a normal vector n, of which v has the direction. Elsewhere v₀ is drawn from
    e^{κv₀} (M. Creutz, Phys. Rev. D 21 (1980) 2308). Normalised, they exceed the density of v₀ if multiplied by M(κ) =
    √(π/2) e^κ/κ^{3/2} or 2 sinh(κ)/κ, whichever is smaller.
    """
    size = jnp.sqrt(jnp.abs(q[0]) ** 2 + jnp.abs(q[1]) ** 2 + jnp.finfo(u.dtype).tiny)
    kappa = jnp.maximum(size, _TINY)
    square = jnp.sum(n * n, axis=0)
    strong = kappa > _STRONG
    delta = jnp.where(strong, 0.5 * square / kappa, -jnp.log1p(u * jnp.expm1(-2 * kappa)) / kappa)
    inside = jnp.clip(1 - 0.5 * delta, jnp.finfo(u.dtype).tiny, 1)
    log_accept = jnp.where(delta < 2, 0.5 * jnp.log(inside), -jnp.inf)
    # 1 − v₀² = 2δ(1 − δ/2)
    log_accept += jnp.where(strong, 0, 0.5 * jnp.log(2 * delta))
    v1, v2, v3 = n * jnp.sqrt(2 * delta * inside / square)
    v = jax.lax.complex(1 - delta, v3), jax.lax.complex(v2, v1)
    v, q = jax.lax.optimization_barrier((v, (q[0] / size.astype(q[0].dtype), q[1] / size.astype(q[1].dtype))))
    # v q†
    return v[0] * jnp.conj(q[0]) + v[1] * jnp.conj(q[1]), v[1] * q[0] - v[0] * q[1], log_accept, kappa


def _cubic(position: Array, cells: int) -> tuple[Array, Array]:
    """The cell of a position in [0, 1], and the weights of the four points around (Lagrange)."""
    scaled = jnp.clip(position, 0, 1) * cells
    cell = jnp.minimum(scaled.astype(jnp.int32), cells - 1)
    t = scaled - cell.astype(scaled.dtype)
    below, above, far = t + 1, t - 1, t - 2
    return cell, jnp.stack([-t * above * far / 6, below * above * far / 2, -below * t * far / 2, below * t * above / 6])


def _grid(is_special: bool) -> tuple[Host, Host]:
    """α and q₀ of a table, with a point beyond each edge to interpolate."""
    alpha, q0 = (np.arange(-1.0, cells + 2) / cells for cells in _CELLS)
    return np.zeros(1) if is_special else np.pi / 2 * alpha, 2 * q0 - 1


def _log_weights(is_special: bool, beta: float, size: int) -> tuple[Host, Host]:
    """ln[K_s(g)/K_s(1)] and Re tr(g − 1) on the grid: characters are e^{i(λ₁ + λ₂)α} U_{λ₁ − λ₂}(q₀)."""
    alpha, q0 = _grid(is_special)
    weights, ratios = characters.representations(2, is_special, beta)
    d = characters.dimensions(weights)
    k = np.zeros((alpha.size, q0.size))
    for spin in np.unique(weights[:, 0] - weights[:, 1]):
        chosen = weights[:, 0] - weights[:, 1] == spin
        of_alpha = np.cos(np.outer(alpha, weights[chosen].sum(axis=1))) @ (d * ratios**size)[chosen]
        k += np.outer(of_alpha, special.eval_chebyu(spin, q0))
    return np.log(np.maximum(k / np.sum(d**2 * ratios**size), _RESOLVED)), 2 * np.outer(np.cos(alpha), q0) - 2


def _log_bound(log_k: Host, re_tr: Host, x: float) -> float:
    """ln B_s: the largest ratio of K_s(g)/K_s(1) to e^{x Re tr(g − 1)} where it is resolved."""
    inside = (log_k > np.log(10 * _RESOLVED)) & (re_tr <= 0)
    return float(np.max((log_k - x * re_tr)[inside]))


def _best_coupling(is_special: bool, beta: float, size: int) -> float:
    """x_s with the largest acceptance; that of all plaquettes is 0, as holonomies come from the Haar measure."""
    if size == 1:
        return beta / 2
    weights = _log_weights(is_special, beta, size)

    def cost(x: float) -> float:
        integral = special.i1e(2 * x) / x if is_special else special.i0e(x) ** 2 - special.i1e(x) ** 2
        return _log_bound(*weights, x) + float(np.log(integral))

    return float(optimize.minimize_scalar(cost, bounds=(_TINY, beta / 2), method="bounded").x)


def _log_factors(is_special: bool, beta: float, size: int, x: float) -> Host:
    """The table of ln[K_s(g)/(B_s e^{x_s Re tr(g − 1)})]."""
    log_k, re_tr = _log_weights(is_special, beta, size)
    if size == 1:
        return np.zeros_like(log_k)
    factors = log_k - x * re_tr - _log_bound(log_k, re_tr, x)
    return np.where(log_k > np.log(10 * _RESOLVED), factors, np.minimum(factors, 0.0))
