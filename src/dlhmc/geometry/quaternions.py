"""SU(2) as unit quaternions q = (q₀, q₁, q₂, q₃), U = q₀ + i Σ_a q_a σ_a: a group to show that geometry carries one.

Momenta are v = Σ_a v_a σ_a/2, and U moves by the group, U ← e^{i Σ_a d_a σ_a/2}·U. The Haar measure does not change
when U is multiplied from the left, so a displacement that depends on other elements and on v has the Jacobian 1.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from dlhmc.geometry.contract import Geometry, Momentum

Quaternions = Float[Array, "4 *element chain"]


class UnitQuaternions(Geometry):
    """One SU(2) matrix for each element: x[4, *element, chain], v[3, *element, chain]."""

    sides: tuple[int, ...] = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """Four numbers for each element."""
        return (4, *self.sides)

    @property
    def momentum_shape(self) -> tuple[int, ...]:
        """Three generators for each element."""
        return (3, *self.sides)

    @property
    def elements(self) -> tuple[int, ...]:
        """Matrices."""
        return self.sides

    def drift(self, x: Quaternions, v: Momentum, displacement: Momentum) -> tuple[Quaternions, Momentum]:
        """e^{i d·σ/2}·U, by the exponential map; the momentum belongs to the algebra and stays."""
        return multiply(exponential(displacement), x), v

    def difference(self, start: Quaternions, end: Quaternions) -> Momentum:
        """d with e^{i d·σ/2}·start = end."""
        return logarithm(multiply(end, conjugate(start)))

    def project(self, x: Quaternions) -> Quaternions:
        """Back to the unit sphere, which rounding leaves."""
        return x / jnp.sqrt(jnp.sum(x * x, axis=0))

    def features(self, x: Quaternions) -> Quaternions:
        """The four numbers."""
        return x


def multiply(p: Quaternions, q: Quaternions) -> Quaternions:
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


def conjugate(q: Quaternions) -> Quaternions:
    """U†, the inverse of U."""
    return jnp.concatenate([q[:1], -q[1:]])


def exponential(d: Momentum) -> Quaternions:
    """e^{i d·σ/2} = cos(|d|/2) + i sin(|d|/2) d·σ/|d|, smooth at d = 0."""
    square = 0.25 * jnp.sum(d * d, axis=0)
    small = square < 1e-6
    angle = jnp.sqrt(jnp.where(small, 1, square))
    cosine = jnp.where(small, 1 - square / 2 + square * square / 24, jnp.cos(angle))
    ratio = jnp.where(small, 1 - square / 6 + square * square / 120, jnp.sin(angle) / angle)
    return jnp.concatenate([cosine[None], 0.5 * ratio * d])


def logarithm(q: Quaternions) -> Momentum:
    """d with e^{i d·σ/2} = U and |d| ≤ 2π, the inverse of `exponential` up to there."""
    square = jnp.sum(q[1:] * q[1:], axis=0)
    small = square < 1e-12
    length = jnp.sqrt(jnp.where(small, 1, square))
    ratio = jnp.where(small, 1 / jnp.where(q[0] == 0, 1, q[0]), jnp.arctan2(length, q[0]) / length)
    return 2 * ratio * q[1:]
