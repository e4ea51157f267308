"""Defect layers: one place of the lattice opens, a unit of flux is driven through it, and it closes again.

In the frame of a plaquette drawn anew for each trajectory, the steps of a leapfrog trajectory get parameters that
depend on the distance r from that plaquette only (`rings`):

    kick   v ← e^{s/2}·(e^{s/2}·v − curl(w·β sin x_P + c))      w, c of plaquettes, s of links
    drift  x ← x + e·v + curl(h)                                e of links, h of plaquettes

A trajectory is kick₀, then N_LF times drift and kick. In the paper's letters: s_v = s, t_v = curl((w − ½)β sin x_P + c)
in units of the step, ε_x = e and t_x = curl h. HMC has w = ε (½ε at the ends), e = ε, s = c = h = 0.

**Palindrome.** The second half of the trajectory is the mirror image of the first: w, e, h mirrored, s and c mirrored
with the opposite sign. Let R flip the momentum and C be charge conjugation (x, v) → (−x, −v). Then
F⁻¹ = CR∘F∘CR, and log|J| = 0 because the s of both halves cancel. With the sign of C drawn for each chain, F alone
goes both ways with equal probability: one direction suffices, at half the parameters.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from dlhmc import rng, trig
from dlhmc.layers.contract import Phase, Trajectory
from dlhmc.layers.rings import basis, flux_potential, link_distances, moderation, plaquette_distances
from dlhmc.networks.patch import Patch, Window
from dlhmc.targets.contract import Target, sum_sites
from dlhmc.targets.u1 import U1
from dlhmc.targets.u1_links import Links, curl, plaquettes

Half = Float[Array, "half radius"]

# c and h in these units: their effect on the acceptance is that much stronger than that of w and s.
_GENTLE = 0.1


class Kick(NamedTuple):
    """The parameters of a kick as fields on the lattice."""

    weight: Float[Array, "x t 1"]
    push: Float[Array, "x t 1"]
    scale: Float[Array, "2 x t 1"]
    #: the network and the sign with which the second half uses it
    patch: tuple[Patch, Array] | None


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

    @classmethod
    def start(
        cls, number: int, step_size: float, radii: Sequence[float], width: float, patches: tuple[Patch, Patch] | None
    ) -> "Defect":
        """Leapfrog with a hole of the given width, and a shift that moves one unit of flux through it.

        The hole opens during the first 35 % of the trajectory and closes during the last.
        """
        kicks, drifts = np.arange(number // 2 + 1), (number + 1) // 2
        ramp = np.clip(kicks / (0.35 * number), 0, 1)
        opening = 1 - ramp[:, None] * np.exp(-(np.asarray(radii) ** 2) / (2 * width**2))
        half_at_the_end = np.where(kicks == 0, 0.5, 1.0)[:, None]
        by, size = moderation(radii), len(radii)
        flux = np.tile(flux_potential(radii) / number, (drifts, 1))
        return cls(
            log_base=_array(np.log(step_size)),
            weight=_array(half_at_the_end * opening / by),
            scale=jnp.zeros(((number + 1) // 2, size)),
            push=jnp.zeros(((number + 1) // 2, size)),
            log_step=jnp.zeros((drifts, size)),
            shift=_array(flux / (_GENTLE * by)),
            patches=patches,
            radii=tuple(float(r) for r in radii),
            number=number,
        )

    def __len__(self) -> int:
        return self.number

    def forward(self, target: Target, x: Links, v: Links) -> Phase:
        """F with the defect at plaquette (0, 0)."""
        target = _u1(target)
        return self._forward(target, x, v, *self._fields(target, jnp.zeros(2, jnp.int32)))

    def inverse(self, target: Target, x: Links, v: Links) -> Phase:
        """F⁻¹: the inverses of all kicks and drifts in the opposite order."""
        target = _u1(target)
        place = jnp.zeros(2, jnp.int32)
        first, kicks, drifts = self._fields(target, place)

        def step(phase: Phase, fields: tuple[Kick, Drift]) -> tuple[Phase, None]:
            kick, drift = fields
            x, v, log_jacobian = _kick(target, place, phase, kick, forward=False)
            return Phase(x - _displacement(place, v, drift), v, log_jacobian), None

        start = Phase(x, v, jnp.zeros(x.shape[-1], x.dtype))
        phase, _ = jax.lax.scan(step, start, (kicks, drifts), reverse=True)
        return _kick(target, place, phase, first, forward=False)

    def propose(self, key: Key[Array, ""], target: Target, x: Links, v: Links) -> Phase:
        """F at a place drawn for all chains together, with charge conjugation drawn for each chain."""
        target = _u1(target)
        place_key, sign_key = jax.random.split(key)
        place = jax.random.randint(place_key, (2,), 0, jnp.asarray(target.lattice))
        sign = jnp.where(rng.coin(sign_key, x.shape[-1:]), 1, -1).astype(x.dtype)
        end = self._forward(target, sign * x, sign * v, *self._fields(target, place), place)
        return Phase(sign * end.x, sign * end.v, end.log_jacobian)

    def _forward(
        self,
        target: U1,
        x: Links,
        v: Links,
        first: Kick,
        kicks: Kick,
        drifts: Drift,
        place: Int[Array, "2"] | None = None,
    ) -> Phase:
        at = jnp.zeros(2, jnp.int32) if place is None else place

        def step(phase: Phase, fields: tuple[Kick, Drift]) -> tuple[Phase, None]:
            kick, drift = fields
            x = phase.x + _displacement(at, phase.v, drift)
            return _kick(target, at, Phase(x, phase.v, phase.log_jacobian), kick, forward=True), None

        phase = Phase(x, v, jnp.zeros(x.shape[-1], x.dtype))
        phase = _kick(target, at, phase, first, forward=True)
        return jax.lax.scan(step, phase, (kicks, drifts))[0]

    def _fields(self, target: U1, place: Int[Array, "2"]) -> tuple[Kick, Kick, Drift]:
        """The first kick, the other kicks and all drifts, as fields around the plaquette `place`.

        The defect moves and the configuration stays: these fields have no chain axis, so that costs nothing.
        """
        by = moderation(self.radii)
        dtype = target.beta.dtype

        def on(distances: np.ndarray, half: Half) -> Array:
            hats = jnp.asarray(basis(self.radii, distances), dtype)
            values = jnp.tensordot(half.astype(dtype) * jnp.asarray(by, dtype), hats, axes=1)
            return jnp.roll(values, place, axis=(-2, -1))[..., None]

        on_plaquettes, on_links = plaquette_distances(target.lattice), link_distances(target.lattice)
        weight = _mirror(on(on_plaquettes, self.weight), self.number + 1)
        base = jnp.exp(self.log_base).astype(dtype)
        coupling = (target.beta * target.gamma).astype(dtype)
        patches: tuple[tuple[Patch, Array] | None, Patch | None] = (None, None)
        if self.patches is not None:
            of_kicks, of_drifts = self.patches
            kicks = self.number + 1
            # The kick in the middle of an even number of drifts is its own mirror image and gets no network.
            sign = jnp.asarray(np.sign(np.arange(kicks)[::-1] - np.arange(kicks)), dtype)
            padded = jax.tree.map(lambda a: _mirror(_pad(a, (kicks + 1) // 2), kicks), of_kicks)
            patches = (padded, sign), jax.tree.map(lambda a: _mirror(a, self.number), of_drifts)
        kick = Kick(
            coupling * base * weight,
            _mirror_odd(on(on_plaquettes, _GENTLE * self.push), self.number + 1),
            _mirror_odd(on(on_links, self.scale), self.number + 1),
            patches[0],
        )
        drift = Drift(
            base * jnp.exp(_mirror(on(on_links, self.log_step), self.number)),
            _mirror(jax.vmap(curl)(on(on_plaquettes, _GENTLE * self.shift)), self.number),
            patches[1],
        )
        return jax.tree.map(lambda a: a[0], kick), jax.tree.map(lambda a: a[1:], kick), drift


def _kick(target: U1, place: Int[Array, "2"], phase: Phase, kick: Kick, *, forward: bool) -> Phase:
    """v′ = e^{s/2}·(e^{s/2}·v − f) with f = curl(w·β sin x_P + c); inverse v = e^{−s/2}·(e^{−s/2}·v′ + f)."""
    x, v, log_jacobian = phase
    angles = plaquettes(x)
    sine = trig.sin(angles)
    flow = kick.weight * sine + kick.push
    if kick.patch is not None:
        network, sign = kick.patch
        window = Window(place, network.side)
        seen = window.cut(angles)
        flow = window.add(flow, sign * network(jnp.stack([sign * trig.sin(seen), trig.cos(seen)])))
    force = curl(flow)
    log_scale = sum_sites(kick.scale)
    if forward:
        root = jnp.exp(0.5 * kick.scale)
        return Phase(x, root * (root * v - force), log_jacobian + log_scale)
    root = jnp.exp(-0.5 * kick.scale)
    return Phase(x, root * (root * v + force), log_jacobian - log_scale)


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


def _pad(half: Array, length: int) -> Array:
    """Zeros for the middle, where there is one."""
    return jnp.concatenate([half, jnp.zeros((length - half.shape[0], *half.shape[1:]), half.dtype)])


def _mirror(half: Array, number: int) -> Array:
    """First half and middle → all, the second half being the mirror image of the first."""
    return jnp.concatenate([half, half[: number // 2][::-1]])


def _mirror_odd(half: Array, number: int) -> Array:
    """First half → all, with the opposite sign in the second half and zero in the middle."""
    return jnp.concatenate([_pad(half, (number + 1) // 2), -half[::-1]])


def _u1(target: Target) -> U1:
    if not isinstance(target, U1):
        raise TypeError("defect layers are made for the U1 target only")
    return target
