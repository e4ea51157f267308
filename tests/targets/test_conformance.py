"""Every registered target is held to the contract: a new one is tested by being listed."""

import jax
import jax.numpy as jnp
import pytest

from dlhmc.geometry import FlatSpace, Torus
from dlhmc.testing import ConformanceError, check_target
from dlhmc.testing.checks import example
from dlhmc.testing.target import TARGET_CHECKS
from dlhmc.theories import registry
from dlhmc.theories.u1.wilson import U1
from dlhmc.theories.vectors.log_density import LogDensity
from guest_theories import Ring, RingTheory, UnitQuaternions, VillainTheory

THEORIES = (*registry.all_theories(), RingTheory(), VillainTheory())
EXAMPLES = {name: make for theory in THEORIES for name, make in theory.examples().items()}


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
    assert list(TARGET_CHECKS[check](target, example(target))) == []


def test_what_cannot_be_tested_is_said():
    checked = check_target(LogDensity(lambda x: -jnp.sum(x**4), dim=2))
    assert "force" in checked.passed
    assert [line.split(":")[0] for line in checked.skipped] == ["exact results"]


class Broken(U1):
    """A target that is right until something is overridden; parameters that a check needs are small."""

    def __init__(self):
        super().__init__((2, 2), beta=1.5)


class WrongForce(Broken):
    def force(self, x):
        return 1.01 * super().force(x)


class StoppedGradient(Broken):
    """Autodiff agrees with itself here; only finite differences see it."""

    def local_action(self, x):
        return super().local_action(x) + jax.lax.stop_gradient(0.1 * jnp.cos(x[0]))

    def force(self, x):
        return jax.grad(lambda y: jnp.sum(self.action(y)))(x)


class MixedChains(Broken):
    def observables(self, x):
        return super().observables(x) | {"plaquette": self.plaquette(x) - self.plaquette(x).mean()}


class WrongShape(Broken):
    def observables(self, x):
        return super().observables(x) | {"plaquette": jnp.cos(x[..., 0])}


class WrongSymmetry(Broken):
    def symmetries(self):
        return {"charge conjugation": super().symmetries()["charge conjugation"]._replace(odd=frozenset())}


class WrongExact(Broken):
    def exact(self):
        return super().exact() | {"plaquette": 0.5}


class NoAnnealing(Broken):
    def _coupling(self, dtype):
        return self.beta.astype(dtype)


class WrongProjection(Torus):
    def project(self, x):
        return jnp.mod(x, 3.0)


class WrongWrap(Broken):
    @property
    def geometry(self):
        return WrongProjection((2, 2, 2))


class FlatComplex(Broken):
    """Complex links in a flat geometry of real numbers, which would die much later."""

    @property
    def geometry(self):
        return FlatSpace((2, 2, 2))

    def start(self, key, kind, chains, dtype):
        x = super().start(key, kind, chains, dtype)
        return jax.lax.complex(jnp.cos(x), jnp.sin(x))


class EuclideanForce(Ring):
    """The gradient in the space around the group, which is not its tangent space."""

    def force(self, x):
        return jax.grad(lambda y: jnp.sum(self.action(y)))(x)


class NotOnTheGroup(Ring):
    def start(self, key, kind, chains, dtype):
        return 1.5 * super().start(key, kind, chains, dtype)


class Additive(UnitQuaternions):
    """Adds the displacement to the matrix instead of multiplying by its exponential."""

    def drift(self, x, v, displacement):
        return self.project(x.at[1:].add(0.5 * displacement)), v


class AddsToTheGroup(Ring):
    @property
    def geometry(self):
        return Additive((self.sites,))


class OtherAcceptReject(Broken):
    """A term that accept/reject does not know of."""

    def counted_action(self, x):
        return super().local_action(x), {}

    def local_action(self, x):
        return super().local_action(x) + 0.01 * jnp.cos(x[0])


class WrongAtItsOrigin(Broken):
    def action_of_origin(self, x):
        return 1.01 * self.local_action(x)


class Raises(Broken):
    def observables(self, x):
        raise ValueError("not today")


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("kind", "check", "complaint"),
    [
        (WrongForce, "force", "the force differs from the gradient"),
        (StoppedGradient, "finite differences", "along a random direction"),
        (OtherAcceptReject, "accept/reject", "counted_action differs from local_action"),
        (WrongAtItsOrigin, "accept/reject", "action_of_origin differs from local_action"),
        (MixedChains, "chains", "the observable plaquette of a chain depends on other chains"),
        (WrongShape, "shapes and names", "the observable plaquette has the shape"),
        (WrongSymmetry, "symmetries", "the charge conjugation does not make the observable"),
        (WrongExact, "exact results", "the exact value of plaquette is 0.5"),
        (NoAnnealing, "annealing", "half the gamma"),
        (WrongWrap, "projection", "the projection changes the action"),
        (FlatComplex, "shapes and names", "start gives complex128, but fields of this geometry are float64"),
        (EuclideanForce, "shapes and names", "the force has the shape"),
        (NotOnTheGroup, "geometry", "start gives points that are not in the space"),
        (AddsToTheGroup, "geometry", "difference does not undo drift"),
    ],
)
def test_broken_targets_are_found_out(kind, check, complaint):
    target = kind()
    assert any(complaint in problem for problem in TARGET_CHECKS[check](target, example(target)))


def test_all_problems_come_in_one_error():
    with pytest.raises(ConformanceError, match="Raises breaks its contract") as error:
        check_target(Raises())
    for check in ("shapes and names", "symmetries", "chains"):
        assert f"{check}: it raises ValueError: not today" in str(error.value)
