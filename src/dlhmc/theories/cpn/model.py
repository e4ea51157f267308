"""The CP^{N−1} model in two dimensions: its target, and what is known of it."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Key

from dlhmc.actions.cpn import Bonds, Vectors, charge, energy, times
from dlhmc.geometry.spheres import Spheres
from dlhmc.numerics import rng
from dlhmc.numerics.leaves import parameter
from dlhmc.settings import checked
from dlhmc.targets.contract import Known, Moment, Observed, Symmetry, Target
from dlhmc.theories.cpn.theory import Beta, Colors, Sides


def CPN(colors: int, lattice: Sequence[int], beta: ArrayLike, gamma: ArrayLike = 1.0) -> Target:  # noqa: N802
    """Vectors of N complex numbers, as twice as many real ones.

    >>> CPN(10, (8, 8), beta=0.8).geometry.shape
    (8, 8, 2, 10)
    """
    geometry = Spheres(checked("lattice", tuple(lattice), Sides), (2, checked("colors", colors, Colors)))
    beta = parameter("beta", beta, Beta)
    return Target(geometry, [Bonds(beta)], _Observables(beta), _KNOWN, gamma)


class _Observables(eqx.Module):
    """The energy at β, the geometric charge, and Q²/V."""

    beta: Float[Array, ""]

    def __call__(self, x: Vectors) -> dict[str, Observed]:
        sector = charge(x)
        susceptibility = sector**2 / x[:, :, 0, 0, 0].size
        return {"energy": energy(self.beta, x), "charge": sector, "susceptibility": susceptibility}


def _symmetries(target: Target) -> dict[str, Symmetry]:
    """Phases at each site, translations, complex conjugation and a reflection."""
    sides = target.geometry.elements

    def turn(key: Key[Array, ""], x: Vectors) -> Vectors:
        angle = rng.normal(key, (*sides, x.shape[-1]), x.dtype)
        return times((jnp.cos(angle), jnp.sin(angle)), x)

    def translate(key: Key[Array, ""], x: Vectors) -> Vectors:
        return jnp.roll(x, jax.random.randint(key, (2,), 1, jnp.array(sides)), (0, 1))

    odd = frozenset({"charge"})
    return {
        "phases": Symmetry(turn),
        "translation": Symmetry(translate),
        "complex conjugation": Symmetry(lambda _, x: x.at[:, :, 1].multiply(-1), odd),
        "turn of the lattice": Symmetry(lambda _, x: jnp.flip(x, (0, 1))),
    }


_KNOWN = Known(
    moments={
        "energy": Moment("energy"),
        "charge_squared": Moment("charge", 2),
        "susceptibility": Moment("susceptibility"),
    },
    slow=lambda target: {"charge": 0.0, "energy": None},
    sector="charge",
    symmetries=_symmetries,
)
