"""Runs on 1, 2 and 4 devices in one process, for test_devices.py; prints what it finds as JSON."""

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
from dlhmc.runs import sampling, training
from dlhmc.runs.config import SampleConfig, TrainConfig
from dlhmc.runs.loop import Conditions

jax.config.update("jax_num_cpu_devices", 4)  # before JAX starts, which imports do not
OUT = Path(sys.argv[1])
NUMBERS = (1, 2, 4)
LATTICE = {"lattice": (4, 4), "beta": 2.0, "chains": 8, "seed": 3}
SAMPLING = LATTICE | {"trajectories": 12, "warmup": 6, "leapfrog_steps": 3, "start": "cold"}
TRAINING = LATTICE | {"steps": 100, "leapfrog_steps": 2, "burn_in": 2, "start": "cold"}
NETWORKS = {"defect": {"radii": (0.0, 1.0, 2.0)}, "dense": {"hidden": (8,)}}


def quiet(devices, time_limit=None):
    return Conditions(devices, time_limit, quiet=True)


def console():
    return Console(file=io.StringIO())


def history(path):
    with xarray.open_zarr(path / "history.zarr") as store:
        return {str(name): array.values for name, array in store.variables.items()}


def digest(arrays):
    return hashlib.sha256(b"".join(arrays[name].tobytes() for name in sorted(arrays))).hexdigest()


def sampled(name, settings):
    found = {}
    for number in NUMBERS:
        path = OUT / f"{name}-{number}"
        sampling.sample(SampleConfig(**SAMPLING | settings), path, console(), quiet(number))
        found[number] = digest(history(path))
    _, carry = sampling._prepare(SampleConfig(**SAMPLING | settings), quiet(4))
    return found, len(carry.state.x.sharding.device_set)


def parameters(path):
    with np.load(models.find(str(path)), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files if archive[name].dtype.kind == "f"}


def trained(network):
    settings = TRAINING | {"network": network} | NETWORKS[network]
    found = {}
    for number in NUMBERS:
        path = OUT / f"train-{network}-{number}"
        training.train(TrainConfig(**settings), path, console(), quiet(number))
        found[number] = parameters(path)
    one = np.concatenate([array.ravel() for array in found[1].values()])
    differences = {}
    for number in NUMBERS[1:]:
        other = np.concatenate([array.ravel() for array in found[number].values()])
        differences[number] = float(np.linalg.norm(other - one) / np.linalg.norm(one))
    return differences


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


training_found = {network: trained(network) for network in NETWORKS}
kernels = {
    "hmc": {},
    "hits": {"hits": 1},
    "defect": {"model": str(OUT / "train-defect-1")},
    "dense": {"model": str(OUT / "train-dense-1")},
}
sampling_found = {name: sampled(name, settings) for name, settings in kernels.items()}
result = {
    "training": training_found,
    "sampling": {name: histories for name, (histories, _) in sampling_found.items()},
    "devices": {name: number for name, (_, number) in sampling_found.items()},
    "resumed": {"4 to 1": resumed(4, 1), "1 to 4": resumed(1, 4)},
    "unequal": unequal(),
}
sys.stdout.write(json.dumps(result) + "\n")
