"""Defect layers: one place of the lattice opens, a unit of flux is driven through it, and it closes again.

In the frame of a plaquette drawn anew for each trajectory, the steps of a leapfrog trajectory get parameters that
depend on the distance r from that plaquette only (`radial`):

    kick   v ← e^{s/2}·(e^{s/2}·v − curl(w·s′(x_P) + c))        w, c of plaquettes, s of links; log|J| = Σ s
    drift  x ← x + e·v + curl(h)                                e of links, h of plaquettes

A trajectory is N_LF times kick and drift, then a last kick. In the paper's letters: s_v = s, t_v is the
force's change by w and c, ε_x = e and t_x = curl h. HMC has w = ε (½ε at the ends), e = ε and s = c = h = 0.

**Palindrome.** The second half of the trajectory is the mirror image of the first: w, e, h mirrored, s and c mirrored
with the opposite sign. Let R flip the momentum and C be charge conjugation (x, v) → (−x, −v). Then
F⁻¹ = CR∘F∘CR, and log|J| = 0 because the s of both halves cancel. With the sign of C drawn for each chain, F alone
goes both ways: one direction suffices, at half the parameters.

**Which way.** The sign is drawn with a probability q(σ|Q) that depends on the charge, rather towards the sector that is
more probable, and accept/reject gets the ratio q(−σ|Q′)/q(σ|Q). A fair coin would have three moves out of ten rejected
for no other reason than that the sector proposed is rarer.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from dlhmc.geometry.contract import PerChain
from dlhmc.layers.contract import Phase, Trajectory
from dlhmc.layers.palindrome import mirrored, mirrored_odd, padded
from dlhmc.numerics import rng, trig
from dlhmc.targets.contract import Target
from dlhmc.theories.gauge.radial import basis, inverse_sqrt_multiplicity, link_distances, plaquette_distances
from dlhmc.theories.u1.flux import flux_potential
from dlhmc.theories.u1.links import Links, Plaquettes, curl, plaquettes
from dlhmc.theories.u1.patch import Patch, Window
from dlhmc.theories.u1.plaquette_action import PlaquetteAction

T = TypeVar("T")
Half = Float[Array, "half radius"]

# c and h in these units: their effect on the acceptance is that much stronger than that of w and s.
_GENTLE = 0.1


class Flow(NamedTuple):
    """The parameters of the flow of a kick, as fields on the lattice."""

    weight: Float[Array, "x t 1"]
    push: Float[Array, "x t 1"]
    #: the network, and the sign with which the second half uses it
    patch: tuple[Patch, Array] | None


class Scale(NamedTuple):
    """e^s and e^{s/2} of a kick."""

    of_momentum: Float[Array, "2 x t 1"]
    of_force: Float[Array, "2 x t 1"]


class Drift(NamedTuple):
    """The parameters of a drift as fields on the lattice."""

    step: Float[Array, "2 x t 1"]
    shift: Float[Array, "2 x t 1"]
    patch: Patch | None


class Defect(Trajectory):
    """A palindrome of defect layers; every array holds the first half of the trajectory, the middle included."""

    log_base: Float[Array, ""]
    weight: Half
    scale: Half
    push: Half
    log_step: Half
    shift: Half
    #: networks on a window around the defect that correct c in the kicks and h in the drifts
    patches: tuple[Patch, Patch] | None
    radii: tuple[float, ...] = eqx.field(static=True)
    number: int = eqx.field(static=True)
    #: by how much F changes the charge of most configurations, if that is known: −direction
    direction: int = eqx.field(static=True)

    @classmethod
    def start(
        cls,
        number: int,
        step_size: float,
        radii: Sequence[float],
        width: float,
        flux: float,
        patches: tuple[Patch, Patch] | None,
    ) -> "Defect":
        """Leapfrog with a hole of the given width, and a shift that moves `flux` units through it.

        The hole opens during the first 35 % of the trajectory and closes during the last.
        """
        kicks, drifts = np.arange(number // 2 + 1), (number + 1) // 2
        ramp = np.clip(kicks / (0.35 * number), 0, 1)
        opening = 1 - ramp[:, None] * np.exp(-(np.asarray(radii) ** 2) / (2 * width**2))
        half_at_the_end = np.where(kicks == 0, 0.5, 1.0)[:, None]
        by, size = inverse_sqrt_multiplicity(radii), len(radii)
        shift = np.tile(flux * flux_potential(radii) / number, (drifts, 1))
        return cls(
            log_base=_array(np.log(step_size)),
            weight=_array(half_at_the_end * opening / by),
            scale=jnp.zeros(((number + 1) // 2, size)),
            push=jnp.zeros(((number + 1) // 2, size)),
            log_step=jnp.zeros((drifts, size)),
            shift=_array(shift / (_GENTLE * by)),
            patches=patches,
            radii=tuple(float(r) for r in radii),
            number=number,
            direction=int(np.sign(flux)),
        )

    def __len__(self) -> int:
        return self.number

    @property
    def forces(self) -> int:
        """One for each kick: the force of an action whose coupling depends on the place."""
        return self.number + 1

    @property
    def forces_of_target(self) -> int:
        """They are those of the plaquettes."""
        return 0

    def forward(self, target: Target, x: Links, v: Links) -> Phase:
        """F with the defect at plaquette (0, 0)."""
        return self._forward(_of_plaquettes(target), x, v, jnp.zeros(2, jnp.int32))

    def inverse(self, target: Target, x: Links, v: Links) -> Phase:
        """F⁻¹: the inverses of all kicks and drifts in the opposite order."""
        target, place = _of_plaquettes(target), jnp.zeros(2, jnp.int32)
        flows, scales, drifts, log_jacobian = self._fields(target, place, x.dtype)

        def kick_back(x: Links, v: Links, flow: Flow, scale: Scale) -> Links:
            return (v + scale.of_force * curl(_flow(target, place, x, flow))) / scale.of_momentum

        def step(phase: tuple[Links, Links], fields: tuple[Flow, Scale, Drift]) -> tuple[tuple[Links, Links], None]:
            x, v = phase
            flow, scale, drift = fields
            x = x - _displacement(place, v, drift)
            return (x, kick_back(x, v, flow, scale)), None

        last = _last(flows), _last(scales)
        others = _but_last(flows), _but_last(scales), drifts
        (x, v), _ = jax.lax.scan(step, (x, kick_back(x, v, *last)), others, reverse=True)
        return Phase(x, v, jnp.full(x.shape[-1], -log_jacobian))

    @rng.by_chain
    def propose(self, key: Key[Array, ""], target: Target, x: Links, v: Links) -> Phase:
        """F at a place drawn for all chains together, with the sign σ of the charge drawn for each chain.

        log|J| includes what the draw of σ adds to the exponent of accept/reject, log q(−σ|Q′) − log q(σ|Q).
        """
        target = _of_plaquettes(target)
        place_key, sign_key = jax.random.split(key)
        place = jax.random.randint(place_key, (2,), 0, jnp.asarray(target.lattice))
        lean = self._lean(target, x)
        sign = jnp.where(rng.uniform(sign_key, x.shape[-1:], x.dtype) < jax.nn.sigmoid(lean), 1, -1).astype(x.dtype)
        end = self._forward(target, sign * x, sign * v, place)
        x_new, v_new = sign * end.x, sign * end.v
        back = jax.nn.log_sigmoid(-sign * self._lean(target, x_new)) - jax.nn.log_sigmoid(sign * lean)
        return Phase(x_new, v_new, end.log_jacobian + back)

    def _lean(self, target: PlaquetteAction, x: Links) -> PerChain:
        """Rather towards the sector that is more probable: log q(+|Q)/q(−|Q) = ½ log P(Q−1)/P(Q+1) ≈ Q/⟨Q²⟩.

        The square root balances the way there and the way back (Zanella, J. Am. Stat. Assoc. 115 (2020) 852). Any
        function of Q is exact, so a ⟨Q²⟩ good to a few per cent is good enough.
        """
        if self.direction == 0:
            return jnp.zeros(x.shape[-1], x.dtype)
        return self.direction * target.charge(x) / target.charge_variance(x.dtype)

    def layer_by_layer(self, target: Target, x: Links, v: Links) -> Phase:
        """F with the defect at plaquette (0, 0); kicks between two layers are shared, half by half."""
        target, place = _of_plaquettes(target), jnp.zeros(2, jnp.int32)
        end, (xs, vs, flows) = self._run(target, x, v, place, record=True)
        _, scales, _, _ = self._fields(target, place, x.dtype)
        root = scales.of_force[1:-1]
        halfway = root * vs[:-1] - 0.5 * jax.vmap(curl)(flows[:-1])
        half = jnp.sum(jnp.log(scales.of_force), axis=(1, 2, 3, 4))
        so_far = 2 * jnp.cumsum(half)
        log_jacobian = jnp.concatenate([so_far[:-2] + half[1:-1], so_far[-1:]])
        vs = jnp.concatenate([halfway, end.v[None]])
        return Phase(xs, vs, jnp.broadcast_to(log_jacobian[:, None], (len(self), x.shape[-1])))

    def _forward(self, target: PlaquetteAction, x: Links, v: Links, place: Int[Array, "2"]) -> Phase:
        return self._run(target, x, v, place, record=False)[0]

    def _run(
        self, target: PlaquetteAction, x: Links, v: Links, place: Int[Array, "2"], *, record: bool
    ) -> tuple[Phase, Any]:
        flows, scales, drifts, log_jacobian = self._fields(target, place, x.dtype)
        # The flow is carried, because what a loop carries is written to memory: fused with the curl, its sines would
        # be computed four times.
        Carry = tuple[Links, Links, Plaquettes]

        def kick(v: Links, flow: Plaquettes, scale: Scale) -> Links:
            return scale.of_momentum * v - scale.of_force * curl(flow)

        def step(carry: Carry, fields: tuple[Flow, Scale, Drift]) -> tuple[Carry, Carry | None]:
            x, v, flow = carry
            next_flow, scale, drift = fields
            v = kick(v, flow, scale)
            x = x + _displacement(place, v, drift)
            carry = (x, v, _flow(target, place, x, next_flow))
            return carry, carry if record else None

        first, following = jax.tree.map(lambda a: a[0], flows), jax.tree.map(lambda a: a[1:], flows)
        fields = following, _but_last(scales), drifts
        (x, v, flow), recorded = jax.lax.scan(step, (x, v, _flow(target, place, x, first)), fields)
        return Phase(x, kick(v, flow, _last(scales)), jnp.full(x.shape[-1], log_jacobian)), recorded

    def _fields(
        self, target: PlaquetteAction, place: Int[Array, "2"], dtype: jnp.dtype
    ) -> tuple[Flow, Scale, Drift, Array]:
        """All kicks (flow and scale) and drifts as fields around the plaquette `place`, and log|J| = Σ s.

        The defect moves and the configuration stays: these fields have no chain axis, so that costs nothing. They are
        made anew at each place rather than moved there, for which a lattice on several devices would be sent around.
        """
        by = inverse_sqrt_multiplicity(self.radii)

        def on(hats: Array, half: Half) -> Array:
            return jnp.tensordot(half.astype(dtype) * jnp.asarray(by, dtype), hats, axes=1)[..., None]

        on_plaquettes = basis(self.radii, plaquette_distances(target.lattice, place)[0]).astype(dtype)
        on_links = basis(self.radii, link_distances(target.lattice, place)).astype(dtype)
        weight = mirrored(on(on_plaquettes, self.weight), self.number + 1)
        base = jnp.exp(self.log_base).astype(dtype)
        patches: tuple[tuple[Patch, Array] | None, Patch | None] = (None, None)
        if self.patches is not None:
            of_kicks, of_drifts = self.patches
            kicks = self.number + 1
            # The kick in the middle of an even number of drifts is its own mirror image and gets no network.
            sign = jnp.asarray(np.sign(np.arange(kicks)[::-1] - np.arange(kicks)), dtype)
            whole = jax.tree.map(lambda a: mirrored(padded(a, (kicks + 1) // 2), kicks), of_kicks)
            patches = (whole, sign), jax.tree.map(lambda a: mirrored(a, self.number), of_drifts)
        flow = Flow(
            base * weight,
            mirrored_odd(on(on_plaquettes, _GENTLE * self.push), self.number + 1),
            patches[0],
        )
        scale = mirrored_odd(on(on_links, self.scale), self.number + 1)
        drift = Drift(
            base * jnp.exp(mirrored(on(on_links, self.log_step), self.number)),
            mirrored(jax.vmap(curl)(on(on_plaquettes, _GENTLE * self.shift)), self.number),
            patches[1],
        )
        return flow, Scale(jnp.exp(scale), jnp.exp(0.5 * scale)), drift, jnp.sum(scale)


def _flow(target: PlaquetteAction, place: Int[Array, "2"], x: Links, flow: Flow) -> Plaquettes:
    """w·s′(x_P) + c, the derivative of the action in the defect by each plaquette; a network adds to it."""
    angles = plaquettes(x)
    result = flow.weight * target.plaquette_force(angles) + flow.push
    if flow.patch is None:
        return result
    network, sign = flow.patch
    window = Window(place, network.side)
    seen = window.cut(angles)
    return window.add(result, sign * network(jnp.stack([sign * trig.sin(seen), trig.cos(seen)])))


def _last(fields: T) -> T:
    return jax.tree.map(lambda a: a[-1], fields)


def _but_last(fields: T) -> T:
    return jax.tree.map(lambda a: a[:-1], fields)


def _displacement(place: Int[Array, "2"], v: Links, drift: Drift) -> Links:
    """e·v + curl h; with a network also the curl of its output, a function of the curl of v in the window."""
    displacement = drift.step * v + drift.shift
    if drift.patch is None:
        return displacement
    window = Window(place, drift.patch.side)
    seen = window.cut(plaquettes(v))
    return displacement + curl(window.add(jnp.zeros_like(v[0]), drift.patch(seen[None])))


def _array(values: np.ndarray) -> Float[Array, "..."]:
    return jnp.asarray(values, float)


def _of_plaquettes(target: Target) -> PlaquetteAction:
    if not isinstance(target, PlaquetteAction):
        raise TypeError("defect layers are made for U(1) theories whose action is a function of the plaquettes")
    return target
