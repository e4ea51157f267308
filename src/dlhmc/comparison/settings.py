"""What is compared, and how precisely: the table [compare]. Free of heavy imports."""

import dataclasses
from typing import Annotated

from msgspec import Meta

from dlhmc.models.files import absolute, find
from dlhmc.names import Scheme
from dlhmc.settings import Advanced, Amount, Count, Listed, Positive, Probability, Seed, Settings

Lengths = Annotated[tuple[Positive, ...], Meta(min_length=1)]
HeavierMasses = tuple[Annotated[float, Meta(ge=0, le=1e4)], ...]


@dataclasses.dataclass(frozen=True)
class CompareSettings(Settings):
    """Learned samplers, HMC on a grid, and samplers made by hand where they suit the target."""

    model: tuple[str, ...] = ()
    """training runs, model files or shipped models"""
    alternate: Amount | None = None
    """learned trajectories after each of HMC, 0 for them alone; if not given, alone, and in windows also 1"""
    integrators: Annotated[tuple[Scheme, ...], Meta(min_length=1)] = ("leapfrog", "omelyan", "omelyan4")
    """integrators of HMC"""
    lengths: Lengths = (1.0, 2.0, 4.0)
    """trajectory lengths of HMC: number of steps times their size"""
    acceptances: Annotated[tuple[Probability, ...], Meta(min_length=1)] = (0.6, 0.8, 0.9)
    """acceptances that the step size of HMC is tuned to"""
    stirring_lengths: Advanced[Lengths] = (0.5, 1.0)
    """trajectory lengths of HMC with hits or in turn with windows, which only has to stir what these leave as it is"""
    inner_steps: Advanced[tuple[Count, ...]] = ()
    """steps of a fast part of the force for each of a slow one, points of the grid; one that suits if not given"""
    hasenbusch_grid: Annotated[HeavierMasses, Listed(advanced=True, ability="splitting")] = ()
    """heavier masses of Hasenbusch's splitting, points of the grid of HMC; 0 for none"""
    hits: Annotated[Amount | None, Listed(ability="hits")] = None
    """instanton hits after each trajectory of HMC, in two dimensions; 1 if not given, 0 to leave it out"""
    overrelaxations: Annotated[tuple[Amount, ...], Listed(ability="heat bath")] = (0, 4)
    """overrelaxation sweeps after each heat-bath sweep, a sampler for each; none to leave it out"""
    exact: Advanced[bool] = True
    """compare with independent exact configurations, where the target has them"""
    chains: Annotated[int, Meta(ge=2, le=10**7)] = 128
    """Markov chains side by side, each from an initial configuration in equilibrium"""
    precision: Probability = 0.1
    """relative error of τ_int at which a sampler has been measured"""
    budget: Positive = 300.0
    """seconds after which the comparison ends, measured or not; compiling and tuning come before"""
    seed: Seed = 1
    """root of all random numbers"""
    float64: bool = False
    """double precision"""

    def __post_init__(self) -> None:
        """Names mean the same in every directory."""
        super().__post_init__()
        for name in self.model:
            find(name)
        object.__setattr__(self, "model", tuple(map(absolute, self.model)))
