"""A training run: target, layers, loss and schedules, amounts."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

from msgspec import Meta

from dlhmc.models.architecture import Architecture, Stage
from dlhmc.models.architectures import architecture, architecture_for, built
from dlhmc.models.files import ModelFile, absolute
from dlhmc.run.settings import OptimiserSettings, TrainAmounts, stage_ends
from dlhmc.settings import Advanced, Settings
from dlhmc.spec.machine import Machine
from dlhmc.spec.spec import Spec
from dlhmc.theories.contract import Theory

if TYPE_CHECKING:
    import optax
    from rich.console import Console

    from dlhmc.errors import ExitCode
    from dlhmc.layers import Trajectory
    from dlhmc.run.driver import ExecutionOptions
    from dlhmc.run.training import Training
    from dlhmc.targets import Target
    from dlhmc.training import Algorithm, Knots, LaterStage, Loss, Schedule
    from dlhmc.training.losses import NamedLoss


@dataclasses.dataclass(frozen=True)
class TrainingSettings(OptimiserSettings):
    """What is minimised, how, and how the target changes meanwhile: the table [training]."""

    loss: str | None = None
    """charge, leaving, jump, action, else what suits"""
    gamma_start: Annotated[float, Meta(gt=0, le=1)] | None = None
    """factor γ of the action at first, else what suits"""
    anneal: Advanced[Annotated[float, Meta(ge=0, le=1)]] = 0.7
    """fraction of the steps during which γ rises to 1"""
    gamma_knots: Advanced[tuple[float, ...]] = ()
    """an annealing schedule of one's own: pairs of a fraction of the steps and a γ, the last γ being 1"""
    model: str | None = None
    """training run or model file to start from"""

    def __post_init__(self) -> None:
        """Knots come in pairs."""
        super().__post_init__()
        knots = self.gamma_knots
        times, gammas = knots[0::2], knots[1::2]
        fine = len(times) == len(gammas) and all(0 <= t <= 1 for t in times) and all(0 < g <= 1 for g in gammas)
        fine = fine and list(times) == sorted(times) and (not gammas or gammas[-1] == 1)
        self.require(fine, "gamma_knots", "pairs of a fraction (rising) and a γ in (0, 1], the last γ being 1")
        if self.model is not None:
            object.__setattr__(self, "model", absolute(self.model))


class Settled(NamedTuple):
    """What depends on the target, in place of what was not given."""

    network: Architecture
    stages: list[Stage]
    amounts: TrainAmounts
    loss: "NamedLoss"


class Job(NamedTuple):
    """A training as objects."""

    algorithm: "Algorithm"
    trajectory: "Trajectory"
    later: "Sequence[LaterStage]"
    #: with the number of steps
    amounts: TrainAmounts
    #: what the model will say of itself
    description: Mapping[str, Any]
    inputs: Mapping[str, Path]


