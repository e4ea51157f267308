"""What an architecture is: the table [network], from which the layers of a trajectory are built. No heavy imports."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

from msgspec import Meta

from dlhmc.settings import Positive, Settings

if TYPE_CHECKING:
    from dlhmc.layers import Trajectory
    from dlhmc.targets import Target

# No trajectory comes near this; a file from a stranger may say anything.
Layers = Annotated[int, Meta(ge=1, le=10_000)]


class TrainingDefaults(NamedTuple):
    """What suits an architecture where nothing else is said."""

    steps: int
    learning_rate: float
    gamma_start: float
    #: the loss, where it suits the target; else the first that does
    loss: str | None = None


@dataclasses.dataclass(frozen=True)
class Architecture(Settings):
    """Base class: one for each kind of layers, with all that is to be said about them."""

    #: what `--network` calls it
    name: ClassVar[str]
    #: in a few words
    meaning: ClassVar[str] = ""
    #: what texts and figures call it
    words: ClassVar[str] = "learned layers"
    training: ClassVar[TrainingDefaults]
    #: settings from which parameters start, which layers that are trained already do not care about
    only_before_training: ClassVar[tuple[str, ...]] = ("step_size",)

    leapfrog_steps: Layers = 10
    """leapfrog layers in a trajectory"""
    step_size: Positive | None = None
    """size of all steps before training, else what suits"""

    def to_table(self) -> dict[str, Any]:
        """The name of the layers, and all settings."""
        return {"name": self.name} | dataclasses.asdict(self)

    @classmethod
    def suits(cls, target: "Target") -> bool:
        """Whether such layers can be built for the target."""
        return True

    @classmethod
    def builds(cls, trajectory: "Trajectory") -> bool:
        """Whether layers are of this kind."""
        return False

    def completed(self, target: "Target") -> Self:
        """With values that suit the target in place of those that are not given."""
        return self

    def build(self, target: "Target", key: Any) -> "Trajectory":
        """New layers; `completed` has been called."""
        raise NotImplementedError

    def stages(self, target: "Target") -> "list[Stage]":
        """What is trained one after the other to get there; the parameters of each grow out of those before."""
        return [Stage(self, target.known.guided(target)[1], 1.0)]

    def before(self, trained: "Architecture | None") -> "Architecture":
        """What trained layers must be to grow into these."""
        return self

    def grown(self, trained: "Trajectory", target: "Target") -> "Trajectory":
        """Layers of this architecture that do what trained ones of the stage before do."""
        return trained


class Stage(NamedTuple):
    """A part of a training, for layers that do not learn at once."""

    architecture: Architecture
    target: "Target"
    #: annealing factor that it ends with
    gamma: float
