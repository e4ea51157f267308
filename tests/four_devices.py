"""Runs on 1, 2 and 4 devices in one process, for test_devices.py; prints what it finds as JSON."""

import dataclasses
import hashlib
import io
import json
import sys
from pathlib import Path

import jax
import numpy as np
import xarray
from rich.console import Console

from dlhmc import models
from dlhmc.errors import UserError
from dlhmc.runs import sampling, targets, training
from dlhmc.runs.config import SampleConfig, TrainConfig
from dlhmc.runs.loop import Conditions

OUT = Path(sys.argv[-1])
NUMBERS = (1, 2, 4)
LATTICE = {"lattice": (4, 4), "beta": 2.0, "chains": 8, "seed": 3}
SAMPLING = LATTICE | {"trajectories": 12, "warmup": 6, "leapfrog_steps": 3, "start": "cold"}
TRAINING = LATTICE | {"steps": 100, "leapfrog_steps": 2, "burn_in": 2, "start": "cold"}
RADII = (0.0, 1.0, 2.0)


def quiet(devices, time_limit=None):
    return Conditions(devices, time_limit, quiet=True)


def console():
    return Console(file=io.StringIO())


def history(path):
    with xarray.open_zarr(path / "history.zarr") as store:
        return {str(name): array.values for name, array in store.variables.items()}


def digest(arrays):
    return hashlib.sha256(b"".join(arrays[name].tobytes() for name in sorted(arrays))).hexdigest()


def sampled(name, settings, numbers):
    found = {}
    for number in numbers:
        path = OUT / f"{name}-{number}"
        sampling.sample(SampleConfig(**SAMPLING | settings), path, console(), quiet(number))
        found[number] = digest(history(path))
    _, carry = sampling._prepare(SampleConfig(**SAMPLING | settings), quiet(4))
    return found, len(carry.state.x.sharding.device_set)


def parameters(path):
    with np.load(models.find(str(path)), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files if archive[name].dtype.kind == "f"}


def trained():
    found = {}
    for number in (1, 4):
        path = OUT / f"train-{number}"
        training.train(TrainConfig(**TRAINING, network="defect", radii=RADII), path, console(), quiet(number))
        found[number] = np.concatenate([array.ravel() for array in parameters(path).values()])
    return float(np.linalg.norm(found[4] - found[1]) / np.linalg.norm(found[1]))


def resumed(before, after):
    """Stopped at once by the time limit, taken up elsewhere: as if nothing had happened."""
    path = OUT / f"resumed-{before}-{after}"
    config = SampleConfig(**SAMPLING | {"chunk": 5})
    sampling.sample(config, path, console(), quiet(before, 0.0))
    sampling.resume(path, console(), quiet(after))
    return digest(history(path)) == digest(history(OUT / "hmc-1"))


def unequal():
    try:
        sampling.sample(SampleConfig(**SAMPLING | {"chains": 6}), OUT / "unequal", console(), quiet(4))
    except UserError as error:
        return str(error)
    return ""


def main():
    # Both directions at once, which deal chains out in pairs.
    dense = TrainConfig(**TRAINING | {"steps": 1}, network="dense", hidden=(8,))
    algorithm, draws = training.plan(dense)
    state = training.begin_state(dense, algorithm, draws)
    description = {"model": dataclasses.asdict(training.model_config(dense)), "target": targets.describe(dense)}
    models.save(OUT / "dense.npz", state.trajectory, description | {"symmetric": False})

    difference = trained()
    kernels = {
        "hmc": ({}, (1, 2, 4)),
        "defect": ({"model": str(OUT / "train-1"), "hits": 1}, (1, 4)),
        "dense": ({"model": str(OUT / "dense.npz")}, (1, 4)),
    }
    sampling_found = {name: sampled(name, *settings) for name, settings in kernels.items()}
    result = {
        "training": difference,
        "sampling": {name: histories for name, (histories, _) in sampling_found.items()},
        "devices": {name: number for name, (_, number) in sampling_found.items()},
        "resumed": {"4 to 1": resumed(4, 1), "1 to 4": resumed(1, 4)},
        "unequal": unequal(),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 4)  # before JAX starts, which imports do not
    main()
