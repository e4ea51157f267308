"""What is measured of gauge fields, and what is known of them: it asks what their actions are."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from dlhmc.actions.angles import PlaquetteFunction
from dlhmc.actions.loops import Plaquette, Rectangle
from dlhmc.exact import characters as exact
from dlhmc.exact.splitting import TorusDraws
from dlhmc.exact.von_mises import U1Draws
from dlhmc.geometry.contract import PerChain, sum_sites
from dlhmc.geometry.torus import Torus
from dlhmc.lattice import links as lattice
from dlhmc.lattice.links import Links, colors_of, dimensions_of, is_angles, sides_of, total
from dlhmc.lattice.loops import loop_traces, planes, plaquette_phases, plaquette_sines
from dlhmc.targets.contract import ExactDraws, Known, Moment, Observed, Symmetry, Target
from dlhmc.theories.gauge.fermions import PickedDraws, fermions_of, has_fermions, quenched, with_determinant
from dlhmc.theories.gauge.groups import SU2, Group

# Sizes of Wilson loops and charges that tests of exactness look at, beside the moments.
_LOOPS = ((1, 2), (2, 2))
_CHARGES = range(-4, 5)
# What changes when time and space are exchanged: fermions are antiperiodic in time.
_TURNS = ("reflection of the diagonal", "rotation")


def is_gauge_field(target: Target) -> bool:
    """Whether its links are those of a lattice, with actions of loops or of plaquette angles alone."""
    return all(isinstance(action, Plaquette | Rectangle | PlaquetteFunction) for action in target.actions)


def wilson_coupling(target: Target) -> Float[Array, ""] | None:
    """β of the Wilson action, γ included; None for any other action."""
    if any(type(action) is not Plaquette for action in target.actions):
        return None
    return target.gamma * total([action.coefficient for action in target.actions])  # type: ignore[attr-defined]


def has_charge(target: Target) -> bool:
    """Determinants carry one in two dimensions."""
    return target.known.sector == "charge"


# Observables.


def plaquette(x: Links) -> PerChain:
    """The average of Re tr P/N."""
    traces = loop_traces(x)
    return sum_sites(traces) / traces[..., 0].size


def measure_loop(x: Links, m: int, n: int) -> PerChain:
    """The m × n loop Re tr W/N, averaged over sites, planes and both orientations in each."""
    loops = [lattice.wilson_loop(x, plane, *kind) for plane in planes(dimensions_of(x)) for kind in {(m, n), (n, m)}]
    return sum_sites(total(loops)) / (len(loops) * loops[0][..., 0].size)


def all_loops(largest: int, x: Links) -> Float[Array, "m n chain"]:
    """All m × n Wilson loops up to a size, each averaged over sites, planes and orientations."""
    sizes = range(1, largest + 1)
    loops = {(m, n): measure_loop(x, m, n) for m in sizes for n in range(m, largest + 1)}
    return jnp.stack([jnp.stack([loops[min(m, n), max(m, n)] for n in sizes]) for m in sizes])


def charge(x: Links) -> PerChain:
    """Q = (1/2π) Σ_P arg det P, eq. (4), rounded to the integer that it is up to rounding errors."""
    return jnp.round(sum_sites(plaquette_phases(x)) / (2 * np.pi))


def sine_charge(x: Links) -> PerChain:
    """Q_R = (1/2π) Σ_P Im det P, eq. (5), which is differentiable."""
    return sum_sites(plaquette_sines(x)) / (2 * np.pi)


def observe_angles(x: Links) -> dict[str, Observed]:
    """Average plaquette and both topological charges."""
    return {"plaquette": plaquette(x), "charge": charge(x), "sine_charge": sine_charge(x)}


def observe(x: Links) -> dict[str, Observed]:
    """Average plaquette, and Polyakov loops in each direction."""
    loops = lattice.polyakov_loops(x)
    return {"plaquette": plaquette(x), "polyakov": loops.real, "polyakov_modulus": jnp.abs(loops)}


def observe_charged(x: Links) -> dict[str, Observed]:
    """All of them."""
    return observe(x) | observe_angles(x)


# What is known of the Wilson action.


def _functions(target: Target, x: Links) -> dict[str, PerChain]:
    """Larger Wilson loops, Polyakov loops, and the distribution of the charge."""
    functions = {f"loop {m}x{n}": measure_loop(x, m, n) for m, n in _loops(target)}
    for direction, loop in enumerate(lattice.polyakov_loops(x)):
        # The trace of an SU(2) matrix has no imaginary part but rounding.
        parts = {"re": loop.real} if _group(target) == SU2 else {"re": loop.real, "im": loop.imag}
        parts["squared"] = loop.real**2 + loop.imag**2
        functions |= {f"polyakov {direction} {part}": value for part, value in parts.items()}
    if not has_charge(target):
        return functions
    sector = charge(x)
    return functions | {f"P(Q = {q})": (sector == q).astype(sector.dtype) for q in _CHARGES}


def _group(target: Target) -> Group:
    return Group(*colors_of(target.geometry))


def _loops(target: Target) -> list[tuple[int, int]]:
    """Those that do not touch themselves around the lattice."""
    return [size for size in _LOOPS if max(size) < min(sides_of(target.geometry))]


def _exact(target: Target) -> dict[str, float]:
    """Finite-volume values, which hold for the annealed action too: it is Wilson's at γβ."""
    coupling, group, sides = wilson_coupling(target), _group(target), sides_of(target.geometry)
    if coupling is None:
        return {}
    # The centre makes Polyakov loops vanish, in all dimensions.
    parts = ("re",) if group == SU2 else ("re", "im")
    values = {f"polyakov {direction} {part}": 0.0 for direction in range(len(sides)) for part in parts}
    if len(sides) != 2:
        return values
    beta, volume = float(coupling), int(np.prod(sides))
    arguments = *group, beta, volume
    values["plaquette"] = exact.plaquette(*arguments)
    values |= {f"loop {m}x{n}": exact.wilson_loop(*arguments, m * n) for m, n in _loops(target)}
    for direction, side in enumerate(sides):
        # The average over the lattice is one over the distances of two loops.
        correlation = [exact.polyakov_correlation(*arguments, area) for area in range(0, volume, side)]
        values[f"polyakov {direction} squared"] = float(np.mean(correlation))
    if group.special:
        return values
    values["charge_squared"] = exact.charge_squared(group.colors, beta, volume)
    values["sine_charge_squared"] = exact.sine_charge_squared(group.colors, beta, volume)
    probabilities = exact.charge_distribution(group.colors, beta, volume, _CHARGES)
    # Rarer charges are too few for the central limit theorem.
    return values | {f"P(Q = {q})": float(p) for q, p in zip(_CHARGES, probabilities, strict=True) if p > 1e-3}


