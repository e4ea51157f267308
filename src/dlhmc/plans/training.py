"""A training run of the command line: theory, layers, loss, schedules, optimiser, amounts."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, cast

import tyro
from msgspec import Meta

from dlhmc.errors import Setting, UserError
from dlhmc.models.architecture import Architecture, Stage
from dlhmc.plans.plan import LongPlan
from dlhmc.plans.tables import absolute
from dlhmc.run.settings import OptimiserSettings, TrainAmounts, stage_ends
from dlhmc.settings import Advanced, Settings
from dlhmc.theories import registry
from dlhmc.theories.contract import CouplingSchedules, Theory

if TYPE_CHECKING:
    import optax
    from rich.console import Console

    from dlhmc.errors import ExitCode
    from dlhmc.layers import Trajectory
    from dlhmc.models.model import Model
    from dlhmc.run.driver import ExecutionOptions
    from dlhmc.run.training import Training
    from dlhmc.targets import Target
    from dlhmc.training import Algorithm, Knots, Schedule


S = TypeVar("S", bound=Settings)


@dataclasses.dataclass(frozen=True)
class ObjectiveSettings(Settings):
    """What is minimised, and how the target changes meanwhile."""

    section: ClassVar[str] = "training"

    loss: str | None = None
    """what training minimises; what suits the target if not given"""
    gamma_start: Annotated[float, Meta(gt=0, le=1)] | None = None
    """annealing factor γ at the beginning; 1 for none, what suits the layers if not given"""
    anneal: Advanced[Annotated[float, Meta(ge=0, le=1)]] = 0.7
    """fraction of the steps during which couplings change to their final values"""
    gamma_knots: Advanced[tuple[float, ...]] = ()
    """an annealing schedule of one's own: pairs of a fraction of the steps and a γ, the last γ being 1"""
    model: Annotated[str | None, tyro.conf.arg(aliases=("--from",))] = None
    """training run or model file whose parameters to start from"""

    def __post_init__(self) -> None:
        """Knots come in pairs."""
        super().__post_init__()
        knots = self.gamma_knots
        times, gammas = knots[0::2], knots[1::2]
        fine = len(times) == len(gammas) and all(0 <= t <= 1 for t in times) and all(0 < g <= 1 for g in gammas)
        fine = fine and list(times) == sorted(times) and (not gammas or gammas[-1] == 1)
        self.require(fine, "gamma_knots", "pairs of a fraction (rising) and a γ in (0, 1], the last γ being 1")
        object.__setattr__(self, "model", absolute(self.model))


@dataclasses.dataclass(frozen=True)
class TrainPlan(LongPlan):
    """All of it; what suits the target and the layers has been filled in."""

    kind: ClassVar[str] = "train"
    names: ClassVar[tuple[str, ...]] = ("target", "network")

    architecture: Architecture
    schedules: CouplingSchedules
    objective: ObjectiveSettings
    optimiser: OptimiserSettings
    amounts: TrainAmounts

    @staticmethod
    def parts(theory: Theory, table: Mapping[str, Any]) -> dict[str, type[Settings]]:
        """The classes of settings, by the field that holds them."""
        return {
            "target": theory.settings,
            "architecture": registry.architecture(table.get("network") or theory.network),
            "schedules": theory.schedules,
            "objective": ObjectiveSettings,
            "optimiser": OptimiserSettings,
            "amounts": TrainAmounts,
        }

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str = "The table") -> Self:
        """From one flat table."""
        return super().from_table(table, where).settled()

    @classmethod
    def settings_of(cls, model: "Model") -> dict[str, Any]:
        """The settings that name the target and the layers of a model, for training that starts from it."""
        target, architecture = super().settings_of(model), model.architecture
        if architecture is None:
            return target
        layers = {"network": architecture.name, **dataclasses.asdict(architecture)}
        return target | {key: layers[key] for key in layers if key not in architecture.only_before_training}

    def settled(self) -> Self:
        """With all that suits the target and the layers in place of what was not given."""
        target = self.target.build()
        defaults = architecture_for(target, self.architecture.name).training
        loss, _ = registry.loss_for(target, self.objective.loss, defaults.loss)
        gamma_start = self.objective.gamma_start or defaults.gamma_start
        return dataclasses.replace(
            self,
            architecture=self.architecture.completed(target),
            objective=given(self.objective, loss=loss, gamma_start=gamma_start),
            optimiser=given(self.optimiser, learning_rate=defaults.learning_rate),
        ).with_steps(defaults.steps)

    def with_steps(self, each: int) -> Self:
        """With so many steps for each stage, if nothing was given."""
        amounts = given(self.amounts, steps=each * len(self.stages()))
        return dataclasses.replace(self, amounts=amounts)

    def stages(self) -> list[Stage]:
        """What is trained one after the other; trained parameters need no other stage than the last."""
        return self.architecture.stages(self.target.build())[-1 if self.objective.model else 0 :]

    def table(self) -> dict[str, Any]:
        """As one flat table."""
        return {"target": self.theory.name, "network": self.architecture.name} | super().table()

    @property
    def label(self) -> str:
        """The layers."""
        return f"{self.kind}-{self.architecture.name}"

    def build(self, *, resuming: bool = False) -> "tuple[Algorithm, Trajectory, dict[str, Path]]":
        """The inputs of Algorithm 1, in the precision that JAX is set to, and the files that they come from.

        The parameters of a run that goes on come from its checkpoint: the model once started from may be gone.
        """
        from dlhmc.models.model import Model
        from dlhmc.run.needs import require_room

        algorithm = self.algorithms()[0]
        # Networks that see all of a target that is too large would take the memory before anything is refused.
        require_room(algorithm.target, self.amounts.chains)
        first = self.stages()[0].architecture
        trajectory = built(first, algorithm.target, self.amounts.seed)
        if self.objective.model is None or resuming:
            return algorithm, trajectory, {}
        model, target = Model.open(self.objective.model), self.target.build()
        model.require_target(self.theory.name, self.target)
        like = self.architecture.before(model.architecture)
        model.require_architecture(like)
        trained = model.trajectory(target, built(like, target, self.amounts.seed))
        return algorithm, self.architecture.grown(trained, target), {"model": model.path}

    def algorithms(self) -> "list[Algorithm]":
        """One for each stage; their schedules count the steps of the whole training."""
        from dlhmc.training import Algorithm, Knots

        stages, objective = self.stages(), self.objective
        _, loss = registry.loss_for(self.target.build(), objective.loss)
        found, begun = [], 0
        annealed = annealings(stages, self.amounts.total, objective.gamma_start or 1.0, objective.anneal)
        for stage, gamma, end in zip(stages, annealed, stage_ends(self.amounts.total, len(stages)), strict=True):
            schedules: dict[str, Schedule] = {"gamma": gamma}
            if knots := objective.gamma_knots:
                times = (fraction * self.amounts.total for fraction in knots[0::2])
                schedules["gamma"] = Knots(list(zip(times, knots[1::2], strict=True)))
            schedules |= self.schedules.schedules(self.target, begun + round(objective.anneal * (end - begun)))
            optimiser = adam(self.optimiser, end - begun)
            found.append(Algorithm(stage.target, schedules["gamma"], loss.function, optimiser))
            begun = end
        return found

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

        from dlhmc.models.model import describe
        from dlhmc.run.directory import Place
        from dlhmc.run.driver import PLAIN
        from dlhmc.run.training import train
        from dlhmc.training import LaterStage

        target = {"name": self.theory.name} | dataclasses.asdict(self.target)
        description = describe(self.architecture, target)
        with jax.enable_x64(self.amounts.float64):
            algorithm, trajectory, _ = self.build(resuming=resuming)
            place = Place(path, self.table(), resuming)
            stages = zip(self.algorithms(), self.stages(), strict=True)
            later = [LaterStage(algorithm, stage.architecture.grown) for algorithm, stage in stages][1:]
            work = functools.partial(train, algorithm, trajectory, self.amounts, description, place, console)
            return work(options or PLAIN, later=later)

    def estimate(self, console: "Console") -> None:
        """Print what the run would take."""
        import jax

        from dlhmc.run.training import estimate

        with jax.enable_x64(self.amounts.float64):
            algorithm, trajectory, _ = self.build()
            estimate(algorithm, trajectory, dataclasses.replace(self.amounts, burn_in=0), console)


