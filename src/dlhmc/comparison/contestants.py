"""Who takes part: HMC on a grid of integrators, lengths and step sizes; exact draws; whatever kernels are given."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np

from dlhmc.comparison.cost import network_flops
from dlhmc.comparison.settings import CompareSettings
from dlhmc.geometry.contract import Field
from dlhmc.kernels import DLHMC, HMC, Alternating, Exact, Kernel
from dlhmc.names import Scheme
from dlhmc.numerics.leaves import integer, leaf
from dlhmc.run.engine import Schedule, advance, begin, begin_at
from dlhmc.targets.contract import ExactDraws, Target

#: HMC; the same with a theory's hand-made moves; independent configurations; learned ones and all others
Kind = Literal["hmc", "move", "exact", "model"]
_FIRST_GUESS_OF_STEP_SIZE = 0.1
TUNING_TRAJECTORIES = 120
# Until equilibrium, where there are no exact draws.
_FROM_HOT, _FROM_NEAR = 500, 60
_ACCEPTANCE_ON_THE_WAY = 0.8


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
    #: the kind of layers, where there is a model
    network: str | None = None


class GridPoint(NamedTuple):
    """An HMC to be: its step size is given, or tuned to an acceptance."""

    integrator: Scheme
    length: float
    step_size: float | None
    acceptance: float
    #: as of `HMC`
    inner_steps: int | None = None
    #: of the target, as the theory names it
    form: str = ""

    @property
    def label(self) -> str:
        """For the progress line."""
        wanted = f"acceptance {self.acceptance:g}" if self.step_size is None else f"step size {self.step_size:g}"
        return f"{self.integrator} of length {self.length:g}, {wanted}{self.form}"


class Tuned(Protocol):
    """Samplers that have to be tuned before the race."""

    @property
    def number(self) -> int:
        """How many contestants there will be."""

    def contestants(
        self, target: Target, settings: CompareSettings, start: Callable[[int], Field], seeds: Sequence[int]
    ) -> list[Contestant]:
        """The samplers; `start(seed)` gives configurations in equilibrium, and there are `number` seeds."""


@dataclasses.dataclass(frozen=True)
class InTurn:
    """After each trajectory of HMC some proposals of a learned kernel, for each of a few lengths of HMC."""

    name: str
    proposals: Kernel
    each: int
    lengths: Sequence[float]
    model: str | None = None
    network: str | None = None

    @property
    def number(self) -> int:
        """One for each length."""
        return len(self.lengths)

    def contestants(
        self, target: Target, settings: CompareSettings, start: Callable[[int], Field], seeds: Sequence[int]
    ) -> list[Contestant]:
        """HMC of the first integrator, tuned by itself."""
        plain = stirring(self.lengths, target, settings, start, seeds)
        label = f"{self.each}× {self.name}"
        turns = [(one, Alternating(one.kernel, self.proposals, self.each)) for one in plain]
        found = [with_moves(one, label, kernel, "model") for one, kernel in turns]
        return [dataclasses.replace(one, model=self.model, network=self.network) for one in found]


def stirring(
    lengths: Sequence[float],
    target: Target,
    settings: CompareSettings,
    start: Callable[[int], Field],
    seeds: Sequence[int],
) -> list[Contestant]:
    """HMC of the first integrator for each length: it moves what moves that follow leave as it is."""
    # One step size is enough here.
    size = settings.step_sizes[0] if settings.step_sizes else None
    inner = settings.inner_steps[0] if settings.inner_steps else None
    points = [GridPoint(settings.integrators[0], length, size, _ACCEPTANCE_ON_THE_WAY, inner) for length in lengths]
    return [settle(point, target, start(seed), seed) for point, seed in zip(points, seeds, strict=True)]


def with_moves(plain: Contestant, label: str, kernel: Kernel, kind: Kind = "move") -> Contestant:
    """HMC with moves that follow each of its trajectories."""
    steps, forces = kernel.leapfrog_steps, kernel.forces
    name = f"{plain.name} + {label}"
    return dataclasses.replace(plain, name=name, kind=kind, kernel=kernel, leapfrog_steps=steps, forces=forces)


def grid(settings: CompareSettings, forms: Iterable[str] = ("",)) -> Iterator[GridPoint]:
    """All HMC, on the target in these forms; step sizes to be tuned still."""
    tuned = [(None, acceptance) for acceptance in settings.acceptances]
    given = [(size, 0.0) for size in settings.step_sizes]
    inner = settings.inner_steps or (None,)
    for form, integrator, length, step, fast in itertools.product(
        forms, settings.integrators, settings.lengths, given or tuned, inner
    ):
        yield GridPoint(integrator, length, *step, fast, form)


def settle(point: GridPoint, target: Target, x: Field, seed: int) -> Contestant:
    """The HMC of a grid point; where its step size is to be tuned, by trajectories from x on."""
    step_size = point.step_size or _tune(point, target, x, seed, TUNING_TRAJECTORIES)[0]
    kernel = _hmc(point, target, step_size)
    steps = kernel.leapfrog_steps
    name = f"{point.integrator} {point.length:g}/{steps}"
    if point.inner_steps is not None:
        name += f"×{point.inner_steps}"
    name += point.form
    return dataclasses.replace(
        contestant_of(name, kernel), integrator=point.integrator, length=point.length, step_size=point.length / steps
    )


def equilibrated(target: Target, length: float, chains: int, seed: int) -> Field:
    """Configurations of a target without exact draws: trajectories of HMC that is tuned on the way.

    From approximate draws, where there are any, else from hot configurations.
    """
    point = GridPoint("leapfrog", length, None, _ACCEPTANCE_ON_THE_WAY)
    kernel, draws = _hmc(point, target, _FIRST_GUESS_OF_STEP_SIZE), target.known.approximate_draws(target)
    x = begin(kernel, draws, integer(seed, np.uint32), "hot", chains).state.x
    return _tune(point, target, x, seed, _FROM_HOT if draws is None else _FROM_NEAR)[1]


def _hmc(point: GridPoint, target: Target, step_size: float) -> HMC:
    return HMC(target, step_size, integrator=point.integrator, length=point.length, inner_steps=point.inner_steps)


def _tune(point: GridPoint, target: Target, x: Field, seed: int, trajectories: int) -> tuple[float, Field]:
    """The step size for the wanted acceptance, and where the chains are after the trajectories that it took."""
    kernel = _hmc(point, target, _FIRST_GUESS_OF_STEP_SIZE)
    number = integer(trajectories)
    schedule = Schedule(integer(seed, np.uint32), number, leaf(point.acceptance))
    carry, _ = advance(kernel, schedule, begin_at(kernel, x), integer(0), number, trajectories, True)
    return float(carry.tuner.result), carry.state.x


def exact_contestant(target: Target, draws: ExactDraws) -> Contestant:
    """Independent configurations: the best that any sampler can do."""
    return contestant_of("exact draws", Exact(target, draws))


def contestant_of(name: str, kernel: Kernel, model: str | None = None, network: str | None = None) -> Contestant:
    """A kernel that is given as it is; `model` is the file that it comes from, `network` the kind of its layers."""
    steps, size = kernel.leapfrog_steps, kernel.tunable_step_size()
    step_size = None if size is None else float(size)
    return Contestant(
        name,
        _kind(kernel),
        kernel,
        steps,
        kernel.forces,
        network_flops(kernel) if isinstance(kernel, DLHMC) else 0,
        length=steps * step_size if step_size is not None and steps else None,
        step_size=step_size,
        model=model,
        network=network,
    )


def _kind(kernel: Kernel) -> Kind:
    if isinstance(kernel, HMC):
        return "hmc"
    if isinstance(kernel, Exact):
        return "exact"
    # Kernels that add moves to another one are described as that one, and more.
    return "move" if kernel.describe()["kernel"] == HMC.name else "model"
