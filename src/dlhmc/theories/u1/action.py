"""Two-dimensional U(1) lattice gauge theory on a periodic Lx × Lt lattice (section 4 of the paper).

Links are angles x[μ, i, j, chain], with U_μ(n) = e^{i x_μ(n)} at the site n = (i, j).
"""

from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from dlhmc.names import Start
from dlhmc.numerics import rng, trig
from dlhmc.numerics.leaves import leaf
from dlhmc.targets.contract import Moment, PerChain, Symmetry, Target, registry, sum_sites
from dlhmc.theories.u1 import exact as u1_exact
from dlhmc.theories.u1.draws import U1Draws
from dlhmc.theories.u1.links import (
    TWO_PI,
    LatticeTransformation,
    Links,
    Plaquettes,
    curl,
    gauge_transform,
    plaquettes,
    reflect,
    rotate,
    translate,
    transpose,
    wrap_angle,
)

# Sizes of Wilson loops and charges that tests of exactness look at, beside the moments.
_LOOPS = ((1, 2), (2, 1), (2, 2))
_CHARGES = range(-4, 5)


class U1(Target):
    """p(x) ∝ e^{−γ S_β(x)} with the Wilson action S_β(x) = β Σ_P (1 − cos x_P), eq. (3).

    >>> target = U1((16, 16), beta=7.0)
    >>> x = target.start(jax.random.key(0), "cold", chains=4, dtype=jnp.float32)
    >>> target.action(x).tolist()
    [0.0, 0.0, 0.0, 0.0]
    """

    moments: ClassVar[Mapping[str, Moment]] = {
        "plaquette": Moment("plaquette"),
        "charge_squared": Moment("charge", 2),
        "sine_charge_squared": Moment("sine_charge", 2),
    }
    slow: ClassVar[Mapping[str, float | None]] = {"charge": 0.0, "sine_charge": 0.0}
    sector: ClassVar[str | None] = "charge"
    compact: ClassVar[bool] = True

    lattice: tuple[int, int] = eqx.field(static=True)
    beta: Float[Array, ""]
    gamma: Float[Array, ""]

    def __init__(self, lattice: tuple[int, int], beta: ArrayLike, gamma: ArrayLike = 1.0) -> None:
        self.lattice = lattice
        self.beta, self.gamma = leaf(beta), leaf(gamma)

    @property
    def shape(self) -> tuple[int, ...]:
        """(2, Lx, Lt): a link for each direction and site."""
        return (2, *self.lattice)

    @property
    def volume(self) -> int:
        """The number of sites, which is the number of plaquettes."""
        return self.lattice[0] * self.lattice[1]

    def _coupling(self, dtype: jnp.dtype) -> Float[Array, ""]:
        return self.beta.astype(dtype) * self.gamma.astype(dtype)

    # The action and its force.

    def local_action(self, x: Links) -> Plaquettes:
        """γβ (1 − cos x_P) for each plaquette, eq. (3)."""
        # 1 − cos x = 2 sin²(x/2) keeps its relative precision where x_P is small, that is at large β.
        half_sine = trig.sin(0.5 * plaquettes(x))
        return (2 * self._coupling(x.dtype)) * half_sine * half_sine

    def force(self, x: Links) -> Links:
        """∂S/∂x, with ∂S/∂x_P = γβ sin x_P."""
        return curl(self._coupling(x.dtype) * trig.sin(plaquettes(x)))

    # Observables.

    def charge(self, x: Links) -> PerChain:
        """Q_Z = (1/2π) Σ_P ⌊x_P⌋, eq. (4), rounded to the integer that it is up to rounding errors."""
        return jnp.round(sum_sites(wrap_angle(plaquettes(x))) / TWO_PI)

    def sine_charge(self, x: Links) -> PerChain:
        """Q_R = (1/2π) Σ_P sin x_P, eq. (5)."""
        return sum_sites(trig.sin(plaquettes(x))) / TWO_PI

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

    # Geometry: angles.

    def wrap(self, x: Links) -> Links:
        """All links in [−π, π)."""
        return wrap_angle(x)

    def start(self, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Links:
        """Hot: uniform links; cold: all links 0."""
        shape = (*self.shape, chains)
        if kind == "cold":
            return jnp.zeros(shape, dtype)
        return TWO_PI * rng.uniform(key, shape, dtype) - np.pi

    def features(self, x: Links) -> Float[Array, "2 2 x t chain"]:
        """Cosine and sine of every link."""
        sine, cosine = trig.sin_cos(x)
        return jnp.stack([cosine, sine])

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

    def random_transformation(self, key: Key[Array, ""]) -> LatticeTransformation:
        """A uniform element of the group of translations, reflections, charge conjugation, on squares transposition."""
        shift_key, sign_key = jax.random.split(key)
        shift = jax.random.randint(shift_key, (2,), 0, jnp.asarray(self.lattice))
        conjugate, first, second, swap = jax.random.bernoulli(sign_key, shape=(4,))
        return LatticeTransformation(
            shift, conjugate, (first, second), swap if self.lattice[0] == self.lattice[1] else None
        )

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
        beta, volume = float(self.beta) * float(self.gamma), self.volume
        values = {
            "plaquette": u1_exact.plaquette(beta, volume),
            "charge_squared": u1_exact.charge_squared(beta, volume),
            "sine_charge_squared": u1_exact.sine_charge_squared(beta, volume),
        }
        values |= {f"loop {m}x{n}": u1_exact.wilson_loop(beta, volume, m * n) for m, n in _LOOPS}
        values |= {f"polyakov {direction} {part}": 0.0 for direction, part in np.ndindex(2, 2)}
        probabilities = u1_exact.charge_distribution(beta, volume, _CHARGES)
        # Rarer charges are too few for the central limit theorem.
        common = {q: float(p) for q, p in zip(_CHARGES, probabilities, strict=True) if p > 1e-3}
        return values | {f"P(Q = {q})": p for q, p in common.items()}

    def exact_draws(self) -> U1Draws:
        """The sampler of independent configurations."""
        return U1Draws.build(self.lattice, float(self.beta) * float(self.gamma))


registry["u1"] = lambda: U1((4, 6), beta=2.5, gamma=0.8)
registry["u1-square"] = lambda: U1((4, 4), beta=1.5)