@dataclasses.dataclass(frozen=True)
class TrainSpec(Spec):
    """All of it; what is None depends on the target, and is found when that is built."""

    kind: ClassVar[str] = "train"
    has_network: ClassVar[bool] = True

    network: Architecture
    training: TrainingSettings
    amounts: TrainAmounts
    machine: Machine

    @classmethod
    def tables(cls, theory: Theory, network: str | None) -> dict[str, type[Settings]]:
        """The classes of settings by field."""
        return {
            "target": theory.settings,
            "network": architecture(network or theory.network),
            "training": TrainingSettings,
            "amounts": TrainAmounts,
            "machine": Machine,
        }

    @classmethod
    def take_over(
        cls, model: ModelFile, kinds: Mapping[str, type[Settings]], tables: dict[str, dict[str, Any]]
    ) -> None:
        """The layers of the model as well."""
        super().take_over(model, kinds, tables)
        its = model.architecture
        if its is not None and type(its) is kinds["network"]:
            layers = {name: value for name, value in its.to_table().items() if name not in its.only_before_training}
            del layers["name"]
            tables["network"] = layers | tables.get("network", {})

    @property
    def label(self) -> str:
        """The layers."""
        return f"{self.kind}-{self.network.name}"

    @property
    def seed(self) -> int:
        """Root of all random numbers."""
        return self.amounts.seed

    def longer(self, steps: int) -> Self:
        """The same with another number of steps."""
        return dataclasses.replace(self, amounts=self.amounts.extended(steps))

    def settle(self, target: "Target") -> Settled:
        """What depends on the target."""
        from dlhmc.training.losses import loss_for

        kind = architecture_for(target, self.network.name)
        network = self.network.completed(target)
        stages = network.stages(target)[-1 if self.training.model else 0 :]
        steps = self.amounts.steps or kind.training.steps * len(stages)
        loss = loss_for(target, self.training.loss, kind.training.loss)
        return Settled(network, stages, dataclasses.replace(self.amounts, steps=steps), loss)

    def build(self, *, resuming: bool = False) -> Job:
        """The inputs of Algorithm 1, in the precision that JAX is set to.

        The parameters of a run that goes on come from its checkpoint: the model once started from may be gone.
        """
        from dlhmc.models.model import Model, describe
        from dlhmc.run.needs import require_room

        target, settings = self.target.build(), self.training
        network, stages, amounts, loss = self.settle(target)
        schedules = self._schedules(stages, amounts.total, network.training.gamma_start)
        rate = settings.learning_rate or network.training.learning_rate
        optimiser = functools.partial(adam, dataclasses.replace(settings, learning_rate=rate))
        algorithm, later = algorithms(stages, schedules, amounts.total, loss.function, optimiser)
        # Networks that see all of a target that is too large would take the memory before anything is refused.
        require_room(algorithm.target, amounts.chains)
        trajectory, inputs = built(stages[0].architecture, algorithm.target, amounts.seed), {}
        if settings.model is not None and not resuming:
            model = Model.open(settings.model)
            like = network.before(model.architecture)
            model.require_architecture(like)
            trajectory = network.grown(model.trajectory(target, built(like, target, amounts.seed)), target)
            inputs = {"model": model.path}
        return Job(algorithm, trajectory, later, amounts, describe(network, self.to_tables()["target"]), inputs)

    def _schedules(self, stages: list[Stage], steps: int, default: float) -> "list[Schedule]":
        """γ in each stage; it counts the steps of the whole training."""
        from dlhmc.training import Knots

        settings = self.training
        if knots := settings.gamma_knots:
            times = (fraction * steps for fraction in knots[0::2])
            return [Knots(list(zip(times, knots[1::2], strict=True)))] * len(stages)
        return list(annealings(stages, steps, settings.gamma_start or default, settings.anneal))

    def run(
        self,
        path: Path,
        console: "Console",
        options: "ExecutionOptions | None" = None,
        *,
        resuming: bool = False,
    ) -> "tuple[Training, ExitCode]":
        """Do it, in a directory."""
        import jax

        from dlhmc.run.directory import Place
        from dlhmc.run.driver import PLAIN
        from dlhmc.run.training import train

        with jax.enable_x64(self.amounts.float64):
            job = self.build(resuming=resuming)
            place = Place(path, self.to_tables(), resuming)
            begin = (job.algorithm, job.trajectory, job.amounts, job.description)
            return train(*begin, place, console, options or PLAIN, later=job.later)

    def estimate(self, console: "Console") -> None:
        """Print what the run would take."""
        import jax

        from dlhmc.run.training import estimate

        with jax.enable_x64(self.amounts.float64):
            job = self.build()
            estimate(job.algorithm, job.trajectory, dataclasses.replace(job.amounts, burn_in=0), console)


def annealings(stages: list[Stage], steps: int, gamma: float, fraction: float) -> "list[Knots]":
    """γ in each stage, which rises during a fraction of it from where it was; it counts the steps of all."""
    from dlhmc.training import Knots

    found, begun, before = [], 0, gamma * stages[0].gamma
    for stage, end in zip(stages, stage_ends(steps, len(stages)), strict=True):
        until = max(begun + round(fraction * (end - begun)), begun + 1)
        found.append(Knots([(begun, before), (until, stage.gamma)]))
        begun, before = end, stage.gamma
    return found


def algorithms(
    stages: list[Stage],
    schedules: "Sequence[Schedule]",
    steps: int,
    loss: "Loss",
    optimiser: "Callable[[int], optax.GradientTransformation]",
) -> "tuple[Algorithm, list[LaterStage]]":
    """That of the first stage, and of later ones; an optimiser is made for a number of steps."""
    from dlhmc.training import Algorithm, LaterStage

    found, begun = [], 0
    for stage, gammas, end in zip(stages, schedules, stage_ends(steps, len(stages)), strict=True):
        found.append(Algorithm(stage.target, gammas, loss, optimiser(end - begun)))
        begun = end
    return found[0], [LaterStage(a, s.architecture.grown) for a, s in zip(found[1:], stages[1:], strict=True)]


def adam(settings: OptimiserSettings, steps: int) -> "optax.GradientTransformation":
    """Adam with clipping, a warm-up of the learning rate, and its decay."""
    import optax

    from dlhmc.training import learning_rate

    if settings.learning_rate is None:
        raise TypeError("no learning rate")
    warmup = min(settings.rate_warmup, steps // 2)
    rate = learning_rate(settings.rate_schedule, settings.learning_rate, steps, warmup)
    return optax.chain(optax.clip_by_global_norm(settings.clip), optax.adam(rate))