def annealings(stages: list[Stage], steps: int, gamma: float, fraction: float) -> "list[Knots]":
    """γ in each stage, which rises during a fraction of it from where it was; it counts the steps of all."""
    from dlhmc.training import Knots

    found, begun, before = [], 0, gamma * stages[0].gamma
    for stage, end in zip(stages, stage_ends(steps, len(stages)), strict=True):
        until = max(begun + round(fraction * (end - begun)), begun + 1)
        found.append(Knots([(begun, before), (until, stage.gamma)]))
        begun, before = end, stage.gamma
    return found


def given(settings: S, **defaults: Any) -> S:
    """The settings, with these values where nothing was given."""
    missing = {name: value for name, value in defaults.items() if getattr(settings, name) is None}
    return dataclasses.replace(settings, **missing)


def architecture_for(target: "Target", name: str | None) -> type[Architecture]:
    """The layers of that name, or the first that suit the target; those that cannot be built for it are refused."""
    fitting = [name for name, kind in registry.architectures().items() if kind.suits(target)]
    kind = registry.architecture(fitting[0] if name is None else name)
    if not kind.suits(target):
        raise UserError(
            f"{kind.name} layers ({kind.meaning}) are not for this target: use "
            f"{Setting('network')} {' or '.join(fitting)}."
        )
    return kind


def adam(settings: OptimiserSettings, steps: int) -> "optax.GradientTransformation":
    """Adam with clipping, a warm-up of the learning rate, and its decay."""
    import optax

    from dlhmc.training import learning_rate

    if settings.learning_rate is None:
        raise TypeError("the learning rate has not been settled yet")
    rate = learning_rate(settings.rate_schedule, settings.learning_rate, steps, settings.rate_warmup)
    return optax.chain(optax.clip_by_global_norm(settings.clip), optax.adam(rate))


def built(architecture: Architecture, target: "Target", seed: int) -> "Trajectory":
    """New layers; the seed is that of the run."""
    return drawn(lambda key: architecture.build(target, key), seed)


def drawn(build: "Callable[[Any], Trajectory]", seed: int) -> "Trajectory":
    """What a function builds with the key for new layers."""
    import equinox as eqx
    import jax.numpy as jnp
    import numpy as np

    from dlhmc.numerics import rng
    from dlhmc.numerics.leaves import integer

    @eqx.filter_jit
    def built(seed: Any) -> Any:
        return build(rng.step_key(seed, rng.Purpose.MODEL, jnp.zeros((), jnp.uint32)))

    return cast("Trajectory", built(integer(seed, np.uint32)))
