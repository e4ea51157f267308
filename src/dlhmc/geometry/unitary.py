"""Unitary matrices: the groups U(N) and SU(N), one matrix for each element of a field.

Matrices come first, x[N, N, *element, chain], so that a product of all elements is a loop over neighbouring numbers.
A momentum is an element of the algebra, V = Σ_a v_a T_a with tr T_a T_b = δ_ab/2 (for N = 1: V = v, an angle), and U
moves by the group, U ← e^{iD}·U. The Haar measure does not change when U is multiplied from the left, so a displacement
that depends on other elements and on v has the Jacobian 1.
"""

import itertools
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Key
from numpy.typing import NDArray

from dlhmc.geometry.contract import Geometry, Momentum, real_dtype
from dlhmc.numerics import rng, trig

Matrices = Complex[Array, "N N *element chain"]

# Taylor series of e^{iH/2^k} to rounding for |H| ≤ 2^k, and k squarings.
_TERMS = {jnp.dtype(jnp.float32): 11, jnp.dtype(jnp.float64): 18}
_SQUARINGS = 6


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

    def drift(self, x: Matrices, v: Momentum, displacement: Momentum) -> tuple[Matrices, Momentum]:
        """e^{iD}·U; the momentum belongs to the algebra and stays."""
        return multiply(exponential(self.hermitian(displacement)), x), v

    def difference(self, start: Matrices, end: Matrices) -> Momentum:
        """D with e^{iD}·start = end, from eigenvectors and phases of end·start†."""
        quotient = jnp.moveaxis(multiply(end, adjoint(start)), (0, 1), (-2, -1))
        dagger = jnp.conj(jnp.swapaxes(quotient, -1, -2))
        # The Hermitian matrices W + W† and i(W† − W) have the eigenvectors of W; so has a sum that mixes them.
        _, vectors = jnp.linalg.eigh((quotient + dagger) + (0.6180339887 * 1j) * (dagger - quotient))
        rotated = jnp.einsum("...ji,...jk,...ki->...i", jnp.conj(vectors), quotient, vectors)
        phases = jnp.angle(rotated)
        if self.special:
            # Phases add up to 2π times an integer: those farthest out go once around the circle.
            turns = jnp.round(jnp.sum(phases, axis=-1, keepdims=True) / (2 * np.pi))
            rank = jnp.argsort(jnp.argsort(-turns * phases, axis=-1), axis=-1)
            phases = phases - 2 * np.pi * jnp.sign(turns) * (rank < jnp.abs(turns)).astype(phases.dtype)
        log = jnp.einsum("...ij,...j,...kj->...ik", vectors, phases.astype(vectors.dtype), jnp.conj(vectors))
        return self.components(1j * jnp.moveaxis(log, (-2, -1), (0, 1)))

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

    @rng.by_chain
    def haar(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Matrices:
        """Matrices of the Haar measure: complex normal numbers, their rows made orthonormal one after the other."""
        real, imaginary = rng.normal(key, (2, *self.shape, chains), dtype)
        rows: list[Array] = []
        for row in jax.lax.complex(real, imaginary):
            for before in rows:
                row = row - jnp.sum(jnp.conj(before) * row, axis=0) * before
            rows.append(row / jnp.sqrt(jnp.sum(jnp.abs(row) ** 2, axis=0)))
        return self.project(jnp.stack(rows))

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

    def hermitian(self, v: Momentum) -> Matrices:
        """V = Σ_a v_a T_a."""
        t = self.generators().astype(jnp.result_type(v.dtype, jnp.complex64))
        return jnp.sum(v[:, None, None] * t.reshape(*t.shape, *(1,) * (v.ndim - 1)), axis=0)

    def components(self, m: Matrices) -> Momentum:
        """v_a of the Hermitian matrix (M − M†)/2i = Σ_a v_a T_a, for SU(N) of its traceless part."""
        parts = []
        for i, j in itertools.combinations(range(self.colors), 2):
            parts += [m[i, j].imag + m[j, i].imag, m[i, j].real - m[j, i].real]
        for d in self._diagonals():
            terms = [(weight / self.norm).item() * m[i, i].imag for i, weight in enumerate(d) if weight]
            parts.append(sum(terms[1:], terms[0]))
        return jnp.stack(parts)


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
    n = a.shape[0]
    if n == 1:
        return a[0, 0]
    columns = range(n)
    minors = [determinant(jnp.stack([a[1:, k] for k in columns if k != j], axis=1)) for j in columns]
    terms = [(-1) ** j * a[0, j] * minor for j, minor in zip(columns, minors, strict=True)]
    return sum(terms[1:], terms[0])


def identity(like: Matrices) -> Matrices:
    """The unit matrix of every element."""
    n = like.shape[0]
    return jnp.broadcast_to(jnp.eye(n, dtype=like.dtype).reshape(n, n, *(1,) * (like.ndim - 2)), like.shape)


def exponential(h: Matrices) -> Matrices:
    """e^{iH} of Hermitian matrices: Taylor series and squarings, unitary to rounding for |H| up to 2⁶.

    Up to N = 3, powers of H are combinations of 1 … H^{N−1} (Cayley–Hamilton), and series and squarings need only its
    invariants: c₁ = tr H²/2 and c₀ = det H of the traceless part, H³ = c₁H + c₀, for N = 2 without c₀.
    """
    n = h.shape[0]
    shift = trace(h).real / n
    phase = jax.lax.complex(*reversed(trig.sin_cos(shift)))
    if n == 1:
        return phase[None, None]
    h = h - shift.astype(h.dtype) * identity(h)
    if n > 3:
        return phase * _matrix_exponential(h)
    square = multiply(h, h)
    c1 = 0.5 * trace(square).real
    c0 = jnp.zeros_like(c1) if n == 2 else trace_of_product(square, h).real / 3
    q0, q1, q2 = _coefficients(c0, c1)
    return phase * (q0 * identity(h) + q1 * h + q2 * square)


Coefficients = tuple[Array, Array, Array]


def _coefficients(c0: Float[Array, "..."], c1: Float[Array, "..."]) -> Coefficients:
    """q with e^{iH} = q₀ + q₁H + q₂H² where H³ = c₁H + c₀.

    By loops: XLA would compute everything again for each element of the matrix, while a loop's result is written out.
    """
    scale = 0.5**_SQUARINGS
    c0, c1 = c0 * scale**3, c1 * scale**2
    complex_dtype = jnp.result_type(c0.dtype, jnp.complex64)
    inverse = 1j / np.arange(_TERMS[jnp.dtype(c0.dtype)], 0, -1)

    def term(q: Coefficients, factor: Array) -> tuple[Coefficients, None]:
        """1 + (iH/k)·q: Horner's scheme."""
        q0, q1, q2 = q
        return (1 + factor * (c0 * q2), factor * (q0 + c1 * q2), factor * q1), None

    def squared(_: int, q: Coefficients) -> Coefficients:
        q0, q1, q2 = q
        third, fourth = 2 * q1 * q2, q2 * q2
        return q0 * q0 + c0 * third, 2 * q0 * q1 + c1 * third + c0 * fourth, q1 * q1 + 2 * q0 * q2 + c1 * fourth

    zero = jnp.zeros_like(c0, complex_dtype)
    q, _ = jax.lax.scan(term, (zero + 1, zero, zero), jnp.asarray(inverse, complex_dtype))
    q0, q1, q2 = jax.lax.fori_loop(0, _SQUARINGS, squared, q)
    return q0, q1 * scale, q2 * scale**2


def _matrix_exponential(h: Matrices) -> Matrices:
    """The same with matrices."""
    x = (1j * 0.5**_SQUARINGS) * h
    one = identity(h)
    inverse = 1 / np.arange(_TERMS[real_dtype(h)], 0, -1)
    series, _ = jax.lax.scan(
        lambda e, factor: (one + factor * multiply(x, e), None), one, jnp.asarray(inverse, h.dtype)
    )
    return jax.lax.fori_loop(0, _SQUARINGS, lambda _, e: multiply(e, e), series)
