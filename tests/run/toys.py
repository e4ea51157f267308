"""Runs that compile in a moment: two Gaussian numbers, and HMC of a single step."""

import dataclasses
import io
import signal

import numpy as np
from rich.console import Console

import dlhmc
from dlhmc.names import Start
from dlhmc.run.directory import Place
from dlhmc.run.driver import ExecutionOptions
from dlhmc.run.engine import Measurements
from dlhmc.run.sampling import Sampler, sample
from dlhmc.run.settings import SampleAmounts

TARGET = dlhmc.Gaussian([1.0, 2.0])
START: Start = "hot"


def hmc(step_size=0.5):
    return dlhmc.HMC(TARGET, step_size, 1)


def amounts(**changes):
    return SampleAmounts(**{"chains": 4, "trajectories": 20, "warmup": 10, "start": START} | changes)


def sampler(**changes):
    return Sampler(**{"kernel": hmc(), "tune": True, "measured": Measurements(temperature=True)} | changes)


def place(path, of, resuming=False):
    return None if path is None else Place(path, {"objects": "toy", "run": dataclasses.asdict(of)}, resuming)


def go(path=None, resuming=False, what=None, progress=None, screen=None, **changes):
    """A run of these amounts, in memory or in a directory."""
    of = amounts(**changes)
    options = ExecutionOptions(quiet=progress is None and screen is None, progress=progress)
    console = Console(file=screen or io.StringIO(), width=1000)
    return sample(what or sampler(), of, place(path, of, resuming), console, options)


def interrupt(step):
    """A callback that sends Ctrl-C at a step."""

    def stop(done, *_):
        if done >= step:
            signal.raise_signal(signal.SIGINT)

    return stop


def arrays(work):
    found = {name: np.asarray(array[:]) for name, array in work.history.arrays.items()}
    return found | {"x": np.asarray(work.carry.state.x), "log_step": np.asarray(work.carry.tuner.log_average)}


def assert_same(one, other):
    """Bit for bit: every history and the final state."""
    first, second = arrays(one), arrays(other)
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.dtype == second[name].dtype
        assert array.tobytes() == second[name].tobytes(), name
