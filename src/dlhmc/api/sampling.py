"""Sampling from Python."""

import math
import warnings
from collections.abc import Mapping
from pathlib import Path

from dlhmc.api.running import Progress, is_double, run_directory, shown, start_of
from dlhmc.errors import UserError, in_words_of_python
from dlhmc.kernels import Kernel
from dlhmc.kernels.watching import Watching
from dlhmc.names import Start
from dlhmc.results.samples import Samples, dataset, run_attributes
from dlhmc.runs.config import ObjectSampleConfig
from dlhmc.runs.describe import describe_kernel, fingerprint
from dlhmc.runs.sampling import sample_objects
from dlhmc.targets.watched import Observable
from dlhmc.testing import check_observable


@in_words_of_python()
def sample(
    kernel: Kernel,
    *,
    chains: int = 128,
    trajectories: int = 1000,
    warmup: int = 200,
    seed: int = 1,
    start: Start | None = None,
    tune: float | None = None,
    observables: Mapping[str, Observable] | None = None,
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
        start: first configurations: exact draws, hot or cold; exact ones where the target has them, else hot.
        tune: the acceptance that the step size is tuned to during the warm-up; None leaves it as it is.
        observables: functions of x[…, chain] that give a number for each chain, by name, measured beside the target's.
        keep_configurations: configurations of each chain to keep, evenly spaced.
        out: new directory for the run; without one, nothing is left on disk.
        resume: go on with the run in `out`, which must have had the same arguments.
        devices: devices that share the chains.
        time_limit: seconds after which the run stops by itself.
        progress: a live line, nothing, or a function that is called instead.

    A run that is stopped (Ctrl-C, the notebook's stop button, the time limit) returns what it has measured.

    >>> from dlhmc.theories.u1.action import U1
    >>> from dlhmc.kernels import HMC
    >>> samples = sample(HMC(U1((4, 4), beta=2.0), 0.3, 4), chains=64, trajectories=50, progress=False)
    >>> dict(samples.data.sizes)
    {'chain': 64, 'trajectory': 50}
    """
    target = kernel.target
    if observables:
        for name, function in observables.items():
            check_observable(function, target, name)
        kernel = Watching.more(kernel, observables)
    if tune is not None and kernel.tunable_step_size() is None:
        raise UserError("This kernel has no step size to tune: leave out tune.")
    config = ObjectSampleConfig(
        kernel=describe_kernel(kernel)["kernel"],
        chains=chains,
        trajectories=trajectories,
        warmup=warmup,
        seed=seed,
        tune=tune is not None,
        target_acceptance=0.8 if tune is None else tune,
        start=start_of(target, start),
        keep_configurations=keep_configurations,
        float64=is_double(),
        fingerprint=fingerprint(kernel),
    )
    conditions, console = shown(progress, devices, time_limit)
    with run_directory(out, resume=resume) as path:
        work, _ = sample_objects(kernel, config, path, console, conditions, resuming=resume)
        if work.measured == 0:
            raise UserError("The run was stopped before its first measurement.")
        step_size = None if math.isnan(work.step_size) else work.step_size
        data = dataset(work.history, work.measured, run_attributes(work.seconds, step_size))
    if work.measured < trajectories:
        again = "" if out is None else f"; go on with resume=True and out={str(out)!r}"
        warnings.warn(f"stopped after {work.measured} of {trajectories} trajectories{again}", stacklevel=2)
    return Samples(data)
