"""What a study is: a list of trainings and comparisons that a theory declares. Free of heavy imports."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from msgspec import Meta

from dlhmc.comparison.settings import Lengths
from dlhmc.errors import UserError
from dlhmc.settings import Positive, Probability, Seed, Settings, advice, build, require_known
from dlhmc.theories import registry

_SECONDS_OF_TRAINING = 60.0
_SECONDS_OF_PREPARATION = 60.0


class Part(NamedTuple):
    """A training run or a comparison."""

    kind: Literal["train", "compare"]
    #: of its folder
    name: str
    #: on the screen
    title: str
    #: settings of `dlhmc train` or `dlhmc compare`; a model may be the name of an earlier part
    table: Mapping[str, Any]
    #: how long it may take
    seconds: float
    #: which row of the table of costs a comparison is
    row: str = ""


@dataclasses.dataclass(frozen=True)
class Study(Settings):
    """What all studies are told; those of a theory say what to train, and where to compare."""

    #: what the rows of the table of costs are values of; rows that need no name have none
    column: ClassVar[str] = ""

    lengths: Lengths = (1.0, 2.0, 4.0)
    """trajectory lengths of HMC"""
    acceptances: Annotated[tuple[Probability, ...], Meta(min_length=1)] = (0.6, 0.8, 0.9)
    """acceptances that the step size of HMC is tuned to"""
    chains: Annotated[int, Meta(ge=2, le=10**7)] = 128
    """chains of each sampler in a comparison"""
    budgets: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (600.0,)
    """seconds for each comparison; one number serves for all"""
    precision: Probability = 0.1
    """relative error of τ_int at which a sampler has been measured"""
    curves: str | None = None
    """TOML file of curves that the report shows for reference, such as docs/results/paper-curves.toml"""
    seed: Seed = 1
    """root of all random numbers"""

    def __post_init__(self) -> None:
        """Each comparison has a budget."""
        super().__post_init__()
        fits = len(self.budgets) in (1, self.number)
        self.require(fits, "budgets", f"one number, or one for each of {self.number} comparisons")
        if self.curves is not None:
            object.__setattr__(self, "curves", str(Path(self.curves).absolute()))

    @property
    def number(self) -> int:
        """How many comparisons there will be."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """Part of the names of directories."""
        raise NotImplementedError

    def parts(self) -> Iterator[Part]:
        """All of it, in this order."""
        raise NotImplementedError

    def training(self, name: str, title: str, table: Mapping[str, Any], seconds: float = _SECONDS_OF_TRAINING) -> Part:
        """Something to train."""
        return Part("train", name, f"train {title}", {"seed": self.seed, **table}, seconds)

    def comparison(
        self, index: int, name: str, row: str, table: Mapping[str, Any], models: Sequence[str], preparation: float = 1.0
    ) -> Part:
        """One of the comparisons; `preparation` counts minutes."""
        budget = self.budgets[index if len(self.budgets) > 1 else 0]
        shared = {name: getattr(self, name) for name in ("lengths", "acceptances", "chains", "precision", "seed")}
        whole = {**shared, "budget": budget, "model": tuple(models), **table}
        seconds = budget + preparation * _SECONDS_OF_PREPARATION
        return Part("compare", name, f"compare at {self.place(row)}", whole, seconds, row)

    def place(self, row: str) -> str:
        """A row in words."""
        return f"{self.column} = {row}" if self.column else row


@dataclasses.dataclass(frozen=True)
class StudySpec:
    """A study by its name."""

    name: str
    study: Study

    @classmethod
    def of(cls, options: Mapping[str, Any], file: Mapping[str, Any] | None = None, where: str = "A study") -> Self:
        """From options by name, its own among them, over those of a file."""
        given = {**(file or {}).get("study", {}), **options}
        require_known(file or {}, ["study"], where)
        name, known = given.pop("name", None), studies()
        if not isinstance(name, str) or name not in known:
            raise UserError(f"There is no study {name!r}: {advice(str(name), known)}")
        return cls(name, build(known[name], given, where))

    def to_tables(self) -> dict[str, Any]:
        """As a file has it."""
        return {"study": {"name": self.name} | dataclasses.asdict(self.study)}

    @property
    def default_directory(self) -> Path:
        """Where it goes if nobody says so."""
        return Path("runs") / f"reproduce-{self.study.label}-seed{self.study.seed}"


def studies() -> dict[str, type[Study]]:
    """All studies by name."""
    return {name: kind for theory in registry.all_theories() for name, kind in theory.studies.items()}
