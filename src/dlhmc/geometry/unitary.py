"""Unitary matrices: the groups U(N) and SU(N), one matrix for each element of a field.

Matrices come first, x[N, N, *element, chain], so that a product of all elements is a loop over neighbouring numbers.
A momentum is an element of the algebra, V = Σ_a v_a T_a with tr T_a T_b = δ_ab/2 (for N = 1: V = v, an angle), and U
moves by the group, U ← e^{iD}·U. The Haar measure does not change when U is multiplied from the left, so a displacement
that depends on other elements and on v has the Jacobian 1.
"""

import itertools
import math
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Key
from numpy.typing import NDArray

from dlhmc.geometry.contract import Geometry, Momentum, real_dtype
from dlhmc.numerics import rng, trig

Matrices = Complex[Array, "N N *element chain"]

_LARGEST_ANGLE = 1e4


# Within this distance a logarithm is a series of so many terms.
_NEAR, _LOG_TERMS = 0.3, 11


class _Series(NamedTuple):
    """Taylor series of e^{iH/2^k}, exact to rounding for |H| ≤ 2^k, then k squarings."""

    pairs: int
    squarings: int

    @classmethod
    def of(cls, dtype: jnp.dtype) -> "_Series":
        """In float32, longer displacements make no sense."""
        return cls(10, 7) if dtype == jnp.float64 else cls(6, 4)


