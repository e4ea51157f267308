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

Elements of U(2) are e^{iα}·q with a unit quaternion q; here they are arrays (α, q₀, q₁, q₂, q₃).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, erfinv
from jaxtyping import Array, Complex, Float, Int, Key
from numpy.typing import NDArray
from scipy import optimize, special

from dlhmc.exact import characters
from dlhmc.numerics import rng, trig
from dlhmc.numerics.leaves import leaf

Links = Complex[Array, "2 2 mu x t chain"]
Elements = Float[Array, "5 *shape chain"]
Quaternions = Float[Array, "4 *shape chain"]
PerElement = Float[Array, "*shape chain"]
Normals = Float[Array, "3 *shape chain"]
Uniforms = Float[Array, "2 *shape chain"]
Host = NDArray[np.float64]

_CELLS = (64, 128)  # of a table: α ∈ [0, π/2], q₀ ∈ [−1, 1]
_RESOLVED = 1e-13  # smallest K_s(g)/K_s(1) that the sum over representations resolves
_TINY = 1e-6
_IN_BOUNDS: dict[str, Any] = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
_STRONG = 1.6847376  # where √(π/2) e^κ/κ^{3/2} = 2 sinh(κ)/κ


class TorusDraws(eqx.Module):
    """Exact draws on a lattice at one coupling; the couplings x_s of all parts and their tables are leaves."""

    lattice: tuple[int, int] = eqx.field(static=True)
    special: bool = eqx.field(static=True)
    couplings: Float[Array, " part"]
    tables: Float[Array, "part alpha q0"]

    @classmethod
    def build(cls, lattice: tuple[int, int], colors: int, special: bool, beta: float) -> "TorusDraws":
        """The sampler for one coupling; the tables are computed on the host."""
        if colors != 2:
            raise ValueError(f"There are exact draws for U(2) and SU(2) only, not for {colors} colours.")
        sizes = _sizes(lattice[0] * lattice[1])
        parts = [_part(special, beta, size, sizes[0]) for size in sizes]
        couplings, tables = zip(*parts, strict=True)
        return cls(lattice, special, leaf(np.array(couplings)), leaf(np.array(tables)))

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Links:
        """One independent configuration for each chain, complex links of the precision `dtype`."""
        dtype = jnp.dtype(dtype)
        of_holonomies, of_plaquettes, of_gauge = jax.random.split(key, 3)
        a, b = self._holonomies(of_holonomies, chains, dtype)
        links = _from_plaquettes(self._plaquettes(of_plaquettes, _commutator(a, b)), a, b)
        g = self._haar(of_gauge, (*self.lattice, chains), dtype)
        ahead = jnp.stack([jnp.roll(g, -1, axis=1), jnp.roll(g, -1, axis=2)], axis=1)
        return _matrices(_product(_product(jnp.broadcast_to(g[:, None], links.shape), links), _inverse(ahead)))

    def _haar(self, key: Key[Array, ""], shape: tuple[int, ...], dtype: jnp.dtype) -> Elements:
        of_angle, of_quaternion = jax.random.split(key)
        # α and α + π with −q are the same
        angle = jnp.zeros(shape, dtype) if self.special else np.pi * (rng.uniform(of_angle, shape, dtype) - 0.5)
        q = rng.normal(of_quaternion, (4, *shape), dtype)
        return jnp.concatenate([angle[None], q / jnp.sqrt(jnp.sum(q * q, axis=0))])

    def _holonomies(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> tuple[Elements, Elements]:
        def propose(key: Key[Array, ""]) -> tuple[Elements, PerElement]:
            pair = self._haar(key, (2, chains), dtype)
            return pair, self._log_factor(jnp.zeros(chains, jnp.int32), _commutator(pair[:, 0], pair[:, 1]))

        pair = rng.first_accepted(key, propose)
        return pair[:, 0], pair[:, 1]

    def _log_factor(self, part: Int[Array, " chain"], g: Elements) -> PerElement:
        """ln[K_s(g)/(B_s e^{x_s Re tr(g − 1)})] ≤ 0 with the s of each part, by cubic interpolation in the tables."""
        turns = jnp.round(g[0] / np.pi)  # e^{iα}·q = e^{i(α − π)}·(−q)
        alpha = jnp.abs(g[0] - np.pi * turns)
        q0 = jnp.where(turns.astype(jnp.int32) % 2 == 0, g[1], -g[1])
        rows, columns = self.tables.shape[1:]
        table = jnp.asarray(self.tables, g.dtype).ravel()
        first = part * (rows * columns)
        column, column_weights = _cubic(0.5 * (q0 + 1), _CELLS[1])
        if self.special:
            terms = [w * table.at[first + column + j].get(**_IN_BOUNDS) for j, w in enumerate(column_weights)]
        else:
            row, row_weights = _cubic(alpha * (2 / np.pi), _CELLS[0])
            start = first + row * columns + column
            terms = [
                v * w * table.at[start + (i * columns + j)].get(**_IN_BOUNDS)
                for i, v in enumerate(row_weights)
                for j, w in enumerate(column_weights)
            ]
        return sum(terms[1:], terms[0])

    def _plaquettes(self, key: Key[Array, ""], product: Elements) -> Float[Array, "5 x t chain"]:
        """All plaquettes, in an order in which they have this product, by splits of ever smaller parts.

        Each chain goes on to its next split when one is accepted, and does not wait for others. The product of
        plaquettes i to j is kept at i.
        """
        volume, chains, dtype = self.lattice[0] * self.lattice[1], product.shape[-1], product.dtype
        heat_bath = _heat_bath_su2 if self.special else _heat_bath_u2
        first, second, *halves = (jnp.asarray(column) for column in _splits(volume).T)
        couplings = jnp.asarray(self.couplings, dtype)
        chain = jnp.arange(chains, dtype=jnp.int32)

        def at(products: Elements, place: Int[Array, " chain"]) -> Any:
            return products.at[:, place, chain]

        Carry = tuple[Array, Int[Array, " chain"], Elements]

        def attempt(carry: Carry) -> Carry:
            count, done, products = carry
            of_normal, of_uniform = jax.random.split(jax.random.fold_in(key, count))
            n, u = rng.normal(of_normal, (3, chains), dtype), rng.uniform(of_uniform, (3, chains), dtype)
            split = jnp.minimum(done, volume - 2)
            left, right = halves[0][split], halves[1][split]
            r = at(products, first[split]).get(**_IN_BOUNDS)
            # Barriers: XLA would compute all of it again for every index into the tables.
            h, log_accept = jax.lax.optimization_barrier(heat_bath(couplings[left], couplings[right], r, n, u[:2]))
            other = jax.lax.optimization_barrier(_product(_inverse(h), r))
            log_accept += self._log_factor(left, h) + self._log_factor(right, other)
            accept = (jnp.log(u[2]) < log_accept) & (done < volume - 1)
            products = at(products, first[split]).set(jnp.where(accept, h, r), **_IN_BOUNDS)
            rest = at(products, second[split]).get(**_IN_BOUNDS)
            products = at(products, second[split]).set(jnp.where(accept, other, rest), **_IN_BOUNDS)
            return count + 1, done + accept.astype(jnp.int32), products

        start = (
            jnp.zeros((), jnp.int32),
            jnp.zeros(chains, jnp.int32),
            jnp.broadcast_to(product[:, None], (5, volume, chains)),
        )
        _, _, products = jax.lax.while_loop(lambda carry: jnp.any(carry[1] < volume - 1), attempt, start)
        return products.reshape(5, *self.lattice, chains)


def _splits(volume: int) -> NDArray[np.int32]:
    """All splits from the whole lattice to single plaquettes: where both halves begin, and which table they have."""
    index = {size: number for number, size in enumerate(_sizes(volume))}
    parts, splits = [(0, volume)], []
    for start, size in parts:  # the list grows meanwhile
        if size > 1:
            left, right = _halves(size)
            splits.append((start, start + left, index[left], index[right]))
            parts += [(start, left), (start + left, right)]
    return np.array(splits, dtype=np.int32)


def _halves(size: int) -> tuple[int, int]:
    return (size + 1) // 2, size // 2


def _sizes(volume: int) -> list[int]:
    """All sizes of parts, the largest first."""
    sizes = {volume}
    while not {half for size in sizes if size > 1 for half in _halves(size)} <= sizes:
        sizes |= {half for size in sizes if size > 1 for half in _halves(size)}
    return sorted(sizes, reverse=True)


def _multiply(p: Quaternions, q: Quaternions) -> Quaternions:
    """The quaternion of the product of two matrices; with U = q₀ + i q·σ, σ_a σ_b = δ_ab + i ε_abc σ_c."""
    (p0, p1, p2, p3), (q0, q1, q2, q3) = p, q
    return jnp.stack(
        [
            p0 * q0 - p1 * q1 - p2 * q2 - p3 * q3,
            p0 * q1 + p1 * q0 - p2 * q3 + p3 * q2,
            p0 * q2 + p2 * q0 - p3 * q1 + p1 * q3,
            p0 * q3 + p3 * q0 - p1 * q2 + p2 * q1,
        ]
    )


def _conjugate(q: Quaternions) -> Quaternions:
    """U†, the inverse of U."""
    return jnp.concatenate([q[:1], -q[1:]])


def _product(g: Elements, h: Elements) -> Elements:
    return jnp.concatenate([g[:1] + h[:1], _multiply(g[1:], h[1:])])


def _commutator(g: Elements, h: Elements) -> Elements:
    return _product(_product(g, h), _product(_inverse(g), _inverse(h)))


def _inverse(g: Elements) -> Elements:
    return jnp.concatenate([-g[:1], _conjugate(g[1:])])


def _heat_bath_su2(x: Array, y: Array, r: Elements, n: Normals, u: Uniforms) -> tuple[Elements, PerElement]:
    """H of SU(2) with the density e^{Re tr H(x + y R†)}, and the logarithm of the probability to accept it."""
    q = y * _conjugate(r[1:])
    h, log_accept = _quaternion(q.at[0].add(x), n, u[1])
    return jnp.concatenate([jnp.zeros_like(r[:1]), h]), log_accept


def _heat_bath_u2(x: Array, y: Array, r: Elements, n: Normals, u: Uniforms) -> tuple[Elements, PerElement]:
    """H = e^{iα}·h of U(2) with the density e^{Re tr H(x + y R†)}, and the logarithm of the probability to accept it.

    For R = e^{iρ}·r, Re tr H(x + y R†) = 2 Re h·q with the quaternion q = x cos α + y cos(α − ρ) r†. `_quaternion`
    draws h for a given α, and its M(κ), κ = 2|q|, is left as the density of α. There κ² = z₀ + z₁ cos ψ, with ψ = 2α +
    arg det(x + y R†). As a function of κ², ln M is concave but for its kink, and for all κ² ≤ k² = z₀ + z₁ it is below
    ln M(k) + 0.15 + (κ² − k²)/(4 + 2√(1 + k²)). So M(κ)/M(k) ≤ e^{0.15 + η(cos ψ − 1)} ≤ e^{0.15 − 2ηψ²/π²}, and ψ is
    drawn from a truncated normal distribution.
    """
    rho, r0 = r[0], r[1]
    sine, cosine = trig.sin_cos(rho)
    real = x * x + y * y * (cosine * cosine - sine * sine) + 2 * x * y * r0 * cosine
    imaginary = -2 * y * sine * (y * cosine + x * r0)
    z0 = 2 * (x * x + y * y) + 4 * x * y * r0 * cosine
    size = jnp.sqrt(real * real + imaginary * imaginary)
    largest = jnp.sqrt(jnp.maximum(z0 + 2 * size, _TINY**2))
    eta = jnp.maximum(size / (2 + jnp.sqrt(1 + largest * largest)), _TINY)
    root = jnp.sqrt(2 * eta)
    psi = (np.pi / root) * erfinv((2 * u[0] - 1) * erf(root))
    # arg z = 2 arctan(Im z/(|z| + Re z)) = 2 arctan((|z| − Re z)/Im z)
    safe = jnp.where(imaginary == 0, _TINY**2, imaginary)
    alpha = 0.5 * psi - trig.atan(jnp.where(real > 0, imaginary / (size + real + _TINY**2), (size - real) / safe))
    q = (y * trig.cos(alpha - rho)) * _conjugate(r[1:])
    q = q.at[0].add(x * trig.cos(alpha))
    kappa = jnp.maximum(2 * jnp.sqrt(jnp.sum(q * q, axis=0)), _TINY)
    h, log_accept = _quaternion(q, n, u[1])
    log_accept += _log_mass(kappa) - _log_mass(largest) - 0.15 + (root * psi / np.pi) ** 2
    return jnp.concatenate([alpha[None], h]), log_accept


def _log_mass(kappa: PerElement) -> PerElement:
    """ln M of `_quaternion`, up to a constant."""
    weak, strong = -jnp.expm1(-2 * kappa) / kappa, np.sqrt(np.pi / 2) / (kappa * jnp.sqrt(kappa))
    return kappa + jnp.log(jnp.where(kappa < _STRONG, weak, strong))


def _quaternion(q: Float[Array, "4 *shape chain"], n: Normals, u: PerElement) -> tuple[Array, PerElement]:
    """h with the density e^{2 Re h·q}, and the logarithm of the probability to accept it.

    v = h·q/|q| has the density √(1 − v₀²) e^{κv₀}, κ = 2|q|, of its real part. Where κ is large, δ = 1 − v₀ comes from
    √δ e^{−κδ} (A. D. Kennedy and B. J. Pendleton, Phys. Lett. B 156 (1985) 393): it is n²/2κ for a normal vector n, of
    which v has the direction. Elsewhere v₀ is drawn from e^{κv₀} (M. Creutz, Phys. Rev. D 21 (1980) 2308). Normalised,
    they exceed the density of v₀ if multiplied by M(κ) = √(π/2) e^κ/κ^{3/2} or 2 sinh(κ)/κ, whichever is smaller.
    """
    size = jnp.sqrt(jnp.sum(q * q, axis=0) + jnp.finfo(q.dtype).tiny)
    kappa = jnp.maximum(2 * size, _TINY)
    square = jnp.sum(n * n, axis=0)
    strong = kappa > _STRONG
    delta = jnp.where(strong, 0.5 * square / kappa, -jnp.log1p(u * jnp.expm1(-2 * kappa)) / kappa)
    inside = jnp.clip(1 - 0.5 * delta, jnp.finfo(size.dtype).tiny, 1)
    log_accept = jnp.where(delta < 2, 0.5 * jnp.log(inside), -jnp.inf)
    # 1 − v₀² = 2δ(1 − δ/2)
    log_accept += jnp.where(strong, 0, 0.5 * jnp.log(2 * delta))
    v = jnp.concatenate([(1 - delta)[None], n * jnp.sqrt(2 * delta * inside / square)])
    return _multiply(v, _conjugate(q / size)), log_accept


def _cubic(position: Array, cells: int) -> tuple[Array, tuple[Array, ...]]:
    """The cell of a position in [0, 1], and the weights of the four points around (Lagrange)."""
    scaled = jnp.clip(position, 0, 1) * cells
    cell = jnp.minimum(scaled.astype(jnp.int32), cells - 1)
    t = scaled - cell.astype(scaled.dtype)
    below, above, far = t + 1, t - 1, t - 2
    return cell, (-t * above * far / 6, below * above * far / 2, -below * t * far / 2, below * t * above / 6)


def _from_plaquettes(p: Float[Array, "5 x t chain"], a: Elements, b: Elements) -> Float[Array, "5 2 x t chain"]:
    """Links with the plaquettes P(i, j) = p[:, Lx − 1 − i, j]: their ordered product is A B A† B†.

    The tree holds all links along 1 but those of the last column, and the links along 0 of column 0 but the last. Then
    P(i, j) = U_0(i, j) U_0(i, j + 1)† except in the last column, and with c(i) = U_1(i, Lt − 1) the product of row i is
    c(i + 1) c(i)†, or A B A† c(i)† for the last row.
    """
    p = p[:, ::-1]
    one = jnp.zeros_like(p[:, :, 0]).at[1].set(1)
    start = one.at[:, -1].set(a)

    def along_row(u: Elements, p: Elements) -> tuple[Elements, Elements]:
        return _product(_inverse(p), u), u

    last, along_0 = jax.lax.scan(along_row, start, jnp.moveaxis(p, 2, 0))
    rows = jnp.moveaxis(_inverse(last), 1, 0)  # the products of the rows, in all but the last one

    def along_column(u: Elements, row: Elements) -> tuple[Elements, Elements]:
        return _product(row, u), u

    _, closing = jax.lax.scan(along_column, b, rows)
    along_1 = jnp.broadcast_to(one[:, :, None], p.shape).at[:, :, -1].set(jnp.moveaxis(closing, 0, 1))
    return jnp.stack([jnp.moveaxis(along_0, 0, 2), along_1], axis=1)


def _matrices(g: Float[Array, "5 *shape chain"]) -> Complex[Array, "2 2 *shape chain"]:
    """e^{iα}(q₀ + i Σ_a q_a σ_a), without what many products have added by rounding."""
    phase = jax.lax.complex(jnp.cos(g[0]), jnp.sin(g[0]))
    q0, q1, q2, q3 = g[1:] / jnp.sqrt(jnp.sum(g[1:] ** 2, axis=0))
    rows = [
        [jax.lax.complex(q0, q3), jax.lax.complex(q2, q1)],
        [jax.lax.complex(-q2, q1), jax.lax.complex(q0, -q3)],
    ]
    return phase * jnp.stack([jnp.stack(row) for row in rows])


def _part(special_group: bool, beta: float, size: int, largest: int) -> tuple[float, Host]:
    """x_s, and the table of ln[K_s(g)/(B_s e^{x_s Re tr(g − 1)})], with points beyond the edges to interpolate.

    x_s makes the acceptance as large as possible. For all plaquettes together it is 0: holonomies are proposed from the
    Haar measure.
    """
    step = np.pi / (2 * _CELLS[0])
    alpha: Host = np.zeros(1) if special_group else step * np.arange(-1.0, _CELLS[0] + 2)
    q0 = np.linspace(-1, 1, _CELLS[1] + 1)
    re_tr = 2 * np.cos(alpha)[:, None] * q0 - 2
    log_k = np.log(np.maximum(_relative_weight(special_group, beta, size, alpha, q0), _RESOLVED))
    resolved = log_k > np.log(10 * _RESOLVED)

    def log_bound(x: float) -> float:
        return float(np.max((log_k - x * re_tr)[resolved]))

    def cost(x: float) -> float:
        integral = special.i1e(2 * x) / x if special_group else special.i0e(x) ** 2 - special.i1e(x) ** 2
        return log_bound(x) + float(np.log(integral))

    if size == 1:
        return beta / 2, np.zeros((alpha.size, q0.size + 2))
    x = 0.0 if size == largest else float(optimize.minimize_scalar(cost, bounds=(_TINY, beta / 2), method="bounded").x)
    factor = np.minimum(log_k - x * re_tr - log_bound(x), 0.0)
    left, right = (4 * f[:, :1] - 6 * f[:, 1:2] + 4 * f[:, 2:3] - f[:, 3:4] for f in (factor, factor[:, ::-1]))
    return x, np.concatenate([left, factor, right], axis=1)


def _relative_weight(special_group: bool, beta: float, size: int, alpha: Host, q0: Host) -> Host:
    """K_s(g)/K_s(1) for g = e^{iα}·q: the character of λ is e^{i(λ₁ + λ₂)α} U_{λ₁ − λ₂}(q₀), U of Chebyshev."""
    weights, ratios = characters.representations(2, special_group, beta)
    d = characters.dimensions(weights)
    k = np.zeros((alpha.size, q0.size))
    for spin in np.unique(weights[:, 0] - weights[:, 1]):
        chosen = weights[:, 0] - weights[:, 1] == spin
        of_alpha = np.cos(np.outer(alpha, weights[chosen].sum(axis=1))) @ (d * ratios**size)[chosen]
        k += np.outer(of_alpha, special.eval_chebyu(spin, q0))
    return k / np.sum(d**2 * ratios**size)
