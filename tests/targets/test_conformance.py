"""Every registered target is held to the contract: a new one is tested by being listed."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import pytest

from dlhmc import CPN
from dlhmc.actions import Action, Plaquette
from dlhmc.geometry import FlatSpace, Spheres, Torus
from dlhmc.targets import Target
from dlhmc.testing import ConformanceError, check_target
from dlhmc.testing.checks import example
from dlhmc.testing.target import TARGET_CHECKS, auxiliary_fields_are_drawn
from dlhmc.theories.gauge.field import U1
from dlhmc.theories.vectors.density import LogDensity
from examples_of_targets import EXAMPLES
from guest_theories import Bonds, Ring, UnitQuaternions

CASES = [
    # Draws of U(1) and U(2) have tests of their own, compiled as for users.
    pytest.param(name, check, marks=pytest.mark.slow)
    if check == "exact results" and name in ("u1", "u1-square", "u2")
    else (name, check)
    for name in sorted(EXAMPLES)
    for check in TARGET_CHECKS
]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("name", "check"), CASES)
def test_contract(name, check):
    target = EXAMPLES[name]()
    target, _ = target.known.guided(target)
    assert list(TARGET_CHECKS[check](target, example(target))) == []


def test_what_cannot_be_tested_is_said():
    checked = check_target(LogDensity(lambda x: -jnp.sum(x**4), dim=2))
    assert "force" in checked.passed
    assert [line.split(":")[0] for line in checked.skipped] == ["exact results"]


SIDES = (2, 2)
SOUND = U1(SIDES, 1.5)


def broken(action=None, geometry=None, observables=None, **known):
    """A target that is right but for what is given; parameters that a check needs are small."""
    actions = SOUND.actions if action is None else [action]
    known = dataclasses.replace(SOUND.known, **known)
    return Target(geometry or SOUND.geometry, actions, observables or SOUND.observables, known)


def broken_ring(geometry=None, action=None, **known):
    ring = Ring(3, 2.0)
    known = dataclasses.replace(ring.known, **known)
    return Target(geometry or ring.geometry, [action or ring.actions[0]], ring.observables, known)


class WrongForce(Plaquette):
    def force(self, geometry, x):
        return 1.01 * super().force(geometry, x)


class StoppedGradient(Plaquette):
    """Autodiff agrees with itself here; only finite differences see it."""

    def terms(self, x):
        return super().terms(x) + jax.lax.stop_gradient(0.1 * jnp.cos(x[:1]))

    def force(self, geometry, x):
        return jax.grad(lambda y: jnp.sum(self.terms(y)))(x)


def mixed_chains(x):
    found = SOUND.observables(x)
    return found | {"plaquette": found["plaquette"] - found["plaquette"].mean()}


def wrong_shape(x):
    return SOUND.observables(x) | {"plaquette": jnp.cos(x[..., 0])}


def wrong_symmetry(target):
    return {"charge conjugation": SOUND.known.symmetries(target)["charge conjugation"]._replace(odd=frozenset())}


class WrongProjection(Torus):
    def project(self, x):
        return jnp.mod(x, 3.0)


def complex_start(target, key, kind, chains, dtype):
    """Complex links in a flat geometry of real numbers, which would die much later."""
    x = SOUND.start(key, kind, chains, dtype)
    return jax.lax.complex(jnp.cos(x), jnp.sin(x))


class EuclideanForce(Bonds):
    """The gradient in the space around the group, which is not its tangent space."""

    def force(self, geometry, x):
        return jax.grad(lambda y: jnp.sum(self.terms(y)))(x)


def start_off_the_group(target, key, kind, chains, dtype):
    return 1.5 * Ring(3, 2.0).start(key, kind, chains, dtype)


class Additive(UnitQuaternions):
    """Adds the displacement to the matrix instead of multiplying by its exponential."""

    def drift(self, x, v, displacement):
        return self.project(x.at[1:].add(0.5 * displacement)), v


class OneDimensionMore(Spheres):
    """Kicks that scale momenta would have a wrong log|J|."""

    @property
    def dimension(self):
        return super().dimension + 1


class LeavesMomentum(Spheres):
    def drift(self, x, v, displacement):
        return super().drift(x, v, displacement)[0], v


def on_spheres(kind):
    target = CPN(2, (2, 2), 0.7)
    geometry = kind(target.geometry.sides, target.geometry.vector)
    return Target(geometry, target.actions, target.observables, target.known)


class Halo(Action):
    """Of the field φ = x + η: what drawing it tells may be wrong."""

    auxiliary: ClassVar = True

    factor: float = 1.01
    phi: jax.Array | None = None

    def terms(self, x):
        return 0.5 * (self.phi - x) ** 2

    def refresh(self, key, gamma, x):
        drawn = jax.random.normal(key, x.shape, x.dtype)
        return Halo(self.factor, x + drawn), self.factor * 0.5 * drawn**2


class WrongForceOfHalo(Halo):
    def force(self, geometry, x):
        return 1.01 * (x - self.phi)

    def refresh(self, key, gamma, x):
        drawn, terms = super().refresh(key, gamma, x)
        return WrongForceOfHalo(1.0, drawn.phi), terms / self.factor


def raises(x):
    raise ValueError("not today")


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("make", "check", "complaint"),
    [
        (lambda: broken(WrongForce(1.5)), "force", "the force differs from the gradient"),
        (lambda: broken(StoppedGradient(1.5)), "finite differences", "along a random direction"),
        (
            lambda: broken(observables=mixed_chains),
            "chains",
            "the observable plaquette of a chain depends on other chains",
        ),
        (lambda: broken(observables=wrong_shape), "shapes and names", "the observable plaquette has the shape"),
        (
            lambda: broken(symmetries=wrong_symmetry),
            "symmetries",
            "the charge conjugation does not make the observable",
        ),
        (lambda: broken(exact=lambda _: {"plaquette": 0.5}), "exact results", "the exact value of plaquette is 0.5"),
        (lambda: broken(geometry=WrongProjection((2, *SIDES))), "geometry", "the projection changes the action"),
        (
            lambda: broken(geometry=FlatSpace((2, *SIDES)), start=complex_start),
            "shapes and names",
            "but fields of this geometry are float64",
        ),
        (lambda: broken_ring(action=EuclideanForce(jnp.asarray(2.0))), "shapes and names", "the force has the shape"),
        (lambda: broken_ring(start=start_off_the_group), "geometry", "start gives points that are not in the space"),
        (
            lambda: on_spheres(OneDimensionMore),
            "geometry",
            "momenta have 12 dimensions, but that of the geometry is 13",
        ),
        (lambda: on_spheres(LeavesMomentum), "geometry", "drift does not lead back"),
        (lambda: broken_ring(geometry=Additive((3,))), "geometry", "difference does not undo drift"),
    ],
)
def test_broken_targets_are_found_out(make, check, complaint):
    target = make()
    assert any(complaint in problem for problem in TARGET_CHECKS[check](target, example(target)))


def test_all_problems_come_in_one_error():
    with pytest.raises(ConformanceError, match="Target breaks its contract") as error:
        check_target(broken(observables=raises))
    for check in ("shapes and names", "symmetries", "chains"):
        assert f"{check}: it raises ValueError: not today" in str(error.value)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("action", "complaint"), [(Halo(), "refresh tells another"), (WrongForceOfHalo(), "the force")]
)
def test_broken_auxiliary_fields_are_found_out(action, complaint):
    target = broken(action)
    assert any(complaint in problem for problem in auxiliary_fields_are_drawn(target, example(target)))
