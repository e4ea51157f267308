"""Targets in flat space as the rest of the package sees them. Free of heavy imports.

Those of the command line are toys with fixed parameters; in Python they can have any.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dlhmc.theories.contract import TargetSettings, Theory

if TYPE_CHECKING:
    from dlhmc.targets import Target


def _target(module: str, make: str, **parameters: Any) -> "Callable[[], Target]":
    """A function that makes a target of a module of this package, which is imported then."""

    def made() -> "Target":
        found: Target = getattr(importlib.import_module(f"dlhmc.theories.vectors.{module}"), make)(**parameters)
        return found

    return made


class Toy(Theory):
    """A target without settings, and a small one for tests."""

    def __init__(self, name: str, title: str, make: "Callable[[], Target]", **examples: "Callable[[], Target]") -> None:
        self.name, self.title = name, title  # type: ignore[misc]
        self._make, self._examples = make, {key.replace("_", "-"): example for key, example in examples.items()}

        @dataclasses.dataclass(frozen=True)
        class Nothing(TargetSettings):
            """Nothing to be set."""

            def build(self) -> "Target":
                """The target."""
                return make()

        self.settings = Nothing  # type: ignore[misc]

    def describe(self, target: "Target") -> TargetSettings | None:
        """The standard one only."""
        import equinox as eqx

        standard = self._make()
        same = type(target) is type(standard) and bool(eqx.tree_equal(target, standard))
        return self.settings() if same else None

    def examples(self) -> "Mapping[str, Callable[[], Target]]":
        """Small, and annealed."""
        return self._examples


def mixture() -> Toy:
    """Modes that HMC does not cross between."""
    small = _target("mixture", "GaussianMixture", separation=2.0, variance=0.3, dim=3, gamma=0.7)
    return Toy("mixture", "two Gaussians far apart", _target("mixture", "GaussianMixture"), mixture=small)


def ill_conditioned_gaussian() -> Toy:
    """Scales from 0.1 to 10."""
    small = _target("gaussian", "ill_conditioned_gaussian", dim=5, gamma=0.8)
    make, title = _target("gaussian", "ill_conditioned_gaussian"), "a Gaussian with variances from 0.01 to 100"
    return Toy("ill-conditioned-gaussian", title, make, ill_conditioned_gaussian=small)


def correlated_gaussian() -> Toy:
    """Turned by 45 degrees."""
    make, title = _target("gaussian", "correlated_gaussian"), "a Gaussian whose two coordinates are strongly correlated"
    return Toy("correlated-gaussian", title, make, correlated_gaussian=make)


def rough_well() -> Toy:
    """A rough bottom."""
    small = _target("rough_well", "RoughWell", dim=3, eta=0.1, gamma=1.5)
    return Toy(
        "rough-well", "a harmonic well with a rough bottom", _target("rough_well", "RoughWell"), rough_well=small
    )


def funnel() -> Toy:
    """A width that changes by orders of magnitude; and a density of one's own, among the examples."""
    small = _target("funnel", "Funnel", dim=3, sigma=1.5, gamma=0.9)
    own = _target("log_density", "banana_target")
    return Toy("funnel", "Neal's funnel", _target("funnel", "Funnel"), funnel=small, log_density=own)
