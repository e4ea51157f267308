"""What a network is: a function of ζ that gives (s, q, t), each of the shape of the momenta.

For a momentum update ζ_v = (x, ∂S(x)); for a position update ζ_x = (m̄ ⊙ x, v). The position enters through the
features of the geometry, masked by the caller: cos x and sin x for angles, x itself for vectors.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Float, Key

from dlhmc.geometry.contract import Geometry, Momentum

Features = Float[Array, "feature *element chain"]


class Zeta(NamedTuple):
    """The input ζ of a network."""

    position: Features
    #: ∂S(x) for a momentum update, v for a position update
    vector: Momentum


class SQT(NamedTuple):
    """Scale s, scale q of the force or momentum, translation t."""

    s: Momentum
    q: Momentum
    t: Momentum


class Network(eqx.Module):
    """Any module that maps ζ to (s, q, t). Each leapfrog layer holds one for v and one for x."""

    @abstractmethod
    def __call__(self, zeta: Zeta) -> SQT:
        """The three outputs for every chain; a chain's output must depend on that chain's ζ only."""


#: makes a network from a key and the geometry of the field
NetworkFactory = Callable[[Key[Array, ""], Geometry], Network]