class UnitaryMatrices(Geometry):
    """U(N) or, if special, SU(N): x[N, N, *element, chain], v[generator, *element, chain].

    >>> UnitaryMatrices(3, special=True, sides=(4, 8, 8, 8, 8)).momentum_shape
    (8, 4, 8, 8, 8, 8)
    """

    is_complex: ClassVar[bool] = True

    colors: int = eqx.field(static=True)
    special: bool = eqx.field(static=True)
    sides: tuple[int, ...] = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """A matrix for each element."""
        return (self.colors, self.colors, *self.sides)

    @property
    def momentum_shape(self) -> tuple[int, ...]:
        """A number for each generator and element."""
        return (self.colors**2 - self.special, *self.sides)

    @property
    def elements(self) -> tuple[int, ...]:
        """Matrices."""
        return self.sides

    def resized(self, elements: tuple[int, ...]) -> "UnitaryMatrices":
        """As many matrices."""
        return UnitaryMatrices(self.colors, self.special, elements)

    def central(self, t: Float[Array, "*element chain"]) -> Momentum | None:
        """Along the unit matrix, the last generator of U(N)."""
        if self.special:
            return None
        others = jnp.zeros((self.momentum_shape[0] - 1, *t.shape), t.dtype)
        return jnp.concatenate([others, t[None]])

    def drift(self, x: Matrices, v: Momentum, displacement: Momentum) -> tuple[Matrices, Momentum]:
        """e^{iD}·U; the momentum belongs to the algebra and stays."""
        return self.rotated(self.hermitian(displacement), x), v

    def difference(self, start: Matrices, end: Matrices) -> Momentum:
        """D with e^{iD}·start = end, the logarithm of end·start†.

        Close by it is 2 atan K of K = tan(D/2), which is smooth where eigenvalues meet; else from eigenvectors.
        """
        quotient = jnp.moveaxis(multiply(end, adjoint(start)), (0, 1), (-2, -1))
        one = jnp.eye(self.colors, dtype=quotient.dtype)
        near = jnp.sum(jnp.abs(quotient - one) ** 2, axis=(-2, -1), keepdims=True) < _NEAR**2
        # Each way gets a harmless matrix where the other one is taken, for the sake of derivatives.
        apart = jnp.asarray(np.diag(np.exp(1j * np.arange(self.colors))), quotient.dtype)
        log = jnp.where(
            near, _near_log(jnp.where(near, quotient, one)), self._far_log(jnp.where(near, apart, quotient))
        )
        return self.components(1j * jnp.moveaxis(log, (-2, -1), (0, 1)))

    def _far_log(self, quotient: Array) -> Array:
        """The logarithm from eigenvectors and phases."""
        vectors = _eigenvectors(quotient)
        phases = jnp.angle(jnp.einsum("...ji,...jk,...ki->...i", jnp.conj(vectors), quotient, vectors))
        if self.special:
            # Phases add up to 2π times an integer: those farthest out go once around the circle.
            turns = jnp.round(jnp.sum(phases, axis=-1, keepdims=True) / (2 * np.pi))
            rank = jnp.argsort(jnp.argsort(-turns * phases, axis=-1), axis=-1).astype(phases.dtype)
            phases = phases - 2 * np.pi * jnp.sign(turns) * (rank < jnp.abs(turns)).astype(phases.dtype)
        return jnp.einsum("...ij,...j,...kj->...ik", vectors, phases.astype(vectors.dtype), jnp.conj(vectors))

    def project(self, x: Matrices) -> Matrices:
        """The nearest unitary matrix to first order in what rounding has added, U(3 − U†U)/2, with determinant 1."""
        x = 1.5 * x - 0.5 * multiply(x, multiply(adjoint(x), x))
        if not self.special:
            return x
        phase = jnp.angle(determinant(x)) / self.colors
        return x * jax.lax.complex(jnp.cos(phase), -jnp.sin(phase))

    def features(self, x: Matrices) -> Float[Array, "feature *element chain"]:
        """Real and imaginary parts."""
        return jnp.concatenate([x.real, x.imag]).reshape(-1, *x.shape[2:])

    def origin(self, chains: int, dtype: jnp.dtype) -> Matrices:
        return identity(jnp.zeros((*self.shape, chains), self.dtype(dtype)))

    @rng.by_chain
    def scatter(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Matrices:
        """Matrices of the Haar measure: complex normal numbers, their rows made orthonormal one after the other."""
        real, imaginary = rng.normal(key, (2, *self.shape, chains), dtype)
        rows: list[Array] = []
        for row in jax.lax.complex(real, imaginary):
            for before in rows:
                row = row - jnp.sum(jnp.conj(before) * row, axis=0) * before
            rows.append(row / jnp.sqrt(jnp.sum(jnp.abs(row) ** 2, axis=0)).astype(row.dtype))
        return self.project(jnp.stack(rows))

    def rotated(self, h: Matrices, x: Matrices) -> Matrices:
        """e^{iH}·U for Hermitian H, unitary to rounding.

        Up to N = 3, powers of the traceless part of H are combinations of 1, H and H² (Cayley–Hamilton), so that its
        exponential needs only the invariants c₁ = tr H²/2 and c₀ = det H: H² = c₁ for N = 2, H³ = c₁H + c₀ for N = 3.
        """
        n = self.colors
        if not self.special:
            shift = trace(h).real / n
            sine, cosine = _sin_cos(shift)
            x = x * jax.lax.complex(cosine, sine)
            h = h - identity(h) * shift.astype(h.dtype)
        if n == 1:
            return x
        if n > 3:
            return multiply(_matrix_exponential(h), x)
        c1, turned = 0.5 * square_norm(h), multiply(h, x)
        if n == 2:
            cosine, ratio = (part.astype(x.dtype) for part in _cos_and_ratio(c1))
            return cosine * x + 1j * ratio * turned
        q0, q1, q2 = _coefficients(determinant(h).real, c1)
        return q0 * x + q1 * turned + q2 * multiply(h, turned)

    # The algebra.

    @property
    def norm(self) -> float:
        """tr T_a²."""
        return 1.0 if self.colors == 1 else 0.5

    def generators(self) -> NDArray[np.complex128]:
        """T_a: a real and an imaginary one for each pair of colors, then diagonal ones, the unit matrix last."""
        n = self.colors
        found = []
        for (i, j), entry in itertools.product(itertools.combinations(range(n), 2), (0.5, -0.5j)):
            t = np.zeros((n, n), complex)
            t[i, j], t[j, i] = entry, np.conj(entry)
            found.append(t)
        return np.array(found + [np.diag(d).astype(complex) for d in self._diagonals()])

    def _diagonals(self) -> list[NDArray[np.float64]]:
        """Traceless diagonal generators and, for U(N), the unit matrix, all of the same norm."""
        n = self.colors
        rows = [np.array([1.0] * k + [-k] + [0.0] * (n - k - 1)) for k in range(1, n)]
        rows += [] if self.special else [np.ones(n)]
        return [row * np.sqrt(self.norm / (row @ row)) for row in rows]

    # Matrices are split and put together entry by entry: derivatives fill slices up with zeros and add them, and would
    # compute what a sum over generators is multiplied with anew for each of them.

    def hermitian(self, v: Momentum) -> Matrices:
        """V = Σ_a v_a T_a."""
        n, generators = self.colors, self.generators()
        parts = jnp.split(v.astype(self.dtype(v.dtype)), len(generators))

        def entry(i: int, j: int) -> Array:
            terms = [t[i, j].item() * part for t, part in zip(generators, parts, strict=True) if t[i, j]]
            return sum(terms[1:], terms[0])

        entries = [entry(i, j) for i, j in itertools.product(range(n), repeat=2)]
        return jnp.concatenate(entries).reshape(n, n, *v.shape[1:])

    def components(self, m: Matrices) -> Momentum:
        """v_a of the Hermitian matrix (M − M†)/2i = Σ_a v_a T_a, for SU(N) of its traceless part."""
        n, parts = self.colors, []
        entries = jnp.split(m.reshape(n * n, *m.shape[2:]), n * n)
        for i, j in itertools.combinations(range(n), 2):
            upper, lower = entries[n * i + j], entries[n * j + i]
            parts += [upper.imag + lower.imag, upper.real - lower.real]
        for d in self._diagonals():
            terms = [(weight / self.norm).item() * entries[n * i + i].imag for i, weight in enumerate(d) if weight]
            parts.append(sum(terms[1:], terms[0]))
        return jnp.concatenate(parts)


def _near_log(quotient: Array) -> Array:
    """2 atan K = 2(K − K³/3 + …) of the Cayley transform K = −i(W − 1)(W + 1)⁻¹, where |W − 1| is small."""
    one = jnp.eye(quotient.shape[-1], dtype=quotient.dtype)
    k = -1j * jnp.linalg.solve(quotient + one, quotient - one)
    square, series = k @ k, jnp.zeros_like(k)
    for n in reversed(range(_LOG_TERMS)):
        series = (-1) ** n / (2 * n + 1) * one + square @ series
    return 2 * k @ series


def eigenvectors(w: Matrices) -> Matrices:
    """Those of unitary matrices, as columns."""
    if w.shape[0] == 1:
        return jnp.ones_like(w)
    return jnp.moveaxis(_eigenvectors(jnp.moveaxis(w, (0, 1), (-2, -1))), (-2, -1), (0, 1))


def _eigenvectors(w: Complex[Array, "... N N"]) -> Complex[Array, "... N N"]:
    dagger = jnp.conj(jnp.swapaxes(w, -1, -2))
    # The Hermitian matrices W + W† and i(W† − W) have the eigenvectors of W; so has a sum that mixes them.
    return jnp.linalg.eigh((w + dagger) + (0.6180339887 * 1j) * (dagger - w))[1]


def multiply(a: Matrices, b: Matrices) -> Matrices:
    """A·B of every element: as a sum over a short axis, which XLA vectorises on a CPU (einsum is ten times slower)."""
    return jnp.sum(a[:, :, None] * b[None], axis=1)


def adjoint(a: Matrices) -> Matrices:
    """A†."""
    return jnp.conj(jnp.swapaxes(a, 0, 1))


def trace(a: Matrices) -> Complex[Array, "*element chain"]:
    """Tr A."""
    return sum((a[i, i] for i in range(1, a.shape[0])), a[0, 0])


def trace_of_product(a: Matrices, b: Matrices) -> Complex[Array, "*element chain"]:
    """Tr A·B."""
    return jnp.sum(a * jnp.swapaxes(b, 0, 1), axis=(0, 1))


def determinant(a: Matrices) -> Complex[Array, "*element chain"]:
    """Det A, along the first row."""
    return _minor(a, tuple(range(a.shape[0])))


def _minor(a: Matrices, columns: tuple[int, ...]) -> Complex[Array, "*element chain"]:
    """Of these columns and as many of the last rows: entry by entry, which XLA does in one loop."""
    row = a.shape[0] - len(columns)
    if len(columns) == 1:
        return a[row, columns[0]]
    rest = [tuple(other for other in columns if other != column) for column in columns]
    terms = [(-1) ** k * a[row, column] * _minor(a, rest[k]) for k, column in enumerate(columns)]
    return sum(terms[1:], terms[0])


def square_norm(a: Matrices) -> Float[Array, "*element chain"]:
    """Tr A·A†."""
    parts = [part * part for entry in itertools.product(range(a.shape[0]), repeat=2) for part in _parts(a[entry])]
    return sum(parts[1:], parts[0])


def _parts(z: Array) -> tuple[Array, Array]:
    return z.real, z.imag


def identity(like: Matrices) -> Matrices:
    """The unit matrix of every element."""
    n = like.shape[0]
    return jnp.broadcast_to(jnp.eye(n, dtype=like.dtype).reshape(n, n, *(1,) * (like.ndim - 2)), like.shape)


Coefficients = tuple[Array, Array, Array]


def _coefficients(c0: Float[Array, "..."], c1: Float[Array, "..."]) -> Coefficients:
    """q with e^{iH} = q₀ + q₁H + q₂H² where H³ = c₁H + c₀; NaN for |H| too large for the series.

    Squarings are a loop: XLA would compute everything again for each entry of the matrix, while a loop's result is
    written out.
    """
    series = _Series.of(c0.dtype)
    scale = 0.5**series.squarings
    c0, c1 = c0 * scale**3, c1 * scale**2

    def horner(first: int) -> Coefficients:
        """Σ_m (−1)^m H^{2m}/(2m + first)!, where H²(q₀, q₁, q₂) = (c₀q₁, c₁q₁ + c₀q₂, q₀ + c₁q₂)."""
        terms = [(-1) ** m / math.factorial(2 * m + first) for m in reversed(range(series.pairs))]

        def next_of(q: Coefficients, term: Array) -> tuple[Coefficients, None]:
            q0, q1, q2 = q
            return (c0 * q1 + term, c1 * q1 + c0 * q2, q0 + c1 * q2), None

        zero = jnp.zeros_like(c0)
        return jax.lax.scan(next_of, (zero, zero, zero), jnp.asarray(terms, c0.dtype))[0]

    def squared(_: int, q: Coefficients) -> Coefficients:
        q0, q1, q2 = q
        third, fourth = 2 * q1 * q2, q2 * q2
        return q0 * q0 + z0 * third, 2 * q0 * q1 + z1 * third + z0 * fourth, q1 * q1 + 2 * q0 * q2 + z1 * fourth

    q0, q1, q2 = horner(1)
    sine = (c0 * q2, q0 + c1 * q2, q1)  # times H
    start = tuple(map(jax.lax.complex, horner(0), sine))
    z0, z1 = (c.astype(start[0].dtype) for c in (c0, c1))
    q0, q1, q2 = jax.lax.fori_loop(0, series.squarings, squared, start)
    # The square of the largest eigenvalue is at most 4/3 of c₁ = tr H²/2.
    return jnp.where(c1 <= 0.75, q0, jnp.nan), q1 * scale, q2 * scale**2


def _sin_cos(angle: Float[Array, "..."]) -> tuple[Array, Array]:
    """NaN for angles too large for the sine of float32."""
    sine, cosine = trig.sin_cos(angle)
    return sine, jnp.where(jnp.abs(angle) < _LARGEST_ANGLE, cosine, jnp.nan)


def _cos_and_ratio(c1: Float[Array, "..."]) -> tuple[Array, Array]:
    """cos r and sin(r)/r of r = √c₁, smooth at 0."""
    small = c1 < 1e-3
    r = jnp.sqrt(jnp.where(small, 1, c1))
    sine, cosine = _sin_cos(r)
    ratio = 1 - c1 / 6 * (1 - c1 / 20 * (1 - c1 / 42))
    return jnp.where(small, 1 - c1 / 2 * (1 - c1 / 12 * (1 - c1 / 30)), cosine), jnp.where(small, ratio, sine / r)


def _matrix_exponential(h: Matrices) -> Matrices:
    """e^{iH} by the same series, with matrices."""
    series, one = _Series.of(real_dtype(h)), identity(h)
    x = (1j * 0.5**series.squarings) * h
    factors = jnp.asarray(1 / np.arange(2 * series.pairs, 0, -1), h.dtype)
    e, _ = jax.lax.scan(lambda e, factor: (one + factor * multiply(x, e), None), one, factors)
    e = jax.lax.fori_loop(0, series.squarings, lambda _, e: multiply(e, e), e)
    return jnp.where(square_norm(x) <= 1, e, jnp.nan)
