"""What a theory brings along: its target and whatever else is made for it. Free of heavy imports.

A theory is registered by an object of this class (`dlhmc.theories.registry`); other packages offer theirs through the
entry point group `dlhmc.theories`. Everything but the name and the settings is optional.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dlhmc.settings import Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dlhmc.comparison.contestants import Contestant
    from dlhmc.comparison.settings import CompareSettings
    from dlhmc.geometry.contract import Field
    from dlhmc.kernels import Kernel
    from dlhmc.models.architecture import Architecture
    from dlhmc.report.figures import Figures
    from dlhmc.run.summary import Histories
    from dlhmc.statistics import Estimate
    from dlhmc.studies.study import Preset
    from dlhmc.targets import Target
    from dlhmc.targets.contract import Observables
    from dlhmc.training import Loss, Schedule


@dataclasses.dataclass(frozen=True)
class TargetSettings(Settings):
    """What determines a target, as options of the command line and keys of files."""

    section: ClassVar[str] = "what"

    #: settings that the shape of an array of configurations tells
    told_by_shape: ClassVar[tuple[str, ...]] = ()

    def build(self) -> "Target":
        """The target, in the precision that JAX is set to."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """Part of the names of directories."""
        return ""


@dataclasses.dataclass(frozen=True)
class Moves(Settings):
    """Kernels made for a theory and moves that it adds to others, as options of `dlhmc sample`."""

    section: ClassVar[str] = "sampler"

    #: what `--kernel` calls the kernels made for the theory
    kernels: ClassVar[tuple[str, ...]] = ()

    def kernel(self, name: str, target: "Target") -> "Kernel":
        """One of `kernels`."""
        raise NotImplementedError

    def applied(self, kernel: "Kernel") -> "Kernel":
        """The kernel with the moves that are asked for."""
        return kernel

    @property
    def label(self) -> str:
        """Part of the names of directories."""
        return ""


@dataclasses.dataclass(frozen=True)
class Occasional(Settings):
    """Observables that are too expensive to measure after each trajectory, as options of `dlhmc sample`."""

    section: ClassVar[str] = "measurement"

    def observables(self, target: "Target") -> "Observables | None":
        """A function of configurations that gives them all by name; None where nothing is asked for."""
        return None

    def notes(self) -> dict[str, Any]:
        """What one needs to know to read them, such as the places of an array: stands in the history of a run."""
        return {}


@dataclasses.dataclass(frozen=True)
class CouplingSchedules(Settings):
    """How couplings change during training, as options of `dlhmc train`; γ is everybody's."""

    section: ClassVar[str] = "training"

    def schedules(self, target: TargetSettings, until: int) -> "dict[str, Schedule]":
        """Schedules by the name of the coupling, which end at the step `until`."""
        return {}


@dataclasses.dataclass(frozen=True)
class Rivals(Settings):
    """Samplers made for a theory that take part in comparisons, as options of `dlhmc compare`."""

    section: ClassVar[str] = "sampler"

    def check(self, target: "Target") -> None:
        """Raises UserError for what makes no sense for this target, before anything is written."""

    def forms(self, target: "Target") -> "Mapping[str, Target]":
        """The target in all forms that HMC of the grid samples, by what the names of its samplers end with."""
        return {"": target}

    def contestants(
        self, target: "Target", settings: "CompareSettings", start: "Callable[[int], Field]", seeds: Sequence[int]
    ) -> "list[Contestant]":
        """The samplers, tuned; `start(seed)` gives configurations in equilibrium, and there are `number` seeds."""
        return []

    @property
    def number(self) -> int:
        """How many contestants there will be."""
        return 0


class StoredConfiguration(NamedTuple):
    """A configuration from a file."""

    #: the name of its theory
    theory: str
    #: as the targets of the theory have it, without the axis of chains
    x: "NDArray[Any]"


class FileFormat(NamedTuple):
    """Files that people exchange, each with one configuration; `read` and `encode` raise UserError."""

    #: with its article
    title: str
    #: whether a file that begins with these bytes, up to 64 of them, is of this format
    recognises: Callable[[bytes], bool]
    read: Callable[[Path], StoredConfiguration]
    #: the content of a file, from (x, name of the run, trajectory after which it was kept)
    encode: "Callable[[NDArray[Any], str, int], bytes]"
    #: the names of files of a run, with {run}, {chain} and {trajectory}
    names: str


class NamedLoss(NamedTuple):
    """A loss that the command line knows by name."""

    #: in a few words
    meaning: str
    function: "Loss"
    suits: "Callable[[Target], bool]"


class Theory:
    """A theory as the rest of the package sees it."""

    #: what `--target` calls it
    name: ClassVar[str]
    #: in a few words
    title: ClassVar[str] = ""
    settings: ClassVar[type[TargetSettings]]
    #: what `dlhmc train` trains for it if nothing else is said
    network: ClassVar[str] = "dense"
    moves: ClassVar[type[Moves]] = Moves
    occasional: ClassVar[type[Occasional]] = Occasional
    schedules: ClassVar[type[CouplingSchedules]] = CouplingSchedules
    rivals: ClassVar[type[Rivals]] = Rivals
    #: settings of training by name, each a starting point that other options change
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    #: other theories whose trained models propose well for this one, too
    models_of: ClassVar[tuple[str, ...]] = ()
    #: folder of trained models that come along
    models: ClassVar[Path | None] = None
    #: observables and moments in the notation of the field, for tables and charts; _{…} and ^{…} are scripts
    symbols: ClassVar[Mapping[str, str]] = {}

    def describe(self, target: "Target") -> TargetSettings | None:
        """The settings that build this very target; None if it is not one of this theory."""
        return None

    def architectures(self) -> "Mapping[str, type[Architecture]]":
        """Layers made for it, by the name that `--network` calls them; the first that suits a target is its default."""
        return {}

    def losses(self) -> Mapping[str, NamedLoss]:
        """Losses made for it; the first that suits a target is its default."""
        return {}

    def derived(self, histories: "Histories", notes: Mapping[str, Any]) -> "Mapping[str, Estimate]":
        """What follows from the means of several observables, for the summary of a run; notes as `Occasional.notes`."""
        return {}

    def warnings(self, histories: "Histories") -> list[str]:
        """What else a user should know about a run, a sentence each."""
        return []

    def figures(self, described: Mapping[str, Any]) -> "Figures":
        """What a report shows of runs on a target with these settings, which a file of a stranger may have told."""
        from dlhmc.report.figures import Figures

        return Figures()

    def from_shape(self, shape: tuple[int, ...], settings: Mapping[str, Any]) -> TargetSettings | None:
        """The target of which an array of configurations [configuration, …] can be, given some of its settings."""
        return None

    def formats(self) -> Mapping[str, FileFormat]:
        """Files in which its configurations are exchanged, by the name of the format."""
        return {}

    def examples(self) -> "Mapping[str, Callable[[], Target]]":
        """Small targets on which all conformance tests run."""
        return {}

    def checked_kernels(self) -> "Mapping[str, Callable[[], Kernel]]":
        """Small kernels on targets with exact draws, by name: `dlhmc doctor` tests whether they are exact."""
        return {}

    def studies(self) -> "Mapping[str, Preset]":
        """Trainings and comparisons that belong together, by what `dlhmc reproduce --preset` calls them."""
        return {}

    def commands(self) -> Mapping[str, Any]:
        """Commands of its own, by name (`dlhmc.cli.commands.Command`)."""
        return {}
