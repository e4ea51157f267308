"""Random numbers that depend on (seed, purpose, step, chain) and on nothing else.

A draw of shape [..., chain] uses the counter (position, chain) of a Threefry generator, so chain c gets the same
numbers whatever the number of chains, of devices, or of trajectories compiled together. Both words of every
Threefry block are used and the normals come from Box–Muller with this package's sine: less than half the time of
`jax.random.normal` on a CPU, where momenta would otherwise cost as much as several leapfrog steps.
"""

import enum
import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key, UInt32

from dlhmc.numerics import trig
from dlhmc.numerics.devices import first_chain

Shape = tuple[int, ...]
F = TypeVar("F", bound=Callable[..., Any])


class Purpose(enum.IntEnum):
    """What a key is used for: keys of different purposes never meet. The numbers are part of every result."""

    START = 0
    TRAJECTORY = 1
    MODEL = 2
    BURN_IN = 3
    TRAINING = 4
    PRECISION = 5
    TEMPERATURE = 6


def step_key(seed: Int[Array, ""], purpose: Purpose, step: Int[Array, ""]) -> Key[Array, ""]:
    """The key of one global step of a run."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), purpose), step)


# Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC11): Threefry-2x32 with 20 rounds.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def _threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    a, b = counter[0] + schedule[0], counter[1] + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            a = a + b
            b = a ^ ((b << np.uint32(rotation)) | (b >> np.uint32(32 - rotation)))
        a = a + schedule[(group + 1) % 3]
        b = b + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return a, b


def _words(key: Key[Array, ""], positions: int, chains: int) -> tuple[UInt32[Array, "n c"], UInt32[Array, "n c"]]:
    """Two independent 32-bit words for each position and chain."""
    # A fresh pair of key words: the counters below must not meet those of fold_in and split on the same key.
    words = jax.random.bits(key, (2,), jnp.uint32)
    first, second = (lax.broadcast_in_dim(w, (positions, chains), ()) for w in (words[0], words[1]))
    shape = (positions, chains)
    chain = lax.broadcasted_iota(jnp.uint32, shape, 1) + jnp.asarray(first_chain(chains), jnp.uint32)
    counter = (lax.broadcasted_iota(jnp.uint32, shape, 0), chain)
    return _threefry((first, second), counter)


def _unit(high: Array, low: Array | None, dtype: jnp.dtype) -> Array:
    """Uniform on (0, 1), never 0: 32 bits for float32; 64 bits, rounded to 53, for float64."""
    u = high.astype(dtype) * dtype.type(2**-32)
    if low is None:
        return jnp.minimum(u + dtype.type(2**-33), dtype.type(1 - 2**-24))
    return jnp.minimum(u + (low.astype(dtype) + dtype.type(0.5)) * dtype.type(2**-64), dtype.type(1 - 2**-53))


def _units(key: Key[Array, ""], positions: int, chains: int, dtype: jnp.dtype) -> tuple[Array, Array]:
    """Two independent uniforms for each position and chain."""
    if dtype == jnp.float64:
        a, b = _words(key, 2 * positions, chains)
        return (
            _unit(a[:positions], b[:positions], dtype),
            _unit(a[positions:], b[positions:], dtype),
        )
    a, b = _words(key, positions, chains)
    return _unit(a, None, dtype), _unit(b, None, dtype)


def _fill(part: Callable[[Array], Array], shape: Shape, dtype: jnp.dtype) -> Array:
    """part(0) and part(1) one after the other, in the shape wanted.

    By a loop: XLA fuses anything else with what computes the parts and what uses them, and then no longer
    vectorises, which makes momenta several times slower on a CPU. A loop's result is always written out.
    """
    values = lax.map(part, jnp.arange(2, dtype=dtype))
    return values.reshape(-1, shape[-1])[: math.prod(shape[:-1])].reshape(shape)


def _pairs(shape: Shape) -> int:
    return (math.prod(shape[:-1]) + 1) // 2


def uniform(key: Key[Array, ""], shape: Shape, dtype: jnp.dtype) -> Float[Array, "... chain"]:
    """Uniform on (0, 1), chain axis last."""
    dtype = jnp.dtype(dtype)
    first, second = _units(key, _pairs(shape), shape[-1], dtype)
    return _fill(lambda part: jnp.where(part == 0, first, second), shape, dtype)


def normal(key: Key[Array, ""], shape: Shape, dtype: jnp.dtype) -> Float[Array, "... chain"]:
    """Standard normal, chain axis last.

    >>> key = jax.random.key(0)
    >>> few, many = (normal(key, (2, 3, chains), jnp.float32) for chains in (4, 9))
    >>> bool((few == many[..., :4]).all())
    True
    """
    dtype = jnp.dtype(dtype)
    u, w = _units(key, _pairs(shape), shape[-1], dtype)
    # Box–Muller: r cos(2πw) and r sin(2πw).
    radius = jnp.sqrt(dtype.type(-2) * jnp.log(u))
    return _fill(lambda part: radius * trig.cos(dtype.type(2 * np.pi) * (w - 0.25 * part)), shape, dtype)


def first_accepted(
    key: Key[Array, ""], propose: Callable[[Key[Array, ""]], tuple[Array, Float[Array, "... chain"]]]
) -> Float[Array, "... chain"]:
    """Rejection: propose values with the logarithms of their acceptance, and keep the first that is accepted.

    The acceptance has the last axes of the values: one for each chain, or for more of their axes.
    """
    Carry = tuple[Array, Bool[Array, "... chain"], Array]
    x, log_acceptance = jax.eval_shape(propose, key)

    def attempt(carry: Carry) -> Carry:
        count, done, kept = carry
        propose_key, accept_key = jax.random.split(jax.random.fold_in(key, count))
        x, log_acceptance = propose(propose_key)
        accept = jnp.log(uniform(accept_key, log_acceptance.shape, log_acceptance.dtype)) < log_acceptance
        return count + 1, done | accept, jnp.where(accept & ~done, x, kept)

    start = (jnp.zeros((), jnp.int32), jnp.zeros(log_acceptance.shape, bool), jnp.zeros(x.shape, x.dtype))
    return lax.while_loop(lambda carry: ~jnp.all(carry[1]), attempt, start)[2]


def by_chain(method: F) -> F:
    """Declare that a method draws for chains with this module only, which tells those of one device from others.

    Numbers of `jax.random` are for all chains together: drawn for each of them, they would repeat on every device. The
    declaration is about the method itself: one that overrides it needs its own.
    """
    method.draws_by_chain = True  # type: ignore[attr-defined]
    return method


def draws_by_chain(owner: object, name: str) -> bool:
    """Whether a method of an object is declared so."""
    return getattr(getattr(type(owner), name), "draws_by_chain", False) is True


def coin(key: Key[Array, ""], shape: Shape) -> Bool[Array, "... chain"]:
    """Fair coins, chain axis last."""
    return uniform(key, shape, jnp.dtype(jnp.float32)) < 0.5
