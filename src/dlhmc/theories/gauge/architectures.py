"""Local layers, and leapfrog layers with covariant networks, as settings. Free of heavy imports."""

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Meta

from dlhmc.models.architecture import Architecture, TrainingDefaults
from dlhmc.models.dense import DenseArchitecture, Hidden

if TYPE_CHECKING:
    from dlhmc.layers import Trajectory
    from dlhmc.targets import Target

# Up to 3√β of the largest β; functions of the distance are prepared on a lattice of this size.
Radii = Annotated[tuple[Annotated[float, Meta(ge=0, le=300)], ...], Meta(max_length=64)]


def rises(numbers: tuple[float, ...]) -> bool:
    """Each is larger than the one before."""
    return all(a < b for a, b in itertools.pairwise(numbers))


def require_rising(architecture: Architecture, radii: tuple[float, ...]) -> None:
    """Refuse radii that do not rise from 0."""
    architecture.require(
        rises(radii) and radii[0] == 0, "radii", "distances that rise from 0, up to 64 of them up to 300"
    )


def _root(target: "Target") -> float:
    """Frequency of a link of a cold configuration, over √2."""
    return math.sqrt(target.stiffness())  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True)
class LocalArchitecture(Architecture):
    """Leapfrog with a weight for the force of each plaquette, and a scale for the momenta; before training, HMC."""

    name: ClassVar[str] = "local"
    meaning: ClassVar[str] = "leapfrog whose force is weighted plaquette by plaquette; it starts as HMC"
    training: ClassVar[TrainingDefaults] = TrainingDefaults(3000, 3e-3, gamma_start=0.3, loss="leaving")

    degree: Annotated[int, Meta(ge=1, le=64)] = 4
    """degree of the polynomials that weigh the force"""
    radii: Annotated[Radii, Meta(min_length=1)] = (0.0, 1.5, 3.0)
    """distances at which the parameters have values; from the last on it is HMC; `0` for the same everywhere"""
    window: Annotated[float, Meta(ge=0, le=1e300)] | None = None
    """links farther than this from the middle of a trajectory stay as they are; 0 for none; follows β if not given"""
    free: bool = False
    """parameters of their own for all layers, in both directions; else the second half mirrors the first"""

    def __post_init__(self) -> None:
        """Radii rise from 0."""
        super().__post_init__()
        require_rising(self, self.radii)

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
        """A step that leapfrog accepts on lattices of moderate size, and a window that suits the coupling."""
        root = _root(target)
        # What changes fits into a disc whose area grows with β; a smaller one has no room for a link to move, and of a
        # larger one, which does not fit into five sites, there are fewer side by side.
        window = min(max(1.7, root), 2.4) if self.window is None else self.window
        return dataclasses.replace(self, step_size=self.step_size or 0.45 / root, window=window)

    def build(self, target: "Target", key: Any) -> "Trajectory":
        """New layers; `completed` has been called."""
        import jax

        from dlhmc.theories.gauge.local import Local

        x = jax.ShapeDtypeStruct((*target.shape, 1), target.geometry.dtype(jax.numpy.result_type(float)))
        features = jax.eval_shape(lambda y: target.plaquette_features(y), x).shape[0]  # type: ignore[attr-defined]
        step_size = (self.step_size or 0.1) * jax.numpy.sqrt(target.stiffness())  # type: ignore[attr-defined]
        window = self.window or math.inf
        shape = (self.leapfrog_steps, step_size, features, self.degree, self.radii, window)
        return Local.start(*shape, parts=target.force_parts, free=self.free)  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True)
class CovariantArchitecture(Architecture):
    """The paper's layers with networks that commute with gauge transformations; before training, HMC."""

    name: ClassVar[str] = "covariant"
    meaning: ClassVar[str] = "the paper's layers for links that are matrices, with gauge-covariant networks"
    training: ClassVar[TrainingDefaults] = TrainingDefaults(1000, 1e-3, gamma_start=1.0, loss="action")

    hidden: Hidden = (16, 16)
    """sizes of the hidden layers of the networks"""

    @classmethod
    def suits(cls, target: "Target") -> bool:
        """Links that are matrices, with the Wilson action."""
        from dlhmc.theories.gauge.wilson import Wilson

        return isinstance(target, Wilson)

    @classmethod
    def builds(cls, trajectory: "Trajectory") -> bool:
        """Leapfrog layers with such networks."""
        from dlhmc.layers import LayerStack, LeapfrogLayer
        from dlhmc.theories.gauge.covariant import Covariant

        layers = trajectory.layers if isinstance(trajectory, LayerStack) else None
        return isinstance(layers, LeapfrogLayer) and isinstance(layers.v_network, Covariant)

    def completed(self, target: "Target") -> Self:
        """A step that leapfrog accepts on lattices of moderate size."""
        return dataclasses.replace(self, step_size=self.step_size or 0.45 / _root(target))

    def build(self, target: "Target", key: Any) -> "Trajectory":
        """New layers; `completed` has been called."""
        from dlhmc.theories.gauge.covariant import Covariant, every_other_link

        return DenseArchitecture(self.leapfrog_steps, self.step_size).layers(
            target,
            key,
            network=lambda key, geometry: Covariant(key, geometry, self.hidden),  # type: ignore[arg-type]
            mask=every_other_link(target.sides),  # type: ignore[attr-defined]
        )
