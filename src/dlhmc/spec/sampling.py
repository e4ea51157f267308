"""A sampling run: target, sampler, measurements, amounts."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from dlhmc.errors import Setting, UserError
from dlhmc.models.files import absolute
from dlhmc.names import Scheme
from dlhmc.run.settings import SampleAmounts
from dlhmc.settings import Advanced, Amount, Count, Listed, Positive, Settings
from dlhmc.spec.machine import Machine
from dlhmc.spec.spec import Spec
from dlhmc.theories.contract import Occasional, Theory

if TYPE_CHECKING:
    from rich.console import Console

    from dlhmc.errors import ExitCode
    from dlhmc.run.driver import ExecutionOptions
    from dlhmc.run.sampling import Sampler, Sampling

KERNELS = ("hmc", "exact", "heatbath", "dlhmc")
_FIRST_GUESS_OF_STEP_SIZE = 0.1


@dataclasses.dataclass(frozen=True)
class SamplerSettings(Settings):
    """Which kernel: the table [sampler]."""

    kernel: str = "hmc"
    """hmc, exact, or heatbath (gauge fields)"""
    leapfrog_steps: Count = 20
    """integrator steps in a trajectory of HMC"""
    step_size: Positive | None = None
    """size of an integrator step; tuned if not given"""
    integrator: Scheme = "leapfrog"
    """leapfrog, or omelyan (minimum norm)"""
    inner_steps: Advanced[Count | None] = None
    """steps of a fast part of the force for each of a slow one; what suits the target if not given"""
    overrelaxation: Annotated[Amount, Listed(ability="heat bath")] = 4
    """overrelaxation sweeps after each heat-bath sweep"""
    hits: Annotated[Amount, Listed(ability="hits")] = 0
    """instanton hits after each trajectory, in two dimensions"""
    model: str | None = None
    """training run, file, or a name of 'dlhmc models'"""
    alternate: Advanced[Amount | None] = None
    """with a model: learned trajectories after each of HMC, 0 for them alone; 1 for windows if not given"""

    def __post_init__(self) -> None:
        """A model makes the kernel a learned one."""
        super().__post_init__()
        self.require(self.kernel in KERNELS, "kernel", f"one of {', '.join(KERNELS)}")
        if (self.kernel == "dlhmc") != (self.model is not None):
            if self.kernel != "hmc":
                either = f"{Setting('model')} or {Setting('kernel')}"
                raise UserError(f"A learned kernel needs a model and others have none: give {either}.")
            object.__setattr__(self, "kernel", "dlhmc")
        if self.alternate is not None and self.model is None:
            raise UserError(
                f"{Setting('alternate')} is for learned trajectories: give a {Setting('model')}, or leave it out."
            )
        if self.model is not None:
            object.__setattr__(self, "model", absolute(self.model))


@dataclasses.dataclass(frozen=True)
class SampleSpec(Spec):
    """All of it."""

    kind: ClassVar[str] = "sample"

    sampler: SamplerSettings
    measure: Occasional
    amounts: SampleAmounts
    machine: Machine

    @classmethod
    def tables(cls, theory: Theory, network: str | None) -> dict[str, type[Settings]]:
        """The classes of settings by field."""
        return {
            "target": theory.settings,
            "sampler": SamplerSettings,
            "measure": Occasional,
            "amounts": SampleAmounts,
            "machine": Machine,
        }

    @property
    def label(self) -> str:
        """Kernel and moves."""
        return self.sampler.kernel + (f"-hits{self.sampler.hits}" if self.sampler.hits else "")

    @property
    def seed(self) -> int:
        """Root of all random numbers."""
        return self.amounts.seed

    def longer(self, trajectories: int) -> Self:
        """The same with another number of trajectories."""
        return dataclasses.replace(self, amounts=self.amounts.extended(trajectories))

    def build(self) -> "tuple[Sampler, dict[str, Path]]":
        """Target and kernel, in the precision that JAX is set to, and the files that they come from."""
        from dlhmc.run.engine import Measurements
        from dlhmc.run.sampling import Sampler
        from dlhmc.spec.kernels import build_kernel

        target = self.target.build()
        kernel, inputs = build_kernel(self.sampler, target, _FIRST_GUESS_OF_STEP_SIZE)
        tune = self.sampler.step_size is None and kernel.tunable_step_size() is not None
        measured = Measurements(
            occasional=self.measure.observables(target), temperature=self.amounts.temperature_every > 0
        )
        return Sampler(kernel, tune, measured, self.measure.notes(), what=self.target.describe()), inputs

    def run(
        self,
        path: Path,
        console: "Console",
        options: "ExecutionOptions | None" = None,
        *,
        resuming: bool = False,
    ) -> "tuple[Sampling, ExitCode]":
        """Do it, in a directory."""
        import jax

        from dlhmc.run.directory import Place
        from dlhmc.run.driver import PLAIN
        from dlhmc.run.sampling import sample

        with jax.enable_x64(self.amounts.float64):
            sampler, _ = self.build()
            place = Place(path, self.to_tables(), resuming)
            return sample(sampler, self.amounts, place, console, options or PLAIN)

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

        spec, directory = cls.reopened(path), RunDirectory(path)
        with jax.enable_x64(spec.amounts.float64):
            sampler, _ = spec.build()
            return check_run(sampler, spec.amounts, directory, console)
