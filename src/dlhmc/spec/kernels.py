"""From the table [sampler] to a kernel; what does not suit the target is refused."""

from pathlib import Path
from typing import TYPE_CHECKING

from dlhmc.errors import Setting, UserError
from dlhmc.kernels import HMC, Alternating, Exact, Kernel
from dlhmc.run.configurations import exact_draws
from dlhmc.targets import Target

if TYPE_CHECKING:
    from dlhmc.spec.sampling import SamplerSettings


def build_kernel(sampler: "SamplerSettings", target: Target, guess: float) -> tuple[Kernel, dict[str, Path]]:
    """The kernel, and the files that it comes from; `guess` is a step size to be tuned."""
    kernel, inputs = _named(sampler, target, guess)
    return add_hits(kernel, sampler.hits), inputs


def _named(sampler: "SamplerSettings", target: Target, guess: float) -> tuple[Kernel, dict[str, Path]]:
    if sampler.kernel == "exact":
        return Exact(target, exact_draws(target)), {}
    if sampler.kernel == "heatbath":
        return _heat_bath(target, sampler.overrelaxation), {}
    step_size = sampler.step_size or guess
    hmc = HMC(target, step_size, sampler.leapfrog_steps, sampler.integrator, inner_steps=sampler.inner_steps)
    if sampler.model is None:
        return hmc, {}
    from dlhmc.models.model import Model

    model = Model.open(sampler.model)
    learned = model.kernel(target)
    moves = int(learned.trajectory.acts_in_windows) if sampler.alternate is None else sampler.alternate
    return Alternating(hmc, learned, moves) if moves else learned, {"model": model.path}


def _heat_bath(target: Target, overrelaxation: int) -> Kernel:
    from dlhmc.theories.gauge.heatbath import HeatBath
    from dlhmc.theories.gauge.known import wilson_coupling
    from dlhmc.theories.u1.hits import has_instantons

    if has_instantons(target):
        raise UserError(f"The {Setting('kernel')} heatbath is not for angles in two dimensions: use exact.")
    if wilson_coupling(target) is None:
        raise UserError(f"The {Setting('kernel')} heatbath is for gauge fields with the action wilson alone.")
    try:
        return HeatBath(target, overrelaxation)
    except ValueError as error:
        raise UserError(f"Here {error}: change ", Setting("lattice"), " or ", Setting("kernel"), ".") from None


def add_hits(kernel: Kernel, number: int) -> Kernel:
    """The kernel with instanton hits after each of its steps."""
    if not number:
        return kernel
    from dlhmc.theories.u1.hits import InstantonHits, has_instantons

    if not has_instantons(kernel.target):
        raise UserError(
            f"{Setting('hits')} are for angles in two dimensions with a function of the plaquette for action: leave "
            "them out."
        )
    return InstantonHits(kernel, number)
