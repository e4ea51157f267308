"""What a comparison is told, whatever the theory. Free of heavy imports."""

import dataclasses
from typing import Annotated

from msgspec import Meta

from dlhmc.errors import Setting, UserError
from dlhmc.names import Scheme
from dlhmc.settings import Advanced, Count, Positive, Probability, Seed, Settings

Lengths = Annotated[tuple[Positive, ...], Meta(min_length=1)]


@dataclasses.dataclass(frozen=True)
class CompareSettings(Settings):
    """The samplers to compare, and how precisely."""

    integrators: Annotated[tuple[Scheme, ...], Meta(min_length=1)] = ("leapfrog", "omelyan")
    """integrators of HMC"""
    lengths: Lengths = (1.0, 2.0, 4.0)
    """trajectory lengths of HMC: number of steps times their size"""
    acceptances: tuple[Probability, ...] = (0.6, 0.8, 0.9)
    """acceptances that the step size of HMC is tuned to, each a point of the grid for each length"""
    step_sizes: Advanced[tuple[Positive, ...]] = ()
    """step sizes of HMC, in place of acceptances"""
    inner_steps: Advanced[tuple[Count, ...]] = ()
    """steps of a fast part of the force for each of a slow one, points of the grid; one that suits if not given"""
    exact: Advanced[bool] = True
    """compare with independent exact configurations, where the target has them"""
    chains: Annotated[int, Meta(ge=2, le=10**7)] = 128
    """Markov chains side by side, each from a start in equilibrium"""
    precision: Probability = 0.1
    """relative error of τ_int at which a sampler has been measured"""
    budget: Positive = 300.0
    """seconds after which the race ends, measured or not; compiling and tuning come before"""
    seed: Seed = 1
    """root of all random numbers"""
    float64: bool = False
    """double precision"""

    def __post_init__(self) -> None:
        """HMC needs steps of some size."""
        super().__post_init__()
        if not self.acceptances and not self.step_sizes:
            either = f"{Setting('acceptances')} or {Setting('step_sizes')}"
            raise UserError(f"HMC needs a step size: give {either}.")