def _slow_variance(target: Target, name: str) -> float | None:
    """The charge changes by ±1, so that its variance is what it takes, where ⟨Q²⟩ is known."""
    return target.exact().get("charge_squared") if name == "charge" else None


def _exact_draws(target: Target) -> ExactDraws | None:
    """Independent configurations, of angles and of two colors in two dimensions."""
    coupling, sides = wilson_coupling(target), sides_of(target.geometry)
    if coupling is None or len(sides) != 2:
        return None
    lattice_sides = (sides[0], sides[1])
    if isinstance(target.geometry, Torus):
        return U1Draws.build(lattice_sides, float(coupling))
    group = _group(target)
    return TorusDraws.build(lattice_sides, group.special, float(coupling)) if group.colors == 2 else None


def _approximate_draws(target: Target) -> ExactDraws | None:
    """Exact draws, those picked by the determinant of fermions, or else starts from many sweeps of the heat bath."""
    from dlhmc.theories.gauge.heatbath import HeatBathDraws  # which knows this target

    if has_fermions(target):
        draws, light = quenched(target).exact_draws(), fermions_of(target)
        return PickedDraws(draws, light.mass, light.flavours) if isinstance(draws, U1Draws) else None
    exact_draws = target.exact_draws()
    return HeatBathDraws.of(target) if exact_draws is None else exact_draws


def _symmetries(target: Target) -> dict[str, Symmetry]:
    """Gauge transformations, translations, charge conjugation and reflections; in a square plane also rotations."""
    geometry, group, sides = target.geometry, _group(target), sides_of(target.geometry)
    sites = geometry.resized(sides)
    # An observable is odd where the orientation of the plaquettes is reversed.
    odd = frozenset({"charge", "sine_charge"} if has_charge(target) else ())

    def gauge(key: Key[Array, ""], x: Links) -> Links:
        real = jnp.finfo(x.dtype).dtype
        return lattice.gauge_transform(x, sites.scatter(key, x.shape[-1], jnp.dtype(real)))

    def translation(key: Key[Array, ""], x: Links) -> Links:
        return lattice.translate(x, jax.random.randint(key, (len(sides),), 0, jnp.array(sides)))

    def of(function: Callable[[Links], Links], odd: frozenset[str] = frozenset()) -> Symmetry:
        return Symmetry(lambda _, x: function(x), odd)

    table = {"gauge transformation": Symmetry(gauge), "translation": Symmetry(translation)}
    if group != SU2:
        table["charge conjugation"] = of(lambda x: -x if is_angles(x) else jnp.conj(x), odd)
    for axis in range(len(sides)):
        table[f"reflection of axis {axis}"] = of(functools.partial(lattice.reflect, axis=axis), odd)
    # Those of matrices are not among them: Polyakov loops are observables there, and would change places.
    if isinstance(geometry, Torus) and sides[0] == sides[1]:
        table |= {"reflection of the diagonal": of(lattice.transpose, odd), "rotation": of(lattice.rotate)}
    return {name: one for name, one in table.items() if name not in _TURNS or not has_fermions(target)}


def _guided(target: Target) -> tuple[Target, Target]:
    """With fermions: the determinant, and the gauge action as a guide."""
    return (with_determinant(target), quenched(target)) if has_fermions(target) else (target, target)


NEUTRAL = Known(
    moments={"plaquette": Moment("plaquette")},
    slow=lambda target: {"plaquette": None},
    symmetries=_symmetries,
    functions=_functions,
    exact=_exact,
    exact_draws=_exact_draws,
    approximate_draws=_approximate_draws,
)
CHARGED = Known(
    moments={
        "plaquette": Moment("plaquette"),
        "charge_squared": Moment("charge", 2),
        "sine_charge_squared": Moment("sine_charge", 2),
    },
    slow=lambda target: {"charge": 0.0, "sine_charge": 0.0},
    sector="charge",
    smooth_sector=lambda target, x: sine_charge(x),
    symmetries=_symmetries,
    functions=_functions,
    exact=_exact,
    exact_draws=_exact_draws,
    approximate_draws=_approximate_draws,
    slow_variance=_slow_variance,
    guided=_guided,
)
FERMIONS = dataclasses.replace(
    CHARGED,
    # Gauge steps for each step of the fermions, which cost much more and pull less.
    inner_steps=4,
    # At small masses larger steps are unstable near small eigenvalues of D, and ⟨e^{−ΔH}⟩ cannot be measured.
    wanted_acceptance=0.95,
)
