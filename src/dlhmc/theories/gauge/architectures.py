"""Local layers as settings. Free of heavy imports."""

import dataclasses
import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Meta

from dlhmc.models.architecture import Architecture, TrainingDefaults

if TYPE_CHECKING:
    from dlhmc.layers import Trajectory
    from dlhmc.targets import Target


@dataclasses.dataclass(frozen=True)
class LocalArchitecture(Architecture):
    """Leapfrog with a weight for the force of each plaquette, and a scale for the momenta; before training, HMC."""

    name: ClassVar[str] = "local"
    meaning: ClassVar[str] = "leapfrog whose force is weighted plaquette by plaquette; it starts as HMC"
    training: ClassVar[TrainingDefaults] = TrainingDefaults(steps=3000, learning_rate=2e-3, gamma_start=1.0)

    degree: Annotated[int, Meta(ge=1, le=64)] = 8
    """degree of the polynomials that weigh the force"""

    @classmethod
    def suits(cls, target: "Target") -> bool:
        """Actions that are a sum over plaquettes."""
        from dlhmc.theories.gauge.local import PlaquetteTarget

        return isinstance(target, PlaquetteTarget)

    @classmethod
    def builds(cls, trajectory: "Trajectory") -> bool:
        """Local layers."""
        from dlhmc.theories.gauge.local import Local

        return isinstance(trajectory, Local)

    def completed(self, target: "Target") -> Self:
        """A step that leapfrog accepts on lattices of moderate size."""
        if self.step_size is not None:
            return self
        return dataclasses.replace(self, step_size=0.45 / math.sqrt(_stiffness(target)))

    def build(self, target: "Target", key: Any) -> "Trajectory":
        """New layers; `completed` has been called."""
        import jax

        from dlhmc.theories.gauge.local import Local

        x = jax.ShapeDtypeStruct((*target.shape, 1), target.geometry.dtype(jax.numpy.result_type(float)))
        features = jax.eval_shape(lambda y: target.plaquette_features(y), x).shape[0]  # type: ignore[attr-defined]
        step_size = 0.1 if self.step_size is None else self.step_size
        return Local.start(self.leapfrog_steps, step_size, features, self.degree)


def _stiffness(target: "Target") -> float:
    """Half of the curvature of the action along one link of a cold configuration: β for U(1) in a plane."""
    import jax
    import jax.numpy as jnp

    cold = target.start(jax.random.key(0), "cold", 1, jnp.dtype(jnp.result_type(float)))
    shape = (*target.geometry.momentum_shape, 1)
    direction = jnp.zeros(shape).at[(0,) * len(shape)].set(1)
    slope = jax.jvp(lambda d: target.force(target.geometry.moved(cold, d)), (0 * direction,), (direction,))[1]
    return float(jnp.sum(slope * direction)) / 2
