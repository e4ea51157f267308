"""Who takes part: HMC on a grid of integrators, lengths and step sizes; with hits; exact draws; learned samplers."""

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dlhmc.comparison.config import CompareConfig, ObjectCompareConfig
from dlhmc.comparison.cost import trajectory_cost
from dlhmc.kernels import DLHMC, HMC, Exact, Info, Kernel, State
from dlhmc.kernels.integrators import INTEGRATORS
from dlhmc.kernels.tuning import StepSizeTuner
from dlhmc.models import model as models
from dlhmc.names import Scheme
from dlhmc.numerics.leaves import integer, leaf
from dlhmc.runs import targets
from dlhmc.runs.engine import Carry, Schedule, advance, begin
from dlhmc.runs.sampling import learned_kernel
from dlhmc.targets.contract import ExactDraws, Field, Target
from dlhmc.theories.u1.hits import InstantonHits

Kind = Literal["hmc", "hits", "exact", "model"]
_FIRST_GUESS_OF_STEP_SIZE = 0.1
_TUNING_TRAJECTORIES = 120
# A tuner that has lost its way must not spend minutes on a trajectory.
_MOST_STEPS = 2000
_ACCEPTANCE_WITH_HITS = 0.8


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A sampler with a name, and what a trajectory of it costs."""

    name: str
    kind: Kind
    kernel: Kernel
    leapfrog_steps: int
    forces: int
    network_flops: int = 0
    integrator: str | None = None
    length: float | None = None
    step_size: float | None = None
    model: str | None = None


class GridPoint(NamedTuple):
    """An HMC to be: its step size is given, or tuned to an acceptance."""

    integrator: Scheme
    length: float
    step_size: float | None
    acceptance: float
    hits: int

    @property
    def label(self) -> str:
        """For the progress line."""
        wanted = f"acceptance {self.acceptance:g}" if self.step_size is None else f"step size {self.step_size:g}"
        return f"{self.integrator} of length {self.length:g}, {wanted}"


class OfLength(Kernel):
    """HMC whose trajectories keep their length when the step size is tuned: the number of steps follows."""

    target: Target
    hmc: HMC
    length: Float[Array, ""]

    def step(self, key: Array, state: State) -> tuple[State, Info]:
        """One trajectory of every chain."""
        return self.hmc.step(key, state)

    def tunable_step_size(self) -> Float[Array, ""]:
        """The step size of the integrator."""
        return self.hmc.step_size

    def with_step_size(self, step_size: Float[Array, ""]) -> "OfLength":
        """About this step size, so that a whole number of steps makes the length."""
        steps = jnp.clip(jnp.round(self.length / step_size), 1, _MOST_STEPS)
        hmc = HMC(self.target, self.length / steps, steps.astype(jnp.int32), self.hmc.integrator)
        return OfLength(self.target, hmc, self.length)


def grid(config: CompareConfig | ObjectCompareConfig) -> Iterator[GridPoint]:
    """All HMC, plain and with hits; step sizes to be tuned still."""
    tuned = [(None, acceptance) for acceptance in config.acceptances]
    given = [(size, 0.0) for size in config.step_sizes]
    for integrator, length, (size, acceptance) in itertools.product(config.integrators, config.lengths, given or tuned):
        yield GridPoint(integrator, length, size, acceptance, 0)
    if config.hits:
        # One step size is enough here.
        size, acceptance = given[0] if given else (None, _ACCEPTANCE_WITH_HITS)
        for length in config.hit_lengths:
            yield GridPoint(config.integrators[0], length, size, acceptance, config.hits)


def settle(point: GridPoint, target: Target, x: Field, seed: int) -> Contestant:
    """The HMC of a grid point; where its step size is to be tuned, by trajectories from x on."""
    scheme = INTEGRATORS[point.integrator]
    step_size = point.step_size or _tune(point, target, x, seed, _TUNING_TRAJECTORIES)[0]
    steps = min(_MOST_STEPS, max(1, round(point.length / step_size)))
    step_size = point.length / steps
    kernel: Kernel = HMC(target, step_size, np.int32(steps), scheme)
    name = f"{point.integrator} {point.length:g}/{steps}"
    if point.hits:
        kernel, name = InstantonHits(kernel, point.hits), f"{name} + {point.hits} hit{'s' if point.hits > 1 else ''}"
    return Contestant(
        name,
        "hits" if point.hits else "hmc",
        kernel,
        steps,
        steps * scheme.forces_per_step + 1,
        integrator=point.integrator,
        length=point.length,
        step_size=step_size,
    )


def equilibrated(target: Target, length: float, chains: int, seed: int, trajectories: int) -> Field:
    """Configurations of a target without exact draws: trajectories of HMC that is tuned on the way, from hot ones."""
    point = GridPoint("leapfrog", length, None, _ACCEPTANCE_WITH_HITS, 0)
    x = begin(
        HMC(target, _FIRST_GUESS_OF_STEP_SIZE, np.int32(1)), None, integer(seed, np.uint32), "hot", chains
    ).state.x
    return _tune(point, target, x, seed, trajectories)[1]


def _tune(point: GridPoint, target: Target, x: Field, seed: int, trajectories: int) -> tuple[float, Field]:
    """The step size for the wanted acceptance, and where the chains are after the trajectories that it took."""
    guess = HMC(target, _FIRST_GUESS_OF_STEP_SIZE, np.int32(1), INTEGRATORS[point.integrator])
    kernel = OfLength(target, guess, leaf(point.length)).with_step_size(leaf(_FIRST_GUESS_OF_STEP_SIZE))
    number = integer(trajectories)
    schedule = Schedule(integer(seed, np.uint32), number, jnp.asarray(point.acceptance, float))
    carry = Carry(kernel.init(x), StepSizeTuner.start(jnp.asarray(kernel.tunable_step_size())))
    carry, _ = advance(kernel, schedule, carry, integer(0), number, trajectories, True)
    return float(carry.tuner.result), carry.state.x


def exact_contestant(target: Target, draws: ExactDraws) -> Contestant:
    """Independent configurations: the best that any sampler can do."""
    return Contestant("exact draws", "exact", Exact(target, draws), 0, 0)


def learned_contestants(config: CompareConfig, target: Target) -> list[Contestant]:
    """The samplers of trained models; a file that does not fit is refused here."""
    contestants = []
    short = [Path(model).stem if Path(model).is_file() else Path(model).name for model in config.model]
    for model, name in zip(config.model, short, strict=True):
        targets.require_target_of_model(models.find(model), "u1", config.lattice)
        label = f"model {name if short.count(name) == 1 else model}"
        contestants.append(dataclasses.replace(contestant_of(label, learned_kernel(model, target)), model=model))
    return contestants


def contestant_of(name: str, kernel: Kernel) -> Contestant:
    """A kernel that is given as it is."""
    steps = kernel.leapfrog_steps
    if isinstance(kernel, DLHMC):
        cost = trajectory_cost(kernel.trajectory, kernel.target)
        return Contestant(name, "model", kernel, steps, cost.forces, cost.flops)
    if isinstance(kernel, HMC):
        length, size = steps * float(kernel.step_size), float(kernel.step_size)
        forces = steps * kernel.integrator.forces_per_step + 1
        return Contestant(name, "hmc", kernel, steps, forces, length=length, step_size=size)
    return Contestant(name, "exact" if isinstance(kernel, Exact) else "model", kernel, steps, 0)
