"""Networks in windows, and leapfrog layers with covariant networks, as settings. Free of heavy imports."""

import dataclasses
import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from msgspec import Meta

from dlhmc.errors import Setting, UserError
from dlhmc.models.architecture import Architecture, Layers, Stage, TrainingDefaults
from dlhmc.models.dense import DenseArchitecture, Hidden

if TYPE_CHECKING:
    from dlhmc.layers import Trajectory
    from dlhmc.targets import Target

Block = Annotated[int, Meta(ge=2, le=300)]
Heads = Literal["plaquettes", "phases", "links", "paper"]
# Windows up to this one learn from HMC at once; larger ones grow by so many cells a stage.
_LEARNS_AT_ONCE, _GROWTH = 6, 2


def _root(target: "Target") -> float:
    """Frequency of a link of a cold configuration, over √2."""
    from dlhmc.targets.windows import stiffness

    return math.sqrt(stiffness(target))  # type: ignore[arg-type]


def _frequency(target: "Target", heads: Heads) -> float:
    """That of a phase of a plaquette, over √2: a phase of U(N) at β is an angle of U(1) at β/N."""
    norm = target.geometry.norm if heads == "phases" else 1.0  # type: ignore[attr-defined]
    return _root(target) / math.sqrt(norm)


def _has_phases(target: "Target") -> bool:
    from dlhmc.geometry.unitary import UnitaryMatrices
    from dlhmc.theories.gauge.known import has_charge, wilson_coupling

    matrices = isinstance(target.geometry, UnitaryMatrices)
    return matrices and has_charge(target) and wilson_coupling(target) is not None


def _angles(target: "Target") -> "Target":
    """The theory of angles that a phase is one of."""
    from dlhmc.theories.gauge.field import U1

    return U1(_sides(target), _frequency(target, "phases") ** 2)


def _sides(target: "Target") -> tuple[int, ...]:
    from dlhmc.targets.windows import sides_of

    return sides_of(target)


def _guide(target: "Target") -> "Target":
    return target.known.guided(target)[1]


