"""U(1) gauge theories in two dimensions whose action is a function of the plaquettes (section 4 of the paper).

Links are angles x[μ, i, j, chain], with U_μ(n) = e^{i x_μ(n)} at the site n = (i, j) of a periodic Lx × Lt lattice.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from numpy.typing import NDArray

from dlhmc.geometry.contract import PerChain, sum_sites
from dlhmc.geometry.torus import TWO_PI, Torus, wrap_angle
from dlhmc.names import Start
from dlhmc.numerics import rng, trig
from dlhmc.targets.contract import Moment, Symmetry, Target
from dlhmc.theories.gauge.lattice import loops_with
from dlhmc.theories.u1.links import (
    Links,
    Plaquettes,
    curl,
    gauge_transform,
    plaquettes,
    reflect,
    rotate,
    translate,
    transpose,
)


class PlaquetteAction(Target):
    """p(x) ∝ e^{−Σ_P s(x_P)} for any periodic s: a subclass has `plaquette_action`, and whatever couplings it needs.

    Charges, hits, local layers and the charge loss work for all of them.
    """

    moments: ClassVar[Mapping[str, Moment]] = {
        "plaquette": Moment("plaquette"),
        "charge_squared": Moment("charge", 2),
        "sine_charge_squared": Moment("sine_charge", 2),
    }
    slow: ClassVar[Mapping[str, float | None]] = {"charge": 0.0, "sine_charge": 0.0}
    sector: ClassVar[str | None] = "charge"

    lattice: eqx.AbstractVar[tuple[int, int]]

    @abstractmethod
    def plaquette_action(self, angles: Plaquettes) -> Plaquettes:
        """s(x_P) of each plaquette, couplings included."""

    def plaquette_force(self, angles: Plaquettes) -> Plaquettes:
        """s′(x_P)."""
        return jax.grad(lambda a: jnp.sum(self.plaquette_action(a)))(angles)

    def stiffness(self) -> Float[Array, ""]:
        """s″(0): plaquettes fluctuate by about its inverse root."""
        origin = jnp.zeros((), jnp.result_type(float))
        return jax.grad(lambda a: self.plaquette_force(a[None, None, None])[0, 0, 0])(origin)

    @property
    def geometry(self) -> Torus:
        """An angle for each direction and site."""
        return Torus((2, *self.lattice))

    @property
    def sides(self) -> tuple[int, ...]:
        """Those of the lattice."""
        return self.lattice

    @property
    def volume(self) -> int:
        """The number of sites, which is the number of plaquettes."""
        return self.lattice[0] * self.lattice[1]

    def local_action(self, x: Links) -> Plaquettes:
        """s(x_P) for each plaquette."""
        return self.plaquette_action(plaquettes(x))

    def force(self, x: Links) -> Links:
        """∂S/∂x."""
        return curl(self.plaquette_force(plaquettes(x)))

    # Observables.

    def charge(self, x: Links) -> PerChain:
        """Q_Z = (1/2π) Σ_P ⌊x_P⌋, eq. (4), rounded to the integer that it is up to rounding errors."""
        return jnp.round(sum_sites(wrap_angle(plaquettes(x))) / TWO_PI)

    def sine_charge(self, x: Links) -> PerChain:
        """Q_R = (1/2π) Σ_P sin x_P, eq. (5)."""
        return sum_sites(trig.sin(plaquettes(x))) / TWO_PI

    def smooth_sector(self, x: Links) -> PerChain:
        """Q_R."""
        return self.sine_charge(x)

    # What local layers need.

    reach: ClassVar[int] = 1
    weights_per_cell: ClassVar[int] = 1
    pushes_per_cell: ClassVar[int] = 1

    @abstractmethod
    def resized(self, sides: tuple[int, ...]) -> Self:
        """The same action on another lattice."""

    def cells_of(self, links: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Plaquettes that contain a link."""
        return loops_with(links)[0]

    def cell_numbers(self, x: Links) -> Float[Array, "2 x t chain"]:
        """Sine and cosine of x_P, shifted and scaled."""
        sine, cosine = trig.sin_cos(plaquettes(x))
        return jnp.stack([2 * sine, 2.5 - 3 * cosine])

    def pushed_force(
        self, x: Links, weights: Float[Array, "1 x t chain"], pushes: Float[Array, "1 x t chain"]
    ) -> Links:
        """The curl of w·s′(x_P) + t: the density of the charge is x_P."""
        return curl(weights[0] * self.plaquette_force(plaquettes(x)) + pushes[0])

    def plaquette(self, x: Links) -> PerChain:
        """The average plaquette (1/V) Σ_P cos x_P."""
        return sum_sites(trig.cos(plaquettes(x))) / self.volume

    def observables(self, x: Links) -> dict[str, PerChain]:
        """Average plaquette and both topological charges."""
        return {"plaquette": self.plaquette(x), "charge": self.charge(x), "sine_charge": self.sine_charge(x)}

    def wilson_loop(self, x: Links, m: int, n: int) -> PerChain:
        """The m × n Wilson loop Re ∏ U, averaged over the lattice (m links along 0, n along 1)."""
        bottom = sum(jnp.roll(x[0], -i, axis=0) for i in range(m))
        left = sum(jnp.roll(x[1], -j, axis=1) for j in range(n))
        angle = bottom + jnp.roll(left, -m, axis=0) - jnp.roll(bottom, -n, axis=1) - left
        return sum_sites(trig.cos(angle)) / self.volume

    def polyakov_loops(self, x: Links) -> Float[Array, "2 2 chain"]:
        """Real and imaginary part of the Polyakov loop e^{iΣx} that winds around each direction, averaged."""
        angles = (jnp.sum(x[0], axis=0), jnp.sum(x[1], axis=1))
        return jnp.stack([jnp.stack([trig.cos(a).mean(axis=0), trig.sin(a).mean(axis=0)]) for a in angles])

    def slow_variance(self, name: str) -> float | None:
        """The charge changes by ±1, so that its variance is what it takes, where ⟨Q²⟩ is known."""
        second, mean = self.exact().get("charge_squared"), self.slow.get(name)
        return None if name != "charge" or second is None or mean is None else second - mean**2

    def start(self, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Links:
        """Hot: uniform links; cold: all links 0."""
        shape = (*self.shape, chains)
        if kind == "cold":
            return jnp.zeros(shape, dtype)
        return TWO_PI * rng.uniform(key, shape, dtype) - np.pi

    # Symmetries. An observable is odd where the orientation of the plaquettes is reversed.

    def symmetries(self) -> dict[str, Symmetry]:
        """Gauge transformations, translations, charge conjugation, reflections; on squares also rotations."""
        charges = frozenset({"charge", "sine_charge"})

        def random_gauge(key: Key[Array, ""], x: Links) -> Links:
            return gauge_transform(x, TWO_PI * rng.uniform(key, x.shape[1:], x.dtype))

        def random_translation(key: Key[Array, ""], x: Links) -> Links:
            return translate(x, jax.random.randint(key, (2,), 0, jnp.array(self.lattice)))

        table = {
            "gauge transformation": Symmetry(random_gauge),
            "translation": Symmetry(random_translation),
            "charge conjugation": Symmetry(lambda _, x: -x, charges),
            "reflection of axis 0": Symmetry(lambda _, x: reflect(x, 0), charges),
            "reflection of axis 1": Symmetry(lambda _, x: reflect(x, 1), charges),
        }
        if self.lattice[0] == self.lattice[1]:
            table["reflection of the diagonal"] = Symmetry(lambda _, x: transpose(x), charges)
            table["rotation"] = Symmetry(lambda _, x: rotate(x))
        return table
