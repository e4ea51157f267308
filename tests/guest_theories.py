"""Two theories that are not part of the package: what anyone could bring, with all that a theory can have.

Villain's action for U(1) in two dimensions is a function of the plaquette, so networks in windows and hits work for it.
The ring of three SU(2) matrices has a geometry of its own, momenta of another shape than the field, exact results and
exact draws.
"""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ive

from dlhmc.actions import Action, PlaquetteFunction
from dlhmc.geometry import Geometry
from dlhmc.numerics import rng
from dlhmc.settings import Positive
from dlhmc.targets import Known, Moment, Symmetry, Target
from dlhmc.theories.contract import TargetSettings, Theory
from dlhmc.theories.gauge.field import GaugeField

# Images of the Gaussian that count at any coupling above a half.
_IMAGES = np.arange(-4, 5)


class VillainAction(PlaquetteFunction):
    """s(x) = −log Σ_n e^{−β(x + 2πn)²/2}."""

    beta: Float[Array, ""]

    def function(self, angles):
        """−log of the sum over images of a Gaussian."""
        # Around the nearest image, so that any representative of the angle will do.
        nearest = angles - 2 * np.pi * jnp.round(angles / (2 * np.pi))
        images = nearest[..., None] + jnp.asarray(2 * np.pi * _IMAGES, angles.dtype)
        terms = -0.5 * self.beta.astype(angles.dtype) * images * images
        return -jax.nn.logsumexp(terms, axis=-1)


def Villain(lattice, beta, gamma=1.0):  # noqa: N802
    """A gauge field with this action."""
    return GaugeField("u1", lattice, [VillainAction(jnp.asarray(beta, float))], gamma)


@dataclasses.dataclass(frozen=True)
class VillainSettings(TargetSettings):
    """Lattice and coupling."""

    theory: ClassVar[str] = "villain"

    lattice: tuple[int, int] = (4, 4)
    """sides"""
    beta: Positive = 2.0
    """coupling"""

    def build(self):
        """The target."""
        return Villain(self.lattice, self.beta)

    @property
    def label(self):
        """villain-4x4-b2."""
        return f"villain-{'x'.join(map(str, self.lattice))}-b{self.beta:g}"


VILLAIN = Theory(VillainSettings, "Villain's U(1) gauge theory", "local", frozenset(["hits"]))


class UnitQuaternions(Geometry):
    """SU(2) as unit quaternions q, U = q₀ + i Σ_a q_a σ_a: x[4, *element, chain], v[3, *element, chain].

    A geometry that a guest brings along. Momenta are v = Σ_a v_a σ_a/2, and U moves by the group, U ← e^{i d·σ/2}·U.
    """

    sides: tuple[int, ...] = eqx.field(static=True)

    @property
    def shape(self):
        """Four numbers for each element."""
        return (4, *self.sides)

    @property
    def momentum_shape(self):
        """Three generators for each element."""
        return (3, *self.sides)

    @property
    def elements(self):
        """Matrices."""
        return self.sides

    def drift(self, x, v, displacement):
        """e^{i d·σ/2}·U; the momentum belongs to the algebra and stays."""
        return multiply(exponential(displacement), x), v

    def difference(self, start, end):
        """d with e^{i d·σ/2}·start = end."""
        return logarithm(multiply(end, conjugate(start)))

    def project(self, x):
        """Back to the unit sphere, which rounding leaves."""
        return x / jnp.sqrt(jnp.sum(x * x, axis=0))

    def features(self, x):
        """The four numbers."""
        return x


def multiply(p, q):
    """The quaternion of the product of two matrices; with U = q₀ + i q·σ, σ_a σ_b = δ_ab + i ε_abc σ_c."""
    (p0, p1, p2, p3), (q0, q1, q2, q3) = p, q
    return jnp.stack(
        [
            p0 * q0 - p1 * q1 - p2 * q2 - p3 * q3,
            p0 * q1 + p1 * q0 - p2 * q3 + p3 * q2,
            p0 * q2 + p2 * q0 - p3 * q1 + p1 * q3,
            p0 * q3 + p3 * q0 - p1 * q2 + p2 * q1,
        ]
    )


def conjugate(q):
    """U†, the inverse of U."""
    return jnp.concatenate([q[:1], -q[1:]])


def exponential(d):
    """e^{i d·σ/2} = cos(|d|/2) + i sin(|d|/2) d·σ/|d|, smooth at d = 0."""
    square = 0.25 * jnp.sum(d * d, axis=0)
    small = square < 1e-6
    angle = jnp.sqrt(jnp.where(small, 1, square))
    cosine = jnp.where(small, 1 - square / 2 + square * square / 24, jnp.cos(angle))
    ratio = jnp.where(small, 1 - square / 6 + square * square / 120, jnp.sin(angle) / angle)
    return jnp.concatenate([cosine[None], 0.5 * ratio * d])


def logarithm(q):
    """d with e^{i d·σ/2} = U and |d| ≤ 2π, the inverse of `exponential` up to there."""
    square = jnp.sum(q[1:] * q[1:], axis=0)
    small = square < 1e-12
    length = jnp.sqrt(jnp.where(small, 1, square))
    ratio = jnp.where(small, 1 / jnp.where(q[0] == 0, 1, q[0]), jnp.arctan2(length, q[0]) / length)
    return 2 * ratio * q[1:]


