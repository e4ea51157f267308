"""Sine, cosine and arctangent that a CPU can vectorise.

XLA's float32 sine and arctangent on the CPU are scalar calls with data-dependent branches and dominate a leapfrog
step. For sine and cosine the angle is reduced to r = x − nπ with |r| ≤ π/2 (Cody–Waite, π in two pieces so that
n·3.140625 is exact in float32 for |n| < 2¹⁵) and an odd minimax polynomial of degree 9 does the rest. The largest
absolute error is 1.3e-7 for |x| ≤ 8π and grows slowly beyond (below 2e-7 up to |x| = 10⁴). The arctangent is reduced
to |r| ≤ tan π/8. Other dtypes and accelerators use JAX's own functions.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

_PI_HIGH = np.float32(3.140625)
_PI_LOW = np.float32(np.pi - 3.140625)
_INVERSE_PI = np.float32(1 / np.pi)
# sin r ≈ r + r³·P(r²): minimax in the absolute error on [−π/2, π/2], 4.6e-9 before rounding.
_COEFFICIENTS = tuple(np.float32(c) for c in (-0.16666657, 0.008333017, -0.00019806615, 2.6000546e-06))

# atan r ≈ r + r³·P(r²) for |r| ≤ tan π/8 (Cephes, S. L. Moshier).
_ARC_COEFFICIENTS = tuple(np.float32(c) for c in (-0.333329492, 0.199777106, -0.138776856, 0.0805374450))
_TAN_PI_8, _TAN_3PI_8 = np.float32(np.tan(np.pi / 8)), np.float32(np.tan(3 * np.pi / 8))


def _odd_polynomial(r: Array, coefficients: tuple[np.float32, ...]) -> Array:
    """The odd function r + r³·P(r²)."""
    square = r * r
    polynomial = jnp.full_like(r, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        polynomial = polynomial * square + coefficient
    return r + (r * square) * polynomial


def _signed_sine(r: Array, odd: Array) -> Array:
    """Sine of |r| ≤ π/2, negated where the integer `odd` is odd (its lowest bit becomes the sign bit)."""
    sine = _odd_polynomial(r, _COEFFICIENTS)
    sign = lax.shift_left(odd, np.int32(31))
    return lax.bitcast_convert_type(lax.bitcast_convert_type(sine, jnp.int32) ^ sign, jnp.float32)


def _fast_sin(x: Array) -> Array:
    n = jnp.round(x * _INVERSE_PI)
    return _signed_sine((x - n * _PI_HIGH) - n * _PI_LOW, n.astype(jnp.int32))


def _fast_cos(x: Array) -> Array:
    # cos x = −(−1)ⁿ sin(x − (n + ½)π)
    n = jnp.round(x * _INVERSE_PI - np.float32(0.5))
    half = n + np.float32(0.5)
    return _signed_sine((x - half * _PI_HIGH) - half * _PI_LOW, n.astype(jnp.int32) + np.int32(1))


def _fast_atan(x: Array) -> Array:
    # atan |x| = atan r + 0, π/4 or π/2 with r = |x|, (|x| − 1)/(|x| + 1) or −1/|x|
    size = jnp.abs(x)
    large, middling = size > _TAN_3PI_8, size > _TAN_PI_8
    above = jnp.where(large, -1, jnp.where(middling, size - 1, size))
    below = jnp.where(large, size, jnp.where(middling, size + 1, 1))
    offset = jnp.where(large, np.float32(np.pi / 2), jnp.where(middling, np.float32(np.pi / 4), 0))
    return jnp.copysign(offset + _odd_polynomial(above / below, _ARC_COEFFICIENTS), x)


def _chosen(x: Array, fast: Callable[[Array], Array], default: Callable[[Array], Array]) -> Array:
    if x.dtype != jnp.float32:
        return default(x)
    result: Array = lax.platform_dependent(x, cpu=fast, default=default)
    return result


@jax.custom_jvp
def sin(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Sine; vectorised on the CPU in float32, with derivative `cos`.

    >>> float(sin(jnp.float32(0.5)))  # doctest: +ELLIPSIS
    0.4794255...
    """
    return _chosen(x, _fast_sin, jnp.sin)


@jax.custom_jvp
def cos(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Cosine; vectorised on the CPU in float32, with derivative `−sin`."""
    return _chosen(x, _fast_cos, jnp.cos)


@jax.custom_jvp
def sin_cos(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Sine and cosine, which are each other's derivatives: less to keep for a backward pass."""
    return sin(x), cos(x)


@jax.custom_jvp
def atan(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Arctangent; vectorised on the CPU in float32, with derivative 1/(1 + x²).

    >>> float(atan(jnp.float32(1)))  # doctest: +ELLIPSIS
    0.785398...
    """
    return _chosen(x, _fast_atan, jnp.arctan)


sin.defjvps(lambda tangent, _, x: cos(x) * tangent)
cos.defjvps(lambda tangent, _, x: -sin(x) * tangent)
atan.defjvps(lambda tangent, _, x: tangent / (1 + x * x))


@sin_cos.defjvp
def _sin_cos_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    sine, cosine = sin_cos(primals[0])
    return (sine, cosine), (cosine * tangents[0], -sine * tangents[0])
