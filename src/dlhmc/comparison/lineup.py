"""Who takes part: HMC on a grid, hand-made moves, exact draws, and learned samplers, alone or in turn with HMC."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from dlhmc.comparison.settings import CompareSettings
from dlhmc.errors import Setting, UserError
from dlhmc.geometry.contract import Field
from dlhmc.kernels import HMC, Alternating, Exact, Kernel
from dlhmc.names import Scheme
from dlhmc.numerics.leaves import integer, leaf
from dlhmc.run.engine import Schedule, advance, begin, begin_at
from dlhmc.targets import Target
from dlhmc.theories.gauge.fermions import has_fermions, with_hasenbusch
from dlhmc.theories.gauge.heatbath import HeatBath, HeatBathDraws
from dlhmc.theories.u1.hits import InstantonHits, has_instantons

#: HMC; hand-made moves, alone or after HMC; independent configurations; learned samplers and all others
Kind = Literal["hmc", "move", "exact", "model"]
#: initial configurations in equilibrium, for a seed
Start = Callable[[int], Field]

_FIRST_GUESS_OF_STEP_SIZE = 0.1
_TUNING_TRAJECTORIES = 120
# Until equilibrium, where there are no exact draws.
_FROM_HOT, _FROM_NEAR = 500, 60
# Of HMC that only stirs what others leave as it is.
_ACCEPTANCE_OF_STIRRING = 0.8
# Actions where the determinant is not split: one of pseudofermions and one of plaquettes.
_UNSPLIT = 2


@dataclasses.dataclass(frozen=True)
class Competitor:
    """A sampler. Those of a group differ in their settings alone, so that the best of them counts."""

    group: str
    settings: str
    kind: Kind
    kernel: Kernel
    #: the file or run of its layers, where it has some
    model: str | None = None

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.group}, {self.settings}" if self.settings else self.group


@dataclasses.dataclass(frozen=True)
class Learned:
    """A learned kernel, alone or with so many trajectories after each of HMC."""

    name: str
    kernel: Kernel
    each: int = 0
    #: its file or run
    model: str | None = None


def equilibrium(target: Target, settings: CompareSettings) -> Start:
    """Exact draws; without them HMC, tuned on the way, from the best initial configurations that are known."""
    draws = target.exact_draws()
    if draws is not None:
        exact = Exact(target, draws)
        return lambda seed: begin(exact, draws, integer(seed, np.uint32), "exact", settings.chains).state.x
    near = target.known.approximate_draws(target)
    hmc = HMC(target, _FIRST_GUESS_OF_STEP_SIZE, length=settings.lengths[0])
    x = begin(hmc, near, integer(settings.seed, np.uint32), "hot", settings.chains).state.x
    trajectories = _FROM_HOT if near is None else _FROM_NEAR
    x = _tune(hmc, x, _ACCEPTANCE_OF_STIRRING, settings.seed, trajectories)[1]
    return lambda seed: x  # random numbers soon lead the chains of different samplers apart


def line_up(
    target: Target, settings: CompareSettings, learned: Sequence[Learned], start: Start, seeds: Iterator[int]
) -> Iterator[Competitor]:
    """All samplers that suit the target, tuned."""
    draws = target.exact_draws()
    if settings.exact and draws is not None:
        yield Competitor("exact draws", "", "exact", Exact(target, draws))
    if HeatBathDraws.of(target) is not None:
        for sweeps in settings.overrelaxations:
            yield Competitor("heat bath", f"{sweeps} overrelaxation sweeps", "move", HeatBath(target, sweeps))
    for one in learned:
        if not one.each:
            yield Competitor(one.name, "", "model", one.kernel, one.model)
    yield from _grid(target, settings, start, seeds)
    yield from _with_moves(target, settings, learned, start, seeds)


def _grid(target: Target, settings: CompareSettings, start: Start, seeds: Iterator[int]) -> Iterator[Competitor]:
    """HMC; two points that come to the same number of steps are one."""
    names = set()
    forms, inner = _forms(target, settings.hasenbusch_grid), settings.inner_steps or (None,)
    points = itertools.product(forms.items(), settings.integrators, settings.lengths, settings.acceptances, inner)
    for (form, split), integrator, length, acceptance, inner_steps in points:
        hmc = _tuned(split, integrator, length, acceptance, inner_steps, start, next(seeds))
        steps = f"{int(hmc.steps)} steps" + (f" × {inner_steps}" if inner_steps else "")
        competitor = Competitor("HMC", f"{integrator}, length {length:g}, {steps}{form}", "hmc", hmc)
        if competitor.name not in names:
            yield competitor
        names.add(competitor.name)


def require_suitable(target: Target, settings: CompareSettings) -> None:
    """Refuse what makes no sense for the target, before anything is tuned."""
    _forms(target, settings.hasenbusch_grid)
    if settings.hits and not has_instantons(target):
        raise UserError(f"{Setting('hits')} are for angles in two dimensions: leave them out.")


def _forms(target: Target, grid: Sequence[float]) -> dict[str, Target]:
    """The target with its determinant split by each heavier mass, by what names end with."""
    if not grid:
        return {"": target}
    if not has_fermions(target) or len(target.actions) > _UNSPLIT:
        raise UserError(f"{Setting('hasenbusch_grid')} is for fermions without {Setting('hasenbusch')}: give one.")
    return {f", μ = {mu:g}" if mu else "": with_hasenbusch(target, (mu,) if mu else ()) for mu in grid}


def _with_moves(
    target: Target, settings: CompareSettings, learned: Sequence[Learned], start: Start, seeds: Iterator[int]
) -> Iterator[Competitor]:
    """Short trajectories of HMC, which stir what hits and windows leave as it is, each followed by those."""
    in_turn = [one for one in learned if one.each]
    hits = (1 if settings.hits is None else settings.hits) if has_instantons(target) else 0
    group = f"HMC and {hits} instanton hit{'s' if hits > 1 else ''}"
    if not in_turn and not hits:
        return
    for length in settings.stirring_lengths:
        hmc = _tuned(target, settings.integrators[0], length, _ACCEPTANCE_OF_STIRRING, None, start, next(seeds))
        if hits:
            yield Competitor(group, f"length {length:g}", "move", InstantonHits(hmc, hits))
        for one in in_turn:
            both = Alternating(hmc, one.kernel, one.each)
            yield Competitor(f"{one.name}, in turn with HMC", f"length {length:g}", "model", both, one.model)


def _tuned(
    target: Target,
    integrator: Scheme,
    length: float,
    acceptance: float,
    inner_steps: int | None,
    start: Start,
    seed: int,
) -> HMC:
    hmc = HMC(target, _FIRST_GUESS_OF_STEP_SIZE, integrator=integrator, length=length, inner_steps=inner_steps)
    return _tune(hmc, start(seed), acceptance, seed, _TUNING_TRAJECTORIES)[0]


def _tune(hmc: HMC, x: Field, acceptance: float, seed: int, trajectories: int) -> tuple[HMC, Field]:
    """With the step size for an acceptance, and where chains from x are after so many trajectories."""
    number = integer(trajectories)
    schedule = Schedule(integer(seed, np.uint32), number, leaf(acceptance))
    carry, _ = advance(hmc, schedule, begin_at(hmc, x), integer(0), number, trajectories, True)
    return hmc.with_step_size(carry.tuner.result), carry.state.x
