"""U(N) and SU(N) gauge fields in two, three and four dimensions, with any actions, and what is measured of them."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Complex, Float, Key
from numpy.typing import NDArray

from dlhmc.exact import characters as exact
from dlhmc.exact.splitting import TorusDraws
from dlhmc.geometry.contract import Momentum, PerChain, real_dtype, sum_sites
from dlhmc.geometry.unitary import UnitaryMatrices
from dlhmc.names import Start
from dlhmc.numerics.leaves import parameter
from dlhmc.settings import Positive, checked
from dlhmc.targets.contract import ExactDraws, Moment, Observed, Symmetry, Target
from dlhmc.theories.gauge import lattice
from dlhmc.theories.gauge.actions import Action, Plaquette, with_rectangles
from dlhmc.theories.gauge.groups import RECTANGLES, SU2, Group
from dlhmc.theories.gauge.lattice import Links, Loops
from dlhmc.theories.gauge.theory import Beta, Sides

# Sizes of Wilson loops and charges that tests of exactness look at, beside the moments.
_LOOPS = ((1, 2), (2, 2))
_CHARGES = range(-3, 4)


class GaugeField(Target):
    """p(U) ∝ e^{−γβ Σ S_i(U)} with actions S_i, on a periodic lattice of two, three or four dimensions.

    >>> from dlhmc import Rectangle
    >>> target = GaugeField("su2", (4, 4), beta=2.0, actions=(Plaquette(1.4), Rectangle(-0.05)))
    >>> x = target.start(jax.random.key(0), "cold", chains=2, dtype=jnp.float32)
    >>> x.shape, target.action(x).tolist()
    ((2, 2, 2, 4, 4, 2), [0.0, 0.0])
    """

    couplings: ClassVar[tuple[str, ...]] = ("gamma", "beta")

    group: Group = eqx.field(static=True)
    sides: tuple[int, ...] = eqx.field(static=True)
    beta: Float[Array, ""]
    gamma: Float[Array, ""]
    actions: tuple[Action, ...]

    def __init__(
        self,
        group: str | Group,
        sides: tuple[int, ...],
        beta: ArrayLike,
        gamma: ArrayLike = 1.0,
        actions: Sequence[Action] | None = None,
    ) -> None:
        self.group = Group.named(group) if isinstance(group, str) else group
        self.sides = checked("lattice", tuple(sides), Sides)
        self.actions = tuple(actions or (Plaquette(),))
        self.beta, self.gamma = parameter("beta", beta, Beta), parameter("gamma", gamma, Positive)

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

    @property
    def has_charge(self) -> bool:
        """Determinants carry one in two dimensions."""
        return self.dimensions == 2 and not self.group.special

    @property
    def moments(self) -> Mapping[str, Moment]:  # type: ignore[override]
        """The plaquette, and those of the charges."""
        charges = {"charge_squared": Moment("charge", 2), "sine_charge_squared": Moment("sine_charge", 2)}
        return {"plaquette": Moment("plaquette")} | (charges if self.has_charge else {})

    @property
    def slow(self) -> Mapping[str, float | None]:  # type: ignore[override]
        """The charges, or else the plaquette."""
        return {"charge": 0.0, "sine_charge": 0.0} if self.has_charge else {"plaquette": None}

    @property
    def sector(self) -> str | None:  # type: ignore[override]
        """The charge."""
        return "charge" if self.has_charge else None

    def coupling(self, dtype: jnp.dtype) -> Float[Array, ""]:
        """γβ."""
        return self.beta.astype(dtype) * self.gamma.astype(dtype)

    def local_action(self, x: Links) -> Loops:
        """γβ S for each loop."""
        return self.coupling(real_dtype(x)) * _joined([action.terms(x) for action in self.actions])

    def force(self, x: Links) -> Momentum:
        """γβ ∂_a S."""
        return self.coupling(real_dtype(x)) * lattice.total([a.force(self.geometry, x) for a in self.actions])

    # What local layers need.

    @property
    def reach(self) -> int:
        """Of the largest loops."""
        return max(action.reach for action in self.actions)

    @property
    def weights_per_cell(self) -> int:
        """That along the generators of SU(N) and, for U(N), that along the unit matrix."""
        return 1 if self.group.special or self.group.colors == 1 else 2

    @property
    def pushes_per_cell(self) -> int:
        """The phase of the determinant, where there is one."""
        return 0 if self.group.special else 1

    def resized(self, sides: tuple[int, ...]) -> Self:
        """The same action on another lattice."""
        return type(self)(self.group, sides, self.beta, self.gamma, self.actions)

    def cells_of(self, links: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Loops that contain a link."""
        return np.concatenate([action.cells_of(links) for action in self.actions])

    def cell_numbers(self, x: Links) -> Float[Array, "number shape *site chain"]:
        """Those of every loop."""
        return _joined([action.numbers(self.geometry, x) for action in self.actions], axis=1)

    def pushed_force(
        self,
        x: Links,
        weights: Float[Array, "weight shape *site chain"],
        pushes: Float[Array, "push shape *site chain"],
    ) -> Momentum:
        """Σ_c [w_c ∂S_c + t_c ∂q_c]."""
        ends = np.cumsum([action.shapes(self.dimensions) for action in self.actions])
        of_forces = jnp.split(self.coupling(real_dtype(x)) * weights, ends[:-1], axis=1)
        parts = zip(self.actions, of_forces, jnp.split(pushes, ends[:-1], axis=1), strict=True)
        return lattice.total([action.pushed_force(self.geometry, x, w, t) for action, w, t in parts])

    def stiffness(self) -> Float[Array, ""]:
        """Half of the curvature of the action along one link of a cold configuration; γβ for U(1) in a plane."""
        curvature = lattice.total([action.curvature(self.dimensions) for action in self.actions])
        return self.geometry.norm / self.group.colors * curvature * self.coupling(self.beta.dtype)

    # Observables.

    def plaquette(self, x: Links) -> PerChain:
        """The average of Re tr P/N."""
        return sum_sites(lattice.loop_traces(x)) / (self.volume * len(lattice.planes(self.dimensions)))

    def wilson_loop(self, x: Links, m: int, n: int) -> PerChain:
        """The m × n loop Re tr W/N, averaged over sites, planes and both orientations in each."""
        kinds = {(m, n), (n, m)}
        loops = [lattice.wilson_loop(x, plane, *k) for plane in lattice.planes(self.dimensions) for k in kinds]
        return sum_sites(lattice.total(loops)) / (self.volume * len(loops))

    def polyakov_loops(self, x: Links) -> Complex[Array, "direction chain"]:
        """The Polyakov loop tr L/N in each direction, averaged over the lattice."""
        return lattice.polyakov_loops(x)

    def observables(self, x: Links) -> dict[str, Observed]:
        """Average plaquette, Polyakov loops in each direction, and both charges."""
        loops = self.polyakov_loops(x)
        found = {"plaquette": self.plaquette(x), "polyakov": loops.real, "polyakov_modulus": jnp.abs(loops)}
        charges = {"charge": self.charge(x), "sine_charge": self.sine_charge(x)} if self.has_charge else {}
        return found | charges

    def charge(self, x: Links) -> PerChain:
        """Q = (1/2π) Σ_P arg det P, rounded to the integer that it is up to rounding errors."""
        return jnp.round(sum_sites(jnp.angle(lattice.loop_determinants(x))) / (2 * np.pi))

    def sine_charge(self, x: Links) -> PerChain:
        """(1/2π) Σ_P Im det P, which is differentiable."""
        return sum_sites(lattice.loop_determinants(x).imag) / (2 * np.pi)

    def smooth_sector(self, x: Links) -> PerChain | None:
        """That of Im det P."""
        return self.sine_charge(x) if self.has_charge else None

    def start(self, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Links:
        """Hot: Haar measure; cold: all links 1."""
        shape = (*self.shape, chains)
        if kind == "cold":
            one = jnp.eye(self.group.colors, dtype=self.geometry.dtype(dtype))
            return jnp.broadcast_to(one.reshape(*one.shape, *(1,) * (len(shape) - 2)), shape)
        return self.geometry.haar(key, chains, dtype)

    # Ground truth of the Wilson action.

    def test_functions(self, x: Links) -> dict[str, PerChain]:
        """The moments, larger Wilson loops, Polyakov loops, and the distribution of the charge."""
        functions = super().test_functions(x)
        for m, n in self._loops():
            functions[f"loop {m}x{n}"] = self.wilson_loop(x, m, n)
        for direction, loop in enumerate(self.polyakov_loops(x)):
            # The trace of an SU(2) matrix has no imaginary part but rounding.
            parts = {"re": loop.real} if self.group == SU2 else {"re": loop.real, "im": loop.imag}
            parts["squared"] = loop.real**2 + loop.imag**2
            functions |= {f"polyakov {direction} {part}": value for part, value in parts.items()}
        if self.has_charge:
            charge = self.charge(x)
            functions |= {f"P(Q = {q})": (charge == q).astype(charge.dtype) for q in _CHARGES}
        return functions

    def _loops(self) -> list[tuple[int, int]]:
        """Those that do not touch themselves around the lattice."""
        return [size for size in _LOOPS if max(size) < min(self.sides)]

    def exact(self) -> dict[str, float]:
        """Finite-volume values, which hold for the annealed action too: it is Wilson's at γβ."""
        coupling = wilson_coupling(self)
        if coupling is None:
            return {}
        # The centre makes Polyakov loops vanish, in all dimensions.
        parts = ("re",) if self.group == SU2 else ("re", "im")
        values = {f"polyakov {direction} {part}": 0.0 for direction in range(self.dimensions) for part in parts}
        if self.dimensions != 2:
            return values
        colors, special, volume, beta = *self.group, self.volume, float(coupling)
        arguments = colors, special, beta, volume
        values["plaquette"] = exact.plaquette(*arguments)
        values |= {f"loop {m}x{n}": exact.wilson_loop(*arguments, m * n) for m, n in self._loops()}
        for direction, side in enumerate(self.sides):
            # The average over the lattice is one over the distances of two loops.
            correlation = [exact.polyakov_correlation(*arguments, area) for area in range(0, volume, side)]
            values[f"polyakov {direction} squared"] = float(np.mean(correlation))
        if special:
            return values
        values["charge_squared"] = exact.charge_squared(colors, beta, volume)
        probabilities = exact.charge_distribution(colors, beta, volume, _CHARGES)
        # Rarer charges are too few for the central limit theorem.
        return values | {f"P(Q = {q})": float(p) for q, p in zip(_CHARGES, probabilities, strict=True) if p > 1e-3}

    def slow_variance(self, name: str) -> float | None:
        """The charge changes by ±1."""
        return self.exact().get("charge_squared") if name == "charge" else None

    def exact_draws(self) -> TorusDraws | None:
        """Independent configurations, of two colors in two dimensions."""
        coupling = wilson_coupling(self)
        if coupling is None or self.dimensions != 2 or self.group.colors != 2:
            return None
        return TorusDraws.build((self.sides[0], self.sides[1]), *self.group, float(coupling))

    def approximate_draws(self) -> ExactDraws | None:
        """Exact draws, or else what many sweeps of the heat bath make of a cold start, where there is one."""
        from dlhmc.theories.gauge.heatbath import HeatBathDraws  # which knows this target

        exact = self.exact_draws()
        return HeatBathDraws.of(self) if exact is None else exact

    # Symmetries.

    def symmetries(self) -> dict[str, Symmetry]:
        """Gauge transformations, translations, charge conjugation and reflections."""
        sites = UnitaryMatrices(self.group.colors, self.group.special, self.sides)
        odd = frozenset({"charge", "sine_charge"} if self.has_charge else ())

        def random_gauge(key: Key[Array, ""], x: Links) -> Links:
            return lattice.gauge_transform(x, x, sites.haar(key, x.shape[-1], real_dtype(x)))[0]

        def random_translation(key: Key[Array, ""], x: Links) -> Links:
            return lattice.translate(x, jax.random.randint(key, (self.dimensions,), 0, jnp.array(self.sides)))

        def reflection(axis: int) -> Symmetry:
            return Symmetry(lambda _, x: lattice.reflect(x, axis), odd)

        return {
            "gauge transformation": Symmetry(random_gauge),
            "translation": Symmetry(random_translation),
            **({} if self.group == SU2 else {"charge conjugation": Symmetry(lambda _, x: jnp.conj(x), odd)}),
            **{f"reflection of axis {axis}": reflection(axis) for axis in range(self.dimensions)},
        }


def wilson_coupling(target: Target) -> Float[Array, ""] | None:
    """β of the Wilson action, γ included; None for any other action, whatever class its target is derived from."""
    if not isinstance(target, GaugeField) or type(target).local_action is not GaugeField.local_action:
        return None
    coefficients = [action.coefficient for action in target.actions if type(action) is Plaquette]
    if len(coefficients) < len(target.actions):
        return None
    return target.beta * target.gamma * lattice.total(coefficients)


def all_loops(target: GaugeField, largest: int, x: Links) -> Float[Array, "m n chain"]:
    """All m × n Wilson loops up to a size, each averaged over sites, planes and orientations."""
    loops = {(m, n): target.wilson_loop(x, m, n) for m in range(1, largest + 1) for n in range(m, largest + 1)}
    sizes = range(1, largest + 1)
    return jnp.stack([jnp.stack([loops[min(m, n), max(m, n)] for n in sizes]) for m in sizes])


def wilson(group: str, sides: tuple[int, ...], beta: ArrayLike, gamma: ArrayLike = 1.0) -> GaugeField:
    """The Wilson action, β Σ_P (1 − Re tr P/N)."""
    return GaugeField(group, sides, beta, gamma)


def improved(group: str, sides: tuple[int, ...], beta: ArrayLike, c1: str | ArrayLike) -> GaugeField:
    """Plaquettes with 1 − 8c₁ and rectangles with c₁, a number or the name of an action (`RECTANGLES`).

    >>> [round(float(action.coefficient), 3) for action in improved("su3", (4, 4, 4, 8), 2.6, "iwasaki").actions]
    [3.648, -0.331]
    """
    return GaugeField(group, sides, beta, actions=with_rectangles(RECTANGLES[c1] if isinstance(c1, str) else c1))


def _joined(fields: Sequence[Array], axis: int = 0) -> Array:
    """Without a copy where there is one."""
    return fields[0] if len(fields) == 1 else jnp.concatenate(fields, axis)
