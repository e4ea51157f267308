"""Layers made for U(1) theories of plaquettes, as settings. Free of heavy imports."""

import dataclasses
import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Meta

from dlhmc.models.architecture import Architecture, Layers, TrainingDefaults
from dlhmc.models.dense import Hidden
from dlhmc.settings import Positive
from dlhmc.theories.gauge.architectures import LocalArchitecture, Radii, require_rising

if TYPE_CHECKING:
    from dlhmc.layers import Trajectory
    from dlhmc.targets import Target


@dataclasses.dataclass(frozen=True)
class DefectArchitecture(Architecture):
    """Layers that act around one plaquette; before training, a hole that is open a little."""

    name: ClassVar[str] = "defect"
    meaning: ClassVar[str] = "layers that act around one plaquette"
    training: ClassVar[TrainingDefaults] = TrainingDefaults(steps=2000, learning_rate=1e-2, gamma_start=1.0)
    only_before_training: ClassVar[tuple[str, ...]] = ("step_size", "flux", "hole")

    leapfrog_steps: Layers = 2
    """leapfrog layers in a trajectory, each with parameters of its own"""
    radii: Radii = ()
    """distances at which the parameters have values; up to 3√β if not given"""
    flux: Annotated[float, Meta(ge=-100, le=100)] = 1.0
    """units of flux that are driven from one place to its surroundings before training"""
    hole: Annotated[float, Meta(ge=0, le=1e300)] = 0.0
    """width of the hole before training; 0.19√β if not given"""

    def __post_init__(self) -> None:
        """Radii rise from 0."""
        super().__post_init__()
        require_rising(self, self.radii or (0.0, 1.0))
        self.require(len(self.radii) != 1, "radii", "two distances or more")

    @classmethod
    def suits(cls, target: "Target") -> bool:
        """U(1) theories of plaquettes."""
        from dlhmc.theories.u1.plaquette_action import PlaquetteAction

        return isinstance(target, PlaquetteAction)

    @classmethod
    def builds(cls, trajectory: "Trajectory") -> bool:
        """Defects; with patches if there are any."""
        from dlhmc.theories.u1.defect import Defect

        return isinstance(trajectory, Defect) and (trajectory.patches is None) == (cls is DefectArchitecture)

    @classmethod
    def handed_on(cls, couplings: list[float]) -> dict[str, Any]:
        """The radii of the last coupling serve for all."""
        from dlhmc.theories.gauge.radial import default_radii

        return {"radii": default_radii(3 * math.sqrt(couplings[-1]))}

    def completed(self, target: "Target") -> Self:
        """Lengths that suit the coupling.

        The correlation length grows with √β, and with it the hole; the fastest mode has the period π/√(2β).
        """
        from dlhmc.theories.gauge.radial import default_radii
        from dlhmc.theories.u1.plaquette_action import PlaquetteAction

        if not isinstance(target, PlaquetteAction):
            raise TypeError(f"{self.name} layers are not for {type(target).__name__}")
        root = math.sqrt(float(target.stiffness()))
        return dataclasses.replace(
            self,
            step_size=self.step_size or 0.4 / root,
            radii=self.radii or default_radii(3 * root),
            hole=self.hole or 0.19 * root,
        )

    def build(self, target: "Target", key: Any) -> "Trajectory":
        """New layers; `completed` has been called."""
        return self._start(None)

    def _start(self, patches: Any) -> "Trajectory":
        from dlhmc.theories.u1.defect import Defect

        step_size = 0.1 if self.step_size is None else self.step_size
        return Defect.start(self.leapfrog_steps, step_size, self.radii, self.hole, self.flux, patches)


@dataclasses.dataclass(frozen=True)
class PatchArchitecture(DefectArchitecture):
    """The same with a small network on a window around the defect."""

    name: ClassVar[str] = "patch"
    meaning: ClassVar[str] = "the same with a network on a window around it"
    # At the rate of a defect they collapse.
    training: ClassVar[TrainingDefaults] = DefectArchitecture.training._replace(learning_rate=3e-3)

    hidden: Hidden = (16,)
    """hidden units of the networks"""
    window: Annotated[int, Meta(ge=1, le=101)] = 5
    """side of the window that the networks see, in plaquettes: an odd number"""

    def __post_init__(self) -> None:
        """A window has a middle."""
        super().__post_init__()
        self.require(self.window % 2 == 1, "window", "an odd number up to 101")

    def build(self, target: "Target", key: Any) -> "Trajectory":
        """New layers; `completed` has been called."""
        import jax

        from dlhmc.theories.u1.patch import Patch

        number, hidden = (self.leapfrog_steps + 1) // 2, self.hidden[0]
        kick_key, drift_key = jax.random.split(key)
        patches = (
            Patch.stack(kick_key, number, self.window, 2, hidden),
            Patch.stack(drift_key, number, self.window, 1, hidden),
        )
        return self._start(patches)


@dataclasses.dataclass(frozen=True)
class WeightedArchitecture(Architecture):
    """Leapfrog with a weight for the force of each plaquette around one place; before training, HMC."""

    name: ClassVar[str] = "weighted"
    meaning: ClassVar[str] = (
        "leapfrog with weights of plaquettes around one place, for --symmetric; dense networks can start from it"
    )
    training: ClassVar[TrainingDefaults] = TrainingDefaults(3000, 3e-3, gamma_start=0.3, loss="leaving")
    fixed_in_place: ClassVar[bool] = True

    radii: Annotated[Radii, Meta(min_length=2)] = (0.0, 1.5, 3.0)
    """distances at which the parameters have values; from the last on it is HMC"""
    window: Positive | None = None
    """links farther than this from the place stay as they are; √β if not given"""

    def __post_init__(self) -> None:
        """Radii rise from 0."""
        super().__post_init__()
        require_rising(self, self.radii)

    @classmethod
    def suits(cls, target: "Target") -> bool:
        """U(1) theories of plaquettes."""
        return DefectArchitecture.suits(target)

    @classmethod
    def builds(cls, trajectory: "Trajectory") -> bool:
        """Weighted layers."""
        from dlhmc.theories.u1.weighted import Weighted

        return isinstance(trajectory, Weighted)

    def completed(self, target: "Target") -> Self:
        """As for local layers."""
        local = LocalArchitecture(step_size=self.step_size, window=self.window).completed(target)
        return dataclasses.replace(self, step_size=local.step_size, window=local.window)

    def build(self, target: "Target", key: Any) -> "Trajectory":
        """New layers; `completed` has been called."""
        import jax.numpy as jnp

        from dlhmc.theories.u1.weighted import Weighted

        step_size = (self.step_size or 0.1) * jnp.sqrt(target.stiffness())  # type: ignore[attr-defined]
        return Weighted.start(self.leapfrog_steps, step_size, self.radii, self.window or math.inf)