def default_window(sides: tuple[int, ...], root: float) -> int:
    """That with which the sector changes most often, in all windows together.

    A block of n = b² plaquettes holds a flux of the variance n/β, and no move of it by 2π can be accepted more often
    than 2 erfc(π√β/b√2); the larger it is, the fewer there are. Still larger ones are hard to learn.
    """
    largest = max(2, min(round(2.1 * root), *sides))

    def changes(block: int) -> float:
        return math.prod(side // block for side in sides) * math.erfc(math.pi * root / (block * math.sqrt(2)))

    return max(range(2, largest + 1), key=changes)


@dataclasses.dataclass(frozen=True)
class LocalArchitecture(Architecture):
    """Leapfrog layers whose networks see a window, a block of the lattice; before training, HMC."""

    name: ClassVar[str] = "local"
    words: ClassVar[str] = "networks in windows"
    meaning: ClassVar[str] = "networks that act in windows, each accepted on its own; they start as HMC"
    training: ClassVar[TrainingDefaults] = TrainingDefaults(1500, 3e-3, gamma_start=0.3, loss="leaving")

    leapfrog_steps: Layers = 2
    """leapfrog layers in a trajectory"""
    hidden: Hidden = (32, 32)
    """sizes of the hidden layers of the networks"""
    window: Block | None = None
    """cells along each side of a window, else what suits β"""
    heads: Heads | None = None
    """plaquettes, phases (U(N) in 2D), links, or paper"""

    @classmethod
    def suits(cls, target: "Target") -> bool:
        """Actions that are a sum over cells."""
        from dlhmc.targets.windows import are_cells

        return are_cells(_guide(target))

    @classmethod
    def builds(cls, trajectory: "Trajectory") -> bool:
        """Layers in windows."""
        from dlhmc.layers import Local

        return isinstance(trajectory, Local)

    def completed(self, target: "Target") -> Self:
        """A window in which the sector fluctuates by about one unit, and a step at which leapfrog leaves it."""
        target = _guide(target)
        heads = self.heads or ("phases" if _has_phases(target) else "plaquettes")
        sides = _sides(target)
        if heads == "phases":
            if not _has_phases(target):
                raise UserError(f"{Setting('heads')} phases is for U(N) with N > 1 in two dimensions.")
            # All of the rim is frozen, so that a window never closes around the lattice.
            sides = tuple(side - 1 for side in sides)
            if self.window is not None and self.window > min(sides):
                raise UserError(f"{Setting('window')} {self.window} leaves no rim: give {min(sides)} or less.")
        window = default_window(sides, _frequency(target, heads)) if self.window is None else self.window
        return dataclasses.replace(self, step_size=self.step_size or 0.7, window=window, heads=heads)

    def stages(self, target: "Target") -> list[Stage]:
        """Small windows first, at couplings where they hold as much of the sector: large ones do not learn at once.

        Networks on phases begin as those of U(1), where a window leaves its sector in one way only.
        """
        from dlhmc.targets.windows import resized

        target, last = _guide(target), self.window or 2
        if self.heads == "phases":
            of_angles = dataclasses.replace(self, heads="plaquettes").stages(_angles(target))
            return [*of_angles, Stage(self, target, 1.0)]
        grows = self.heads == "plaquettes" and last > _LEARNS_AT_ONCE
        blocks = range(last, _LEARNS_AT_ONCE - 2, -_GROWTH) if grows else [last]

        def stage(block: int) -> Stage:
            # What is learned in windows does not know the lattice: one with a few of them is large enough.
            sides = tuple(min(side, 3 * block + 1) for side in _sides(target))
            return Stage(dataclasses.replace(self, window=block), resized(target, sides), (block / last) ** 2)

        return [stage(block) for block in reversed(blocks)]

    def before(self, trained: Architecture | None) -> Architecture:
        """Windows may have been smaller."""
        smaller = isinstance(trained, LocalArchitecture) and (trained.window or 2) < (self.window or 2)
        return dataclasses.replace(self, window=trained.window) if smaller else self  # type: ignore[union-attr]

    def grown(self, trained: "Trajectory", target: "Target") -> "Trajectory":
        """With a larger window, or on phases."""
        from dlhmc.layers import Local
        from dlhmc.theories.gauge.phases import OnPhases

        layers: Any = trained
        if self.heads == "phases":
            inside = layers.inside.inside if isinstance(layers.inside, OnPhases) else layers.inside
            of_angles = dataclasses.replace(self, heads="plaquettes")
            wanted: Any = of_angles.grown(Local(inside, layers.block), _angles(target))
            return Local(OnPhases(wanted.inside), wanted.block)
        return layers if layers.block == self.window else layers.grown(_guide(target), self.window)

    def build(self, target: "Target", key: Any) -> "Trajectory":
        """New layers; `completed` has been called."""
        import jax

        from dlhmc.layers import LinkKick, Local, Palindrome, PlaquetteKick
        from dlhmc.layers.local import see_cells
        from dlhmc.networks import MLP, Dense
        from dlhmc.targets.windows import layout_for, window_of, windowed
        from dlhmc.theories.gauge.phases import OnPhases

        block, step_size = self.window or 2, self.step_size or 0.7
        target = _guide(target)
        window = window_of(target, layout_for(target, block))
        of_window = windowed(window)
        geometry = of_window.whole.geometry
        links, cells = len(of_window.layout.inside), len(of_window.cells())
        x = jax.ShapeDtypeStruct((*geometry.shape, 1), geometry.dtype(jax.numpy.result_type(float)))
        numbers = jax.eval_shape(of_window.whole.actions[0].numbers, geometry, x).shape[0]  # type: ignore[attr-defined]
        if self.heads == "phases":

            def phases(key: Any) -> PlaquetteKick:
                return PlaquetteKick(MLP(key, 2 * cells, self.hidden, 2 * cells + 1))

            inside = Palindrome.start(phases, key, self.leapfrog_steps, step_size)
            return Local(OnPhases(inside), block)
        if self.heads == "paper":

            def network(key: Any, geometry: Any) -> Dense:
                return Dense(key, geometry, self.hidden, features=numbers * cells)

            # The circle rule would hang on the gauge.
            layers = DenseArchitecture(self.leapfrog_steps, step_size / _root(target), rule="shift")
            return Local(layers.layers(window, key, network, view=see_cells), block)

        def kick(key: Any) -> PlaquetteKick | LinkKick:
            if self.heads == "links":
                return LinkKick(MLP(key, numbers * cells, self.hidden, 3 * links))
            return PlaquetteKick(MLP(key, numbers * cells, self.hidden, sum(of_window.heads()) * cells + 1))

        return Local(Palindrome.start(kick, key, self.leapfrog_steps, step_size), block)


@dataclasses.dataclass(frozen=True)
class CovariantArchitecture(Architecture):
    """The paper's layers with networks that commute with gauge transformations; before training, HMC."""

    name: ClassVar[str] = "covariant"
    words: ClassVar[str] = "gauge-covariant networks"
    meaning: ClassVar[str] = "the paper's layers for links that are matrices, with gauge-covariant networks"
    training: ClassVar[TrainingDefaults] = TrainingDefaults(1000, 1e-3, gamma_start=1.0, loss="action")

    hidden: Hidden = (16, 16)
    """sizes of the hidden layers of the networks"""

    @classmethod
    def suits(cls, target: "Target") -> bool:
        """Links that are matrices."""
        from dlhmc.geometry.unitary import UnitaryMatrices
        from dlhmc.theories.gauge.known import is_gauge_field

        return isinstance(target.geometry, UnitaryMatrices) and is_gauge_field(target)

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

        return DenseArchitecture(
            self.leapfrog_steps, self.step_size
        ).layers(
            target,
            key,
            network=lambda key, geometry: Covariant(key, geometry, self.hidden),  # type: ignore[arg-type]
            mask=every_other_link(target.geometry.elements[1:]),
        )