def bonds(x):
    """½ Re tr U_i U_{i+1}†, the scalar product of two quaternions."""
    return jnp.sum(x * jnp.roll(x, -1, axis=1), axis=0)


class Bonds(Action):
    """−β Σ_i (½ Re tr U_i U_{i+1}† − 1) for SU(2) matrices on a ring of a few sites."""

    beta: Float[Array, ""]

    def terms(self, x):
        """A term for each bond."""
        return self.beta.astype(x.dtype) * (1 - bonds(x))


def observe(x):
    """The average bond, the trace of the first matrix, and all bonds: an array."""
    return {"bond": jnp.mean(bonds(x), axis=0), "trace": x[0, 0], "bonds": bonds(x)}


def start(target, key, kind, chains, dtype):
    """Hot: Haar measure; cold: all matrices 1."""
    shape = (*target.geometry.shape, chains)
    if kind == "cold":
        return jnp.zeros(shape, dtype).at[0].set(1)
    return target.geometry.project(rng.normal(key, shape, dtype))


def exact(target):
    """⟨bond⟩ = (1/L) ∂ log Z/∂β of Σ_d d² (I_d/β)^L, with I_d′ = (I_{d−1} + I_{d+1})/2.

    With e^{β cos} = Σ_d d·a_d χ_d, a_d = I_d(β)·2/β·…, Z = Σ_d d² a_d^L: the transfer matrix has the eigenvalue a_d
    d² times, a_d ∝ I_d(β)/β with d = 1, 2, ….
    """
    (sites,), beta = target.geometry.sides, float(target.actions[0].beta) * float(target.gamma)
    d = np.arange(1, 60)
    bessel = ive(d, beta)
    slope = 0.5 * (ive(d - 1, beta) + ive(d + 1, beta)) / bessel - 1 / beta
    weight = d**2 * (bessel / bessel[0]) ** sites
    return {"bond": float(np.sum(weight * slope) / np.sum(weight))}


class RingDraws(eqx.Module):
    """One matrix after the other, given the one before; the bond that closes the ring is left to rejection."""

    geometry: UnitQuaternions
    coupling: Float[Array, ""]

    def draw(self, key, chains, dtype):
        """Independent configurations."""
        (sites,), beta = self.geometry.sides, self.coupling.astype(dtype)
        # U_{i+1} = W U_i has the bond w_0 with density √(1 − w_0²)·e^{βw_0}: its distribution function is inverted.
        grid = jnp.linspace(-1, 1, 4001, dtype=dtype)
        distribution = jnp.cumsum(jnp.sqrt(1 - grid**2) * jnp.exp(beta * (grid - 1)))
        distribution = distribution / distribution[-1]

        def attempt(carry):
            count, done, kept = carry
            keys = jax.random.split(jax.random.fold_in(key, count), 4)
            x = [self.geometry.project(rng.normal(keys[0], (4, 1, chains), dtype))]
            cosines = jnp.interp(rng.uniform(keys[1], (sites - 1, chains), dtype), distribution, grid)
            directions = rng.normal(keys[2], (3, sites - 1, chains), dtype)
            directions = directions * jnp.sqrt((1 - cosines**2) / jnp.sum(directions**2, axis=0))
            steps = jnp.concatenate([cosines[None], directions])
            for site in range(sites - 1):
                x.append(multiply(steps[:, site : site + 1], x[-1]))
            x = self.geometry.project(jnp.concatenate(x, axis=1))
            closing = beta * (bonds(x)[-1] - 1)
            accept = jnp.log(rng.uniform(keys[3], (chains,), dtype)) < closing
            return count + 1, done | accept, jnp.where(accept & ~done, x, kept)

        start = (jnp.zeros((), jnp.int32), jnp.zeros(chains, bool), jnp.zeros((4, sites, chains), dtype))
        return jax.lax.while_loop(lambda carry: ~jnp.all(carry[1]), attempt, start)[2]


KNOWN = Known(
    moments={"bond": Moment("bond")},
    slow=lambda target: {"trace": 0.0},
    # A global rotation from the left, which changes the trace, is left out: it has no parity.
    symmetries=lambda target: {"shift of sites": Symmetry(lambda _, x: -x, frozenset({"trace"}))},
    exact=exact,
    exact_draws=lambda target: RingDraws(target.geometry, target.gamma * target.actions[0].beta),
    start=start,
)


def Ring(sites=3, beta=2.0, gamma=1.0):  # noqa: N802
    """The target."""
    return Target(UnitQuaternions((sites,)), [Bonds(jnp.asarray(beta, float))], observe, KNOWN, gamma)


@dataclasses.dataclass(frozen=True)
class RingSettings(TargetSettings):
    """Coupling."""

    theory: ClassVar[str] = "ring"

    beta: Positive = 2.0
    """coupling"""

    def build(self):
        """The target."""
        return Ring(beta=self.beta)


RING = Theory(RingSettings, "three SU(2) matrices on a ring")
