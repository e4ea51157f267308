"""Two-dimensional U(1) gauge theory with the Wilson action, and all that is known exactly about it."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from dlhmc.exact import characters as exact
from dlhmc.exact.von_mises import U1Draws
from dlhmc.geometry.contract import PerChain
from dlhmc.numerics import trig
from dlhmc.numerics.leaves import parameter
from dlhmc.settings import Positive, checked
from dlhmc.theories.gauge.theory import Beta, Side
from dlhmc.theories.u1.links import Links, Plaquettes
from dlhmc.theories.u1.plaquette_action import PlaquetteAction

# Sizes of Wilson loops and charges that tests of exactness look at, beside the moments.
_LOOPS = ((1, 2), (2, 1), (2, 2))
_CHARGES = range(-4, 5)


class U1(PlaquetteAction):
    """p(x) ∝ e^{−γ S_β(x)} with the Wilson action S_β(x) = β Σ_P (1 − cos x_P), eq. (3).

    >>> import jax
    >>> target = U1((16, 16), beta=7.0)
    >>> x = target.start(jax.random.key(0), "cold", chains=4, dtype=jnp.float32)
    >>> target.action(x).tolist()
    [0.0, 0.0, 0.0, 0.0]
    """

    couplings: ClassVar[tuple[str, ...]] = ("gamma", "beta")

    lattice: tuple[int, int] = eqx.field(static=True)
    beta: Float[Array, ""]
    gamma: Float[Array, ""]

    def __init__(self, lattice: tuple[int, int], beta: ArrayLike, gamma: ArrayLike = 1.0) -> None:
        self.lattice = checked("lattice", tuple(lattice), tuple[Side, Side])
        self.beta, self.gamma = parameter("beta", beta, Beta), parameter("gamma", gamma, Positive)

    def resized(self, sides: tuple[int, ...]) -> "U1":
        """The same action on another lattice."""
        return U1((sides[0], sides[1]), self.beta, self.gamma)

    def _coupling(self, dtype: jnp.dtype) -> Float[Array, ""]:
        return self.beta.astype(dtype) * self.gamma.astype(dtype)

    def plaquette_action(self, angles: Plaquettes) -> Plaquettes:
        """γβ (1 − cos x_P), eq. (3)."""
        # 1 − cos x = 2 sin²(x/2) keeps its relative precision where x_P is small, that is at large β.
        half_sine = trig.sin(0.5 * angles)
        return (2 * self._coupling(angles.dtype)) * half_sine * half_sine

    # A derived class may have another action: what is known about this one does not hold there.

    @property
    def _is_of_cosines(self) -> bool:
        return type(self).plaquette_action is U1.plaquette_action

    @property
    def _is_wilson(self) -> bool:
        return self._is_of_cosines and type(self).local_action is PlaquetteAction.local_action

    def plaquette_force(self, angles: Plaquettes) -> Plaquettes:
        """γβ sin x_P."""
        if not self._is_of_cosines:
            return super().plaquette_force(angles)
        return self._coupling(angles.dtype) * trig.sin(angles)

    def stiffness(self) -> Float[Array, ""]:
        """γβ."""
        return self.beta * self.gamma if self._is_of_cosines else super().stiffness()

    # Ground truth.

    def test_functions(self, x: Links) -> dict[str, PerChain]:
        """The moments, larger Wilson loops, Polyakov loops, and the distribution of the charge."""
        functions = super().test_functions(x)
        for m, n in _LOOPS:
            functions[f"loop {m}x{n}"] = self.wilson_loop(x, m, n)
        polyakov = self.polyakov_loops(x)
        for direction, part in np.ndindex(2, 2):
            functions[f"polyakov {direction} {part}"] = polyakov[direction, part]
        charge = self.charge(x)
        return functions | {f"P(Q = {q})": (charge == q).astype(x.dtype) for q in _CHARGES}

    def exact(self) -> dict[str, float]:
        """Exact finite-volume values; they hold for the annealed action too, which is Wilson's at γβ."""
        if not self._is_wilson:
            return {}
        beta, volume = float(self.beta) * float(self.gamma), self.volume
        values = {
            "plaquette": exact.plaquette(1, False, beta, volume),
            "charge_squared": exact.charge_squared(1, beta, volume),
            "sine_charge_squared": exact.sine_charge_squared(1, beta, volume),
        }
        values |= {f"loop {m}x{n}": exact.wilson_loop(1, False, beta, volume, m * n) for m, n in _LOOPS}
        values |= {f"polyakov {direction} {part}": 0.0 for direction, part in np.ndindex(2, 2)}
        probabilities = exact.charge_distribution(1, beta, volume, _CHARGES)
        # Rarer charges are too few for the central limit theorem.
        common = {q: float(p) for q, p in zip(_CHARGES, probabilities, strict=True) if p > 1e-3}
        return values | {f"P(Q = {q})": p for q, p in common.items()}

    def exact_draws(self) -> U1Draws | None:
        """The sampler of independent configurations."""
        if not self._is_wilson:
            return None
        return U1Draws.build(self.lattice, float(self.beta) * float(self.gamma))
