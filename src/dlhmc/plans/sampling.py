"""A sampling run of the command line: theory, sampler, moves, amounts."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dlhmc.errors import Setting, UserError
from dlhmc.names import Scheme
from dlhmc.plans.plan import LongPlan
from dlhmc.plans.tables import absolute
from dlhmc.run.settings import SampleAmounts
from dlhmc.settings import Advanced, Amount, Count, Positive, Settings
from dlhmc.theories.contract import Moves, Occasional, Theory

if TYPE_CHECKING:
    from rich.console import Console

    from dlhmc.errors import ExitCode
    from dlhmc.run.driver import ExecutionOptions
    from dlhmc.run.sampling import Sampler, Sampling

_KERNELS = ("hmc", "exact", "dlhmc")
_FIRST_GUESS_OF_STEP_SIZE = 0.1


@dataclasses.dataclass(frozen=True)
class SamplerSettings(Settings):
    """Which kernel."""

    section: ClassVar[str] = "sampler"

    kernel: str = "hmc"
    """hmc, or exact for independent configurations; dlhmc with a model; or a kernel made for the target"""
    leapfrog_steps: Count = 20
    """integrator steps in a trajectory of HMC"""
    step_size: Positive | None = None
    """size of an integrator step; tuned if not given"""
    integrator: Scheme = "leapfrog"
    """leapfrog, or omelyan (second-order minimum norm)"""
    inner_steps: Advanced[Count | None] = None
    """steps of a fast part of the force for each of a slow one; what suits the target if not given"""
    model: str | None = None
    """training run or model file to sample with; then the kernel is dlhmc"""
    alternate: Advanced[Amount | None] = None
    """with a model: learned trajectories after each of HMC, 0 for them alone; 1 for windows if not given"""

    def __post_init__(self) -> None:
        """A model makes the kernel a learned one."""
        super().__post_init__()
        if (self.kernel == "dlhmc") != (self.model is not None):
            if self.kernel != "hmc":
                either = f"{Setting('model')} or {Setting('kernel')}"
                raise UserError(f"A learned kernel needs a model and others have none: give {either}.")
            object.__setattr__(self, "kernel", "dlhmc")
        if self.alternate is not None and self.model is None:
            raise UserError(
                f"{Setting('alternate')} is for learned trajectories: give a {Setting('model')}, or leave it out."
            )
        object.__setattr__(self, "model", absolute(self.model))


@dataclasses.dataclass(frozen=True)
class SamplePlan(LongPlan):
    """All of it."""

    kind: ClassVar[str] = "sample"

    sampler: SamplerSettings
    moves: Moves
    occasional: Occasional
    amounts: SampleAmounts

    def __post_init__(self) -> None:
        """A kernel of this theory."""
        known = (*_KERNELS, *self.moves.kernels)
        self.sampler.require(self.sampler.kernel in known, "kernel", f"one of {', '.join(known)}")

    @staticmethod
    def parts(theory: Theory, table: Mapping[str, Any]) -> dict[str, type[Settings]]:
        """The classes of settings, by the field that holds them."""
        return {
            "sampler": SamplerSettings,
            "target": theory.settings,
            "moves": theory.moves,
            "occasional": theory.occasional,
            "amounts": SampleAmounts,
        }

    @property
    def label(self) -> str:
        """Kernel and moves."""
        return "-".join(filter(None, (self.sampler.kernel, self.moves.label)))

    def build(self) -> "tuple[Sampler, dict[str, Path]]":
        """Target and kernel, in the precision that JAX is set to, and the files that they come from."""
        from dlhmc.kernels import HMC, Alternating, Exact, Kernel
        from dlhmc.models.model import Model
        from dlhmc.run.configurations import start_from_file
        from dlhmc.run.engine import Measurements
        from dlhmc.run.sampling import Sampler, exact_draws

        target, settings = self.target.build(), self.sampler
        inputs: dict[str, Path] = {}
        kernel: Kernel
        step_size = _FIRST_GUESS_OF_STEP_SIZE if settings.step_size is None else settings.step_size
        hmc = HMC(target, step_size, settings.leapfrog_steps, settings.integrator, inner_steps=settings.inner_steps)
        if settings.kernel == "exact":
            kernel = Exact(target, exact_draws(target))
        elif settings.kernel in self.moves.kernels:
            kernel = self.moves.kernel(settings.kernel, target)
        elif settings.model is not None:
            model = Model.open(settings.model)
            model.require_target(self.theory.name, self.target)
            learned, inputs = model.kernel(target), {"model": model.path}
            moves = int(learned.trajectory.acts_in_windows) if settings.alternate is None else settings.alternate
            kernel = Alternating(hmc, learned, moves) if moves else learned
        else:
            kernel = hmc
        tune = settings.step_size is None and kernel.tunable_step_size() is not None
        start = None
        if (file := self.amounts.start_file) is not None:
            start = functools.partial(start_from_file, file, target, self.amounts.chains)
            inputs = inputs | {"start": file}
        measured = Measurements(
            occasional=self.occasional.observables(target), temperature=self.amounts.temperature_every > 0
        )
        return Sampler(self.moves.applied(kernel), tune, measured, self.occasional.notes(), start), inputs

    def run(
        self,
        path: Path,
        console: "Console",
        options: "ExecutionOptions | None" = None,
        *,
        resuming: bool = False,
        show_results: bool = True,
    ) -> "tuple[Sampling, ExitCode]":
        """Do it, in a directory."""
        import jax

        from dlhmc.run.directory import Place
        from dlhmc.run.driver import PLAIN
        from dlhmc.run.sampling import sample

        with jax.enable_x64(self.amounts.float64):
            sampler, _ = self.build()
            place = Place(path, self.table(), resuming)
            return sample(sampler, self.amounts, place, console, options or PLAIN, show_results=show_results)

    def estimate(self, console: "Console") -> None:
        """Print what the run would take."""
        import jax

        from dlhmc.run.sampling import estimate

        with jax.enable_x64(self.amounts.float64):
            estimate(self.build()[0], self.amounts, console)

    @classmethod
    def check(cls, path: Path, console: "Console") -> "tuple[ExitCode, dict[str, Any]]":
        """The rounding errors of a run, finished or not, at its last checkpoint."""
        import jax

        from dlhmc.run.directory import RunDirectory
        from dlhmc.run.sampling import check_run

        plan, directory = cls.reopened(path), RunDirectory(path)
        with jax.enable_x64(plan.amounts.float64):
            sampler, _ = plan.build()
            return check_run(sampler, plan.amounts, directory, console)
