"""Local layers: leapfrog whose force is weighted plaquette by plaquette, and momenta that are scaled on the way.

    kick    v ← e^{s}·v − ε e^{s/2} Σ_P w(P)·∂S_P     with w a polynomial of gauge-invariant numbers of the plaquette P
    drift   U ← e^{ieεv}·U

For U(N) = U(1) × SU(N) the force ∂S_P of a plaquette has two parts, and each has a weight of its own.

w, s and e depend on the distance from a place that is drawn anew for each trajectory (`radial`). With w = e = 1 and
s = 0 this is HMC. A weight that falls where the action of a plaquette is large puts a lid on barriers, a negative one
drives it there, and s > 0 heats before s < 0 cools. Nothing here knows which way to go: that comes from the loss alone.
Parameters do not know the lattice, so that they serve on any, and the layers are gauge covariant.

With R the flip of the momentum, a kick is undone by R·kick·R with the opposite s, a drift by R·drift·R: F⁻¹ is
R·F·R with the parameters in the opposite order. A palindrome, whose second half mirrors the first with the opposite s,
is then its own way back with log|J| = 0, and one direction suffices. Free layers have parameters of their own
throughout, log|J| = dim(algebra)·Σ s over links and kicks, and go either way with equal probability.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, Key

from dlhmc.geometry.contract import Field, Momentum, real_dtype
from dlhmc.layers.contract import Phase, Trajectory
from dlhmc.layers.palindrome import mirrored, mirrored_odd
from dlhmc.layers.stack import either_way
from dlhmc.numerics import rng
from dlhmc.targets.contract import Target
from dlhmc.theories.gauge.radial import basis, inverse_sqrt_multiplicity, link_distances, plaquette_distances
from dlhmc.theories.gauge.tiles import Tiles, tiles_along


@runtime_checkable
class PlaquetteTarget(Protocol):
    """A target whose action is a sum over plaquettes."""

    @property
    def sides(self) -> tuple[int, ...]:
        """Of the periodic lattice."""

    @property
    def force_parts(self) -> int:
        """Parts of the force of a plaquette that may have weights of their own."""

    def stiffness(self) -> Float[Array, ""]:
        """Half of the curvature of the action along one link of a cold configuration."""

    def plaquette_features(self, x: Field) -> Float[Array, "feature *plaquette chain"]:
        """Gauge-invariant numbers of each plaquette, from −1 to 1, that do not change with its orientation."""

    def weighted_flow(self, x: Field, weights: Float[Array, "part *plaquette chain"]) -> Float[Array, "..."]:
        """What `flow_force` needs to know of the plaquettes where each part of their force has a weight."""

    def flow_force(self, x: Field, flow: Float[Array, "..."]) -> Momentum:
        """The sum of the forces of all plaquettes, with their weights."""


# w in these units: it has far to go.
_COARSE = 3.0


class Kick(NamedTuple):
    """The parameters of a kick, as functions of the distance but for the time that it lasts."""

    weight: Float[Array, "part*radius feature degree"]
    constant: Float[Array, " part*radius"]
    scale: Float[Array, " radius"]
    lasts: Float[Array, ""]


class Drift(NamedTuple):
    """The parameters of a drift."""

    step: Float[Array, ""]
    log_factor: Float[Array, " radius"]


class Local(Trajectory):
    """A palindrome of `number` layers, of which every array holds the first half and the middle; or free layers.

    All but `log_step` are functions of the distance, by their values at `radii`.
    """

    #: what is added to w = 1: coefficients of Chebyshev polynomials of each feature, their constant terms apart; those
    #: of one part of the force after those of the other
    weight: Float[Array, "half part*radius feature degree"]
    constant: Float[Array, "half part*radius"]
    #: s, zero in the middle of an even number of layers
    scale: Float[Array, "quarter radius"]
    #: log ε, in units of 1/√stiffness, so that steps suit other couplings too
    log_step: Float[Array, " drift"]
    #: log e
    log_factor: Float[Array, "drift radius"]
    radii: tuple[float, ...] = eqx.field(static=True)
    number: int = eqx.field(static=True)
    #: links farther away do not move
    window: float = eqx.field(static=True)
    #: whether the arrays hold all layers
    free: bool = eqx.field(static=True, default=False)

    @classmethod
    def start(
        cls,
        number: int,
        step_size: ArrayLike,
        features: int,
        degree: int,
        radii: Sequence[float],
        window: float,
        *,
        parts: int = 1,
        free: bool = False,
    ) -> "Local":
        """HMC with leapfrog steps of this size, in units of 1/√stiffness, inside the window."""
        size = max(1, len(radii) - 1)
        kicks, drifts = (number + 1, number) if free else (number // 2 + 1, (number + 1) // 2)
        return cls(
            weight=jnp.zeros((kicks, parts * size, features, degree)),
            constant=jnp.zeros((kicks, parts * size)),
            scale=jnp.zeros((kicks if free else drifts, size)),
            log_step=jnp.full(drifts, jnp.log(jnp.asarray(step_size, float))),
            log_factor=jnp.zeros((drifts, size)),
            radii=tuple(float(r) for r in radii),
            number=number,
            window=float(window),
            free=free,
        )

    def __len__(self) -> int:
        return self.number

    @property
    def forces(self) -> int:
        """One for each kick."""
        return self.number + 1

    @property
    def forces_of_target(self) -> int:
        """They are those of the plaquettes."""
        return 0

    def forward(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F(x, v) around the origin."""
        return self._run(target, x, v, _origin(target), record=False)[0]

    def inverse(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F⁻¹(x, v) around the origin."""
        return self._back(target, x, v, _origin(target))

    @rng.by_chain
    def propose(self, key: Key[Array, ""], target: Target, x: Field, v: Momentum) -> Phase:
        """F at a place drawn for all chains together; of a palindrome the way back is F from the flipped momentum."""
        return self._propose(key, target, x, v, _random_place(key, _of_plaquettes(target).sides))

    def propose_parts(self, key: Key[Array, ""], target: Target, x: Field, v: Momentum) -> tuple[Phase, Tiles] | None:
        """F in as many windows as there is room for, if no term of the action can see links of two of them."""
        sides = _of_plaquettes(target).sides
        tiles = Tiles(_random_place(key, sides), sides, tiles_along(sides, self.window))
        if tiles.number == 1 or not _has_plaquettes_alone(target):
            return None
        end = self._propose(key, target, x, v, tiles.place, tiles.numbers)
        return end._replace(log_jacobian=end.log_jacobian / tiles.number), tiles

    def _propose(self, key: Key[Array, ""], target: Target, x: Field, v: Momentum, *where: Any) -> Phase:
        def there(x: Field, v: Momentum) -> Phase:
            return self._run(target, x, v, *where, record=False)[0]

        if not self.free:
            return there(x, v)
        return either_way(jax.random.fold_in(key, 1), there, lambda x, v: self._back(target, x, v, *where), x, v)

    def _back(self, target: Target, x: Field, v: Momentum, *where: Any) -> Phase:
        """F⁻¹ = R·F·R with the parameters in the opposite order, which for a palindrome are the same."""
        end = self._run(target, x, -v, *where, backward=self.free, record=False)[0]
        return end._replace(v=-end.v)

    def layer_by_layer(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F around the origin, with the phase after each drift and the kick that follows."""
        return self._run(target, x, v, _origin(target), record=True)[1]

    def _run(
        self,
        target: Target,
        x: Field,
        v: Momentum,
        place: Int[Array, " direction"],
        numbers: tuple[int, ...] | None = None,
        *,
        backward: bool = False,
        record: bool,
    ) -> tuple[Phase, Any]:
        sides, dtype = _of_plaquettes(target).sides, real_dtype(x)
        # Without a chain axis, these fields cost nothing.
        of_links = link_distances(sides, place, numbers).astype(dtype)[..., None]
        on_links = self._hats(of_links)
        on_plaquettes = self._hats(plaquette_distances(sides, place, numbers).astype(dtype))[..., None]
        moving = (of_links < self.window).astype(dtype)
        components = v.size / (v.shape[-1] * of_links.size)

        # The flow is carried, because what a loop carries is written to memory: fused with the force, the polynomial
        # would be computed for each of the links around a plaquette.
        Carry = tuple[Phase, Array]

        def flow_of(x: Field, of_kick: Kick) -> Array:
            features = target.plaquette_features(x)  # type: ignore[attr-defined]
            hats = on_plaquettes.reshape(-1, *features.shape[1:-1], 1)
            return target.weighted_flow(x, 1 + _polynomials(of_kick, hats, features))  # type: ignore[attr-defined]

        def kick(phase: Phase, flow: Array, of_kick: Kick) -> Phase:
            x, v, log_jacobian = phase
            scale = moving * jnp.tensordot(of_kick.scale, on_links, axes=1)
            force = target.flow_force(x, flow)  # type: ignore[attr-defined]
            v = jnp.exp(scale) * v - (of_kick.lasts * moving * jnp.exp(0.5 * scale)) * force
            return Phase(x, v, log_jacobian + components * jnp.sum(scale))

        def layer(carry: Carry, of_layer: tuple[Kick, Drift, Kick]) -> tuple[Carry, Carry | None]:
            of_kick, drift, of_next = of_layer
            phase = kick(*carry, of_kick)
            step = drift.step * moving * jnp.exp(jnp.tensordot(drift.log_factor, on_links, axes=1))
            x, v = target.geometry.drift(phase.x, phase.v, step * phase.v)
            phase = Phase(x, v, phase.log_jacobian)
            carry = phase, flow_of(x, of_next)
            return carry, carry if record else None

        kicks, drifts = self._parameters(dtype, 1 / jnp.sqrt(_of_plaquettes(target).stiffness().astype(dtype)))
        if backward:
            kicks, drifts = jax.tree.map(lambda a: a[::-1], (kicks._replace(scale=-kicks.scale), drifts))
        first, last = (jax.tree.map(lambda a, at=at: a[at], kicks) for at in (0, -1))
        before, after = jax.tree.map(lambda a: a[:-1], kicks), jax.tree.map(lambda a: a[1:], kicks)
        begin = Phase(x, v, jnp.zeros(x.shape[-1], dtype))
        carry, recorded = jax.lax.scan(layer, (begin, flow_of(x, first)), (before, drifts, after))
        end = kick(*carry, last)
        phases = None if recorded is None else jax.vmap(kick)(recorded[0], recorded[1], after)
        if not self.free:  # heating and cooling cancel exactly, and not only to rounding
            end = end._replace(log_jacobian=jnp.zeros_like(end.log_jacobian))
        return end, phases

    def _hats(self, distances: Float[Array, "*field"]) -> Float[Array, "radius *field"]:
        """Of all radii but the last, from where on it is HMC; one radius alone stands for the whole lattice."""
        return basis(self.radii, distances)[: self.scale.shape[1]]

    def _parameters(self, dtype: jnp.dtype, unit: Float[Array, ""]) -> tuple[Kick, Drift]:
        """Those of all kicks and drifts."""
        kicks, by = self.number + 1, jnp.asarray(inverse_sqrt_multiplicity(self.radii)[: self.scale.shape[1]], dtype)
        of_parts = jnp.tile(by, self.weight.shape[1] // len(by))
        even, odd = (_as_it_is, _as_it_is) if self.free else (mirrored, mirrored_odd)
        steps = unit * even(jnp.exp(self.log_step), self.number).astype(dtype)
        # A kick lasts as long as half of the drifts on both its sides.
        lasts = 0.5 * (jnp.pad(steps, (0, 1)) + jnp.pad(steps, (1, 0)))
        kick = Kick(
            of_parts[:, None, None] * even(self.weight, kicks).astype(dtype),
            _COARSE * of_parts * even(self.constant, kicks).astype(dtype),
            by * odd(self.scale, kicks).astype(dtype),
            lasts,
        )
        return kick, Drift(steps, by * even(self.log_factor, self.number).astype(dtype))


def _as_it_is(parameters: Array, number: int) -> Array:
    return parameters


def _polynomials(
    kick: Kick, hats: Float[Array, "radius *plaquette 1"], features: Float[Array, "feature *plaquette chain"]
) -> Float[Array, "part *plaquette chain"]:
    """c + Σ_f Σ_n c_fn (T_n(f) − 1), n ≥ 1, by Clenshaw's recurrence: c alone where a plaquette is 1."""

    def of_part(constant: Array, weight: Array) -> Array:
        total = jnp.broadcast_to(jnp.tensordot(constant, hats, axes=1), features.shape[1:])
        for weights, f in zip(jnp.moveaxis(weight, 1, 0), features, strict=True):
            coefficients = jnp.tensordot(weights.T, hats, axes=1)
            above, two_above = jnp.zeros_like(f), jnp.zeros_like(f)
            for c in coefficients[::-1]:
                above, two_above = c + 2 * f * above - two_above, above
            total = total + f * above - two_above - jnp.sum(coefficients, axis=0)
        return total

    radii = hats.shape[0]
    starts = range(0, kick.constant.shape[0], radii)
    return jnp.stack([of_part(kick.constant[at : at + radii], kick.weight[at : at + radii]) for at in starts])


def _has_plaquettes_alone(target: Target) -> bool:
    """Whether the action is that of the class that weighs its plaquettes.

    A subclass with another action may have added terms that reach farther, and auxiliary fields see the whole lattice.
    """
    action, weighed = (
        next(kind for kind in type(target).__mro__ if name in vars(kind)) for name in ("local_action", "weighted_flow")
    )
    return action is weighed and type(target).refresh is Target.refresh


def _random_place(key: Key[Array, ""], sides: tuple[int, ...]) -> Int[Array, " direction"]:
    return jax.random.randint(key, (len(sides),), 0, jnp.asarray(sides, jnp.int32), jnp.int32)


def _origin(target: Target) -> Int[Array, " direction"]:
    return jnp.zeros(len(_of_plaquettes(target).sides), jnp.int32)


def _of_plaquettes(target: Target) -> PlaquetteTarget:
    if not isinstance(target, PlaquetteTarget):
        raise TypeError("local layers are made for targets whose action is a sum over plaquettes")
    return target
