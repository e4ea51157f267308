"""Sampling from Python."""

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from numpy.typing import ArrayLike

from dlhmc.api.running import Progress, conclude, is_double, place_for, shown
from dlhmc.errors import ExitCode, UserError
from dlhmc.kernels import Kernel
from dlhmc.names import Start
from dlhmc.run import sampling
from dlhmc.run.describe import describe_kernel
from dlhmc.run.engine import Measurements
from dlhmc.run.samples import Samples
from dlhmc.run.sampling import Sampler
from dlhmc.run.settings import SampleAmounts
from dlhmc.targets.contract import Observable
from dlhmc.testing import check_observable


def sample(
    kernel: Kernel,
    *,
    chains: int = 128,
    trajectories: int = 1000,
    warmup: int = 200,
    seed: int = 1,
    start: Start | str | Path | ArrayLike | None = None,
    tune: float | None = None,
    observables: Mapping[str, Observable] | None = None,
    temperature_every: int = 100,
    keep_configurations: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    devices: int | None = None,
    time_limit: float | None = None,
    progress: Progress = True,
) -> Samples:
    """Sample with a kernel: HMC, a trained one, or your own.

    Args:
        kernel: what makes the trajectories; it knows its target.
        chains: Markov chains side by side.
        trajectories: measured in each chain, after the warm-up.
        warmup: trajectories before the first measurement.
        seed: root of all random numbers.
        start: first configurations: exact draws, hot, cold or near equilibrium; exact ones where the target has them,
            else hot, or near for learned kernels. Or one configuration for all chains, or one for each x[…, chain], as
            an array or the path of a file.
        tune: the acceptance that the step size is tuned to during the warm-up; None leaves it as it is.
        observables: functions of x[…, chain] that give numbers for each chain, by name, measured beside the target's.
        temperature_every: trajectories between two measurements of the configurational temperature, which is 1 for a
            smooth action; 0 for none.
        keep_configurations: configurations of each chain to keep, evenly spaced.
        out: new directory for the run; without one, nothing is left on disk.
        resume: go on with the run in `out`, which must have had the same arguments; it may get more trajectories.
        devices: devices that share the chains.
        time_limit: seconds after which the run stops by itself, and returns what it has measured.
        progress: a live line, nothing, or a function that is called instead.

    Ctrl-C (or the notebook's stop button) saves, then raises a KeyboardInterrupt with what has been measured as its
    `result`.

    >>> from dlhmc import HMC, Gaussian
    >>> samples = sample(HMC(Gaussian([1.0, 2.0]), 0.3, 4), chains=64, trajectories=50, progress=False)
    >>> dict(samples.data.sizes)
    {'chain': 64, 'trajectory': 50}
    """
    for name, function in (observables or {}).items():
        check_observable(function, kernel.target, name)
    if tune is not None and kernel.tunable_step_size() is None:
        raise UserError("This kernel has no step size to tune: leave out tune.")
    is_array = not (start is None or isinstance(start, str | Path))
    amounts = SampleAmounts(
        chains=chains,
        trajectories=trajectories,
        warmup=warmup,
        seed=seed,
        start=None if start is None or is_array else str(start),
        target_acceptance=tune,
        temperature_every=temperature_every,
        keep_configurations=keep_configurations,
        float64=is_double(),
    )
    measured = Measurements(tuple((observables or {}).items()), temperature=temperature_every > 0)
    sampler = Sampler(kernel, tune is not None, measured, start=start if is_array else None)
    described = {"objects": describe_kernel(kernel)["kernel"], "tune": sampler.tune}
    options, console = shown(progress, devices, time_limit)
    place = place_for(out, {**described, "run": dataclasses.asdict(amounts)}, resume=resume)
    work, code = sampling.sample(sampler, amounts, place, console, options)
    result = Samples(work.so_far.data.load()) if work.measured else None
    if code == ExitCode.ALARM and result is not None:
        warnings.warn(" ".join(result.histories.alarms()), stacklevel=2)
    if result is None and code == ExitCode.TIME_OVER:
        raise UserError("The time limit came before the first measurement: give the run more time.")
    return cast(Samples, conclude(result, code, f"{work.measured} of {trajectories} trajectories", out))
