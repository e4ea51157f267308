"""What a theory is: a name, options that build a target, and what comes along with it. Free of heavy imports.

Other packages offer theirs through the entry point group `dlhmc.theories`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

from msgspec import Meta

from dlhmc.settings import Amount, Listed, Positive, Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dlhmc.report.figures import Figures
    from dlhmc.studies.study import Study
    from dlhmc.targets import Target
    from dlhmc.targets.contract import Observables


@dataclasses.dataclass(frozen=True)
class TargetSettings(Settings):
    """What determines a target: the table [target]."""

    #: the name of the theory
    theory: ClassVar[str]
    #: settings that the shape of an array of configurations tells
    told_by_shape: ClassVar[tuple[str, ...]] = ()

    def build(self) -> "Target":
        """The target, in the precision that JAX is set to."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """Part of the names of directories."""
        return self.theory

    @classmethod
    def of_shape(cls, shape: tuple[int, ...], settings: Mapping[str, Any]) -> Self | None:
        """The target of which an array of configurations [configuration, …] can be, given some of its settings."""
        return None

    def to_table(self) -> dict[str, Any]:
        """The name of the theory, and all settings."""
        return {"name": self.theory} | dataclasses.asdict(self)

    def describe(self) -> dict[str, Any]:
        """The same as a history says it of its target."""
        table = {key: list(part) if isinstance(part, tuple) else part for key, part in dataclasses.asdict(self).items()}
        return {"target": self.theory} | table


@dataclasses.dataclass(frozen=True)
class Occasional(Settings):
    """Observables that are too expensive to measure after each trajectory: the table [measure]."""

    flow_time: Annotated[float, Meta(ge=0, le=10**4), Listed(ability="flow")] = 0.0
    """flow time up to which fields are smoothed to measure energy density and charge; 0 for no flow"""
    flow_points: Annotated[int, Meta(ge=4, le=1000), Listed(advanced=True, ability="flow")] = 32
    """flow times at which they are measured, evenly spaced"""
    flow_tolerance: Annotated[Positive, Listed(advanced=True, ability="flow")] = 1e-3
    """largest error of a step of the flow"""
    loops: Annotated[Amount, Listed(ability="flow")] = 0
    """largest side of the Wilson loops that are measured; 0 for none beside the plaquette"""
    correlators: Annotated[bool, Listed(ability="mesons")] = False
    """measure the condensate and the correlators of pion and eta"""
    sources: Annotated[int, Meta(ge=0, le=1000), Listed(advanced=True, ability="mesons")] = 0
    """random sources on each time slice, at least 2, for lattices beyond 32×32; 0 for all propagators exactly"""

    def __post_init__(self) -> None:
        """Products of two sources."""
        super().__post_init__()
        self.require(self.sources != 1, "sources", "0, or from 2 to 1000")

    def observables(self, target: "Target") -> "Observables | None":
        """A function of configurations that gives all by name; None where nothing is asked for."""
        if self.correlators:
            from dlhmc.theories.occasional import correlators

            return correlators(target, self.sources)
        if self.flow_time or self.loops:
            from dlhmc.theories.occasional import flowed

            return flowed(target, self._times, self.flow_tolerance, self.loops)
        return None

    @property
    def _times(self) -> tuple[float, ...]:
        step = self.flow_time / self.flow_points
        return tuple(step * k for k in range(1, self.flow_points + 1)) if step else ()

    def notes(self) -> dict[str, Any]:
        """What one needs to know to read them: stands in the history of a run."""
        return {"flow_times": list(self._times)} if self.flow_time > 0 else {}


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


def _no_figures(_: Mapping[str, Any]) -> "Figures":
    from dlhmc.report.figures import Figures

    return Figures()


@dataclasses.dataclass(frozen=True)
class Theory:
    """A theory as the rest of the package sees it."""

    settings: type[TargetSettings]
    #: in a few words
    title: str = ""
    #: what is trained if nothing else is said
    network: str = "dense"
    #: what of moves, measurements and competitors it offers: "hits", "heat bath", "flow", "mesons", "splitting"
    abilities: frozenset[str] = frozenset()
    #: folder of trained models that come along
    models: Path | None = None
    #: observables and moments in the notation of the field, for tables and charts; _{…} and ^{…} are scripts
    symbols: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: trainings and comparisons that belong together, by what `dlhmc reproduce` calls them
    studies: "Mapping[str, type[Study]]" = dataclasses.field(default_factory=dict)
    #: what a report shows of runs on a target with these settings, which a file of a stranger may have told
    figures: "Callable[[Mapping[str, Any]], Figures]" = _no_figures

    @property
    def name(self) -> str:
        """What the command line calls it."""
        return self.settings.theory
