"""Leapfrog layers with constant networks, as settings. Free of heavy imports."""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dlhmc.models.architecture import Architecture, TrainingDefaults

if TYPE_CHECKING:
    from dlhmc.layers import Trajectory
    from dlhmc.targets import Target


@dataclasses.dataclass(frozen=True)
class UniformArchitecture(Architecture):
    """Steps of their own for each layer, and a scale of all momenta; before training, HMC."""

    name: ClassVar[str] = "uniform"
    meaning: ClassVar[str] = "leapfrog that scales all momenta alike, for any target; dense networks can start from it"
    training: ClassVar[TrainingDefaults] = TrainingDefaults(2500, 3e-3, gamma_start=0.3, loss="leaving")

    @classmethod
    def builds(cls, trajectory: "Trajectory") -> bool:
        """Layers that are the same everywhere."""
        from dlhmc.layers import Uniform

        return isinstance(trajectory, Uniform)

    def completed(self, target: "Target") -> Self:
        """Steps of 0.1."""
        return dataclasses.replace(self, step_size=self.step_size or 0.1)

    def build(self, target: "Target", key: Any) -> "Trajectory":
        """New layers; `completed` has been called."""
        from dlhmc.layers import Uniform

        return Uniform.start(self.leapfrog_steps, self.step_size or 0.1)
