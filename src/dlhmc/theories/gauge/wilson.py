"""The Wilson action of U(N) and SU(N) gauge fields in two, three and four dimensions, and what is measured of them."""

from collections.abc import Mapping
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Complex, Float, Key
from numpy.typing import NDArray

from dlhmc.geometry.contract import Momentum, PerChain, real_dtype, sum_sites
from dlhmc.geometry.unitary import UnitaryMatrices
from dlhmc.names import Start
from dlhmc.numerics.leaves import parameter
from dlhmc.settings import Positive, checked
from dlhmc.targets.contract import ExactDraws, Moment, Observed, Symmetry, Target
from dlhmc.targets.windows import plaquettes_with
from dlhmc.theories.gauge import exact, lattice
from dlhmc.theories.gauge.draws import TorusDraws
from dlhmc.theories.gauge.groups import SU2, Group
from dlhmc.theories.gauge.lattice import Links, Plaquettes
from dlhmc.theories.gauge.theory import Beta, Sides

# Sizes of Wilson loops and charges that tests of exactness look at, beside the moments.
_LOOPS = ((1, 2), (2, 2))
_CHARGES = range(-3, 4)


class Wilson(Target):
    """p(U) ∝ e^{−γ S_β(U)} with S_β(U) = β Σ_P (1 − Re tr P/N); made by `wilson`."""

    moments: ClassVar[Mapping[str, Moment]] = {"plaquette": Moment("plaquette")}
    slow: ClassVar[Mapping[str, float | None]] = {"plaquette": None}
    couplings: ClassVar[tuple[str, ...]] = ("gamma", "beta")

    group: Group = eqx.field(static=True)
    sides: tuple[int, ...] = eqx.field(static=True)
    beta: Float[Array, ""]
    gamma: Float[Array, ""]

    @property
    def geometry(self) -> UnitaryMatrices:
        """A matrix for each direction and site."""
        return UnitaryMatrices(self.group.colors, self.group.special, (self.dimensions, *self.sides))

    @property
    def dimensions(self) -> int:
        """Of the lattice."""
        return len(self.sides)

    @property
    def volume(self) -> int:
        """The number of sites."""
        return int(np.prod(self.sides))

    def coupling(self, dtype: jnp.dtype) -> Float[Array, ""]:
        """γβ."""
        return self.beta.astype(dtype) * self.gamma.astype(dtype)

    def local_action(self, x: Links) -> Plaquettes:
        """γβ (1 − Re tr P/N) for each plaquette."""
        return self.coupling(real_dtype(x)) * lattice.plaquette_defects(x)

    def force(self, x: Links) -> Momentum:
        """∂_a S = (γβ/N) Im tr(T_a M), with the sum M of the plaquettes that start with the link."""
        return self._strength(x) * self.geometry.components(lattice.plaquette_loops(x))

    # What local layers need.

    reach: ClassVar[int] = 1

    @property
    def weights_per_cell(self) -> int:
        """That along the generators of SU(N) and, for U(N), that along the unit matrix."""
        return 2 if self._has_phase else 1

    @property
    def pushes_per_cell(self) -> int:
        """The phase of det P, where there is one."""
        return 0 if self.group.special else 1

    @property
    def _has_phase(self) -> bool:
        return not self.group.special and self.group.colors > 1

    def resized(self, sides: tuple[int, ...]) -> Self:
        """The same action on another lattice."""
        return type(self)(self.group, sides, self.beta, self.gamma)

    def cells_of(self, links: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Plaquettes that contain a link."""
        return plaquettes_with(links)

    def cell_numbers(self, x: Links) -> Float[Array, "number plane *site chain"]:
        """Re and Im of tr P/N, and of det P for U(N) beyond U(1); for SU(2) they are real."""
        found = [2.5 - 3 * lattice.plaquette_traces(x)]
        if self.group != SU2:
            found.append((2 / self.group.colors) * lattice.plaquette_phases(x))
        if self._has_phase:
            determinants = lattice.plaquette_determinants(x)
            found += [2.5 - 3 * determinants.real, 2 * determinants.imag]
        return jnp.stack(found)

    def pushed_force(
        self,
        x: Links,
        weights: Float[Array, "weight plane *site chain"],
        pushes: Float[Array, "push plane *site chain"],
    ) -> Momentum:
        """The force of all plaquettes with their weights, and the curl of t along the unit matrix."""
        force = self._strength(x) * self.geometry.components(lattice.plaquette_loops(x, weights[0]))
        if self.group.special:
            return force
        along_one = lattice.curl(pushes[0], self.dimensions)
        if not self._has_phase:
            return force + along_one[None]
        phases = weights[1] * lattice.plaquette_phases(x)
        root = jnp.sqrt(2 / self.group.colors).astype(force.dtype)
        along_one = along_one + (self._strength(x) * root) * lattice.curl(phases, self.dimensions)
        return force.at[-1].set(along_one)

    def stiffness(self) -> Float[Array, ""]:
        """Half of the curvature of the action along one link of a cold configuration; γβ for U(1) in a plane."""
        curvature = self.geometry.norm / self.group.colors
        return (self.dimensions - 1) * curvature * self.coupling(self.beta.dtype)

    def _strength(self, x: Links) -> Float[Array, ""]:
        return self.coupling(real_dtype(x)) * (self.geometry.norm / self.group.colors)

    # Observables.

    def plaquette(self, x: Links) -> PerChain:
        """The average of Re tr P/N."""
        return sum_sites(lattice.plaquette_traces(x)) / (self.volume * len(lattice.planes(self.dimensions)))

    def wilson_loop(self, x: Links, m: int, n: int) -> PerChain:
        """The m × n loop Re tr W/N, averaged over sites, planes and both orientations in each."""
        kinds = {(m, n), (n, m)}
        loops = [lattice.wilson_loop(x, plane, *k) for plane in lattice.planes(self.dimensions) for k in kinds]
        return sum_sites(lattice.total(loops)) / (self.volume * len(loops))

    def polyakov_loops(self, x: Links) -> Complex[Array, "direction chain"]:
        """The Polyakov loop tr L/N in each direction, averaged over the lattice."""
        return lattice.polyakov_loops(x)

    def observables(self, x: Links) -> dict[str, Observed]:
        """Average plaquette, and Polyakov loops in each direction."""
        loops = self.polyakov_loops(x)
        return {"plaquette": self.plaquette(x), "polyakov": loops.real, "polyakov_modulus": jnp.abs(loops)}

    def start(self, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Links:
        """Hot: Haar measure; cold: all links 1."""
        shape = (*self.shape, chains)
        if kind == "cold":
            one = jnp.eye(self.group.colors, dtype=self.geometry.dtype(dtype))
            return jnp.broadcast_to(one.reshape(*one.shape, *(1,) * (len(shape) - 2)), shape)
        return self.geometry.haar(key, chains, dtype)

    # Ground truth, in two dimensions.

    def test_functions(self, x: Links) -> dict[str, PerChain]:
        """The moments, larger Wilson loops and Polyakov loops."""
        functions = super().test_functions(x)
        for m, n in self._loops():
            functions[f"loop {m}x{n}"] = self.wilson_loop(x, m, n)
        for direction, loop in enumerate(self.polyakov_loops(x)):
            # The trace of an SU(2) matrix has no imaginary part but rounding.
            parts = {"re": loop.real} if self.group == SU2 else {"re": loop.real, "im": loop.imag}
            parts["squared"] = loop.real**2 + loop.imag**2
            functions |= {f"polyakov {direction} {part}": value for part, value in parts.items()}
        return functions

    def _loops(self) -> list[tuple[int, int]]:
        """Those that do not touch themselves around the lattice."""
        return [size for size in _LOOPS if max(size) < min(self.sides)]

    def exact(self) -> dict[str, float]:
        """Finite-volume values, which hold for the annealed action too: it is Wilson's at γβ."""
        # The centre makes Polyakov loops vanish, in all dimensions.
        parts = ("re",) if self.group == SU2 else ("re", "im")
        values = {f"polyakov {direction} {part}": 0.0 for direction in range(self.dimensions) for part in parts}
        if self.dimensions == 2:
            arguments = self._two_dimensional()
            values["plaquette"] = exact.plaquette(*arguments)
            values |= {f"loop {m}x{n}": exact.wilson_loop(*arguments, m * n) for m, n in self._loops()}
            for direction, side in enumerate(self.sides):
                # The average over the lattice is one over the distances of two loops.
                areas = range(0, self.volume, side)
                correlation = [exact.polyakov_correlation(*arguments, area) for area in areas]
                values[f"polyakov {direction} squared"] = float(np.mean(correlation))
        return values

    def exact_draws(self) -> TorusDraws | None:
        """Independent configurations, of two colors in two dimensions."""
        if self.dimensions != 2 or self.group.colors != 2:
            return None
        return TorusDraws.build(
            (self.sides[0], self.sides[1]), self.group.colors, self.group.special, self._two_dimensional()[2]
        )

    def approximate_draws(self) -> ExactDraws | None:
        """Exact draws, or else what many sweeps of the heat bath make of a cold start, where the lattice allows it."""
        from dlhmc.theories.gauge.heatbath import HeatBathDraws  # which knows this target

        exact = self.exact_draws()
        return exact if exact is not None or any(side % 2 for side in self.sides) else HeatBathDraws(self)

    def _two_dimensional(self) -> tuple[int, bool, float, int]:
        return self.group.colors, self.group.special, float(self.beta) * float(self.gamma), self.volume

    # Symmetries.

    @property
    def odd(self) -> frozenset[str]:
        """Observables that change their sign with the orientation of space."""
        return frozenset()

    def symmetries(self) -> dict[str, Symmetry]:
        """Gauge transformations, translations, charge conjugation and reflections."""
        sites = UnitaryMatrices(self.group.colors, self.group.special, self.sides)

        def random_gauge(key: Key[Array, ""], x: Links) -> Links:
            return lattice.gauge_transform(x, x, sites.haar(key, x.shape[-1], real_dtype(x)))[0]

        def random_translation(key: Key[Array, ""], x: Links) -> Links:
            return lattice.translate(x, jax.random.randint(key, (self.dimensions,), 0, jnp.array(self.sides)))

        def reflection(axis: int) -> Symmetry:
            return Symmetry(lambda _, x: lattice.reflect(x, x, axis)[0], self.odd)

        return {
            "gauge transformation": Symmetry(random_gauge),
            "translation": Symmetry(random_translation),
            **({} if self.group == SU2 else {"charge conjugation": Symmetry(lambda _, x: jnp.conj(x), self.odd)}),
            **{f"reflection of axis {axis}": reflection(axis) for axis in range(self.dimensions)},
        }


class PlanarWilson(Wilson):
    """U(N) in two dimensions, whose determinants carry a topological charge."""

    moments: ClassVar[Mapping[str, Moment]] = {
        "plaquette": Moment("plaquette"),
        "charge_squared": Moment("charge", 2),
        "sine_charge_squared": Moment("sine_charge", 2),
    }
    slow: ClassVar[Mapping[str, float | None]] = {"charge": 0.0, "sine_charge": 0.0}
    sector: ClassVar[str | None] = "charge"

    def charge(self, x: Links) -> PerChain:
        """Q = (1/2π) Σ_P arg det P, rounded to the integer that it is up to rounding errors."""
        return jnp.round(sum_sites(jnp.angle(lattice.plaquette_determinants(x))) / (2 * np.pi))

    def sine_charge(self, x: Links) -> PerChain:
        """(1/2π) Σ_P Im det P, which is differentiable."""
        return sum_sites(lattice.plaquette_determinants(x).imag) / (2 * np.pi)

    def smooth_sector(self, x: Links) -> PerChain:
        """That of Im det P."""
        return self.sine_charge(x)

    def observables(self, x: Links) -> dict[str, Observed]:
        """Both charges as well."""
        return super().observables(x) | {"charge": self.charge(x), "sine_charge": self.sine_charge(x)}

    @property
    def odd(self) -> frozenset[str]:
        """The charges."""
        return frozenset({"charge", "sine_charge"})

    def slow_variance(self, name: str) -> float | None:
        """The charge changes by ±1."""
        return self.exact()["charge_squared"] if name == "charge" else None

    def test_functions(self, x: Links) -> dict[str, PerChain]:
        """The distribution of the charge, too."""
        charge = self.charge(x)
        return super().test_functions(x) | {f"P(Q = {q})": (charge == q).astype(charge.dtype) for q in _CHARGES}

    def exact(self) -> dict[str, float]:
        """The charge and its distribution, too."""
        colors, _, beta, volume = self._two_dimensional()
        values = super().exact() | {"charge_squared": exact.charge_squared(colors, beta, volume)}
        probabilities = exact.charge_distribution(colors, beta, volume, _CHARGES)
        # Rarer charges are too few for the central limit theorem.
        common = {q: float(p) for q, p in zip(_CHARGES, probabilities, strict=True) if p > 1e-3}
        return values | {f"P(Q = {q})": p for q, p in common.items()}


def all_loops(target: Wilson, largest: int, x: Links) -> Float[Array, "m n chain"]:
    """All m × n Wilson loops up to a size, each averaged over sites, planes and orientations."""
    loops = {(m, n): target.wilson_loop(x, m, n) for m in range(1, largest + 1) for n in range(m, largest + 1)}
    sizes = range(1, largest + 1)
    return jnp.stack([jnp.stack([loops[min(m, n), max(m, n)] for n in sizes]) for m in sizes])


def wilson(group: str, sides: tuple[int, ...], beta: ArrayLike, gamma: ArrayLike = 1.0) -> Wilson:
    """The Wilson action of a gauge group on a periodic lattice of two, three or four dimensions.

    >>> target = wilson("su3", (4, 4, 4, 8), beta=6.0)
    >>> x = target.start(jax.random.key(0), "cold", chains=2, dtype=jnp.float32)
    >>> x.shape, target.action(x).tolist()
    ((3, 3, 4, 4, 4, 4, 8, 2), [0.0, 0.0])
    """
    named, sides = Group.named(group), checked("lattice", tuple(sides), Sides)
    kind = PlanarWilson if len(sides) == 2 and not named.special else Wilson
    return kind(named, sides, parameter("beta", beta, Beta), parameter("gamma", gamma, Positive))
