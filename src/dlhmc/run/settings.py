"""How much of a run there is to be: the settings that every run has, whatever it samples or trains.

Free of heavy imports.
"""

import dataclasses
from pathlib import Path
from typing import Self

from dlhmc.errors import Setting, UserError
from dlhmc.names import STARTS, RateSchedule, Start
from dlhmc.settings import Advanced, Amount, Chains, Count, Positive, Probability, Seed, Settings


@dataclasses.dataclass(frozen=True)
class SampleAmounts(Settings):
    """All that determines the numbers of a sampling run beside its kernel."""

    chains: Chains = 128
    """Markov chains side by side"""
    trajectories: Count = 10_000
    """trajectories measured in each chain"""
    warmup: Amount = 500
    """trajectories before, in which the step is tuned"""
    seed: Seed = 1
    """root of all random numbers"""
    start: Start | str | None = None
    """exact, near (equilibrium), hot, cold or a file; else the best that the target has"""
    target_acceptance: Advanced[Probability | None] = None
    """acceptance the step size is tuned to; what suits the target if not given"""
    measure_every: Advanced[Count] = 10
    """trajectories between two measurements of expensive observables, where there are any; rows between repeat them"""
    temperature_every: Advanced[Amount] = 100
    """trajectories between two measurements of the configurational temperature, 1 for smooth actions; 0 for none"""
    keep_configurations: Amount = 0
    """configurations of each chain to keep"""
    float64: bool = False
    """double precision"""
    chunk: Advanced[Count | None] = None
    """trajectories between two checkpoints; adapted to about a second if not given"""

    def __post_init__(self) -> None:
        """No more configurations than trajectories."""
        super().__post_init__()
        fine = self.keep_configurations <= self.trajectories
        self.require(fine, "keep_configurations", "from 0 to the number of trajectories")
        if self.start is not None and self.start not in STARTS:
            if not Path(self.start).exists():
                names = ", ".join(STARTS)
                raise UserError(f"There is no file {self.start}: {Setting('start')} is one of {names}, or a file.")
            # By a name that means the same in every directory.
            object.__setattr__(self, "start", str(Path(self.start).absolute()))

    def extended(self, trajectories: int) -> Self:
        """With more trajectories, and configurations kept as often as before."""
        kept, rest = divmod(self.keep_configurations * trajectories, self.trajectories)
        spacing = f"a multiple of {self.trajectories}, because configurations are kept evenly spaced"
        dataclasses.replace(self, trajectories=trajectories).require(rest == 0, "trajectories", spacing)
        return dataclasses.replace(self, trajectories=trajectories, keep_configurations=kept)

    def require_warmup(self) -> None:
        """A step size is tuned during the warm-up."""
        if self.warmup == 0:
            either = f"{Setting('warmup')} above 0 or a {Setting('step_size')}"
            raise UserError(f"The step size is tuned during the warm-up: give {either}.")


@dataclasses.dataclass(frozen=True)
class TrainAmounts(Settings):
    """All that determines the numbers of a training run beside the algorithm and the layers."""

    chains: Chains = 64
    """Markov chains in a batch"""
    steps: Count | None = None
    """training steps, else what suits the layers"""
    seed: Seed = 1
    """root of all random numbers"""
    burn_in: Advanced[Amount] = 100
    """trajectories before training, at the first couplings"""
    start: Advanced[Start | None] = None
    """first configurations: exact draws, hot, cold or near equilibrium; the best that the target has, if not given"""
    float64: bool = False
    """double precision"""
    chunk: Advanced[Count | None] = None
    """steps between two checkpoints; adapted to about a second if not given"""
    tensorboard: Advanced[bool] = False
    """also write TensorBoard files, into the folder tensorboard of the run"""
    wandb: Advanced[bool] = False
    """also write the metrics for Weights & Biases: offline, unless WANDB_MODE says otherwise"""

    @property
    def total(self) -> int:
        """The steps, once they are known."""
        if self.steps is None:
            raise TypeError("the number of steps has not been settled yet")
        return self.steps

    def extended(self, steps: int) -> Self:
        """With more steps: schedules are those of a training of that length."""
        return dataclasses.replace(self, steps=steps)


def stage_ends(steps: int, stages: int) -> list[int]:
    """After which step of the training each stage ends."""
    return [steps * (index + 1) // stages for index in range(stages)]


@dataclasses.dataclass(frozen=True)
class OptimiserSettings(Settings):
    """Adam, and how its learning rate changes."""

    learning_rate: Positive | None = None
    """largest learning rate of Adam, else what suits"""
    rate_schedule: Advanced[RateSchedule] = "cosine"
    """how the learning rate goes on after its warm-up"""
    rate_warmup: Advanced[Amount] = 50
    """steps during which the learning rate rises from 0"""
    clip: Advanced[Positive] = 1.0
    """largest norm of the gradient; a longer one is shortened"""
