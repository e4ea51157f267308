"""Angles: a product of circles."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from dlhmc.geometry.contract import Field, Momentum
from dlhmc.geometry.flat import Coordinates
from dlhmc.numerics import rng, trig

TWO_PI = 2 * np.pi


def wrap_angle(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """x − 2π⌊(x + π)/2π⌋, the bracket ⌊x⌋ of eq. (4): the angle in [−π, π)."""
    return x - TWO_PI * jnp.floor((x + np.pi) / TWO_PI)


class Torus(Coordinates):
    """Angles in any shape; those that differ by 2π are the same point."""

    def difference(self, start: Field, end: Field) -> Momentum:
        """The way around the circle that is shorter."""
        return wrap_angle(end - start)

    def project(self, x: Field) -> Field:
        """All angles in [−π, π)."""
        return wrap_angle(x)

    def scatter(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Field:
        return TWO_PI * rng.uniform(key, (*self.shape, chains), dtype) - np.pi

    def features(self, x: Field) -> Float[Array, "2 *element chain"]:
        """Cosine and sine of every angle."""
        sine, cosine = trig.sin_cos(x)
        return jnp.stack([cosine, sine])
