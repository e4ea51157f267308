"""Runs on 1, 2 and 4 devices in one process, for test_devices.py; prints what it finds as JSON."""

import dataclasses
import hashlib
import io
import json
import re
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import xarray
from rich.console import Console
from safetensors.numpy import load_file

from dlhmc.errors import UserError
from dlhmc.geometry import Torus
from dlhmc.models import model as models
from dlhmc.models.files import find
from dlhmc.numerics.devices import spread
from dlhmc.numerics.leaves import integer
from dlhmc.run import sampling, training
from dlhmc.run.driver import ExecutionOptions
from dlhmc.spec.sampling import SampleSpec
from dlhmc.spec.training import TrainSpec
from dlhmc.targets import Target
from dlhmc.training import Inputs, advance

OUT = Path(sys.argv[-1])
NUMBERS = (1, 2, 4)
LATTICE = {"lattice": (4, 4), "beta": 2.0, "chains": 8, "seed": 3}
SAMPLING = LATTICE | {"trajectories": 12, "warmup": 6, "leapfrog_steps": 3, "start": "cold"}
TRAINING = LATTICE | {"steps": 100, "leapfrog_steps": 2, "burn_in": 2, "start": "cold"}
WINDOWS = {"network": "local", "hidden": (4,), "window": 2}


def quiet(devices, time_limit=None, split_lattice=1):
    return ExecutionOptions(devices, split_lattice, time_limit, quiet=True)


def console():
    return Console(file=io.StringIO())


def history(path):
    with xarray.open_zarr(path / "history.zarr") as store:
        return {str(name): array.values for name, array in store.variables.items()}


def digest(arrays):
    return hashlib.sha256(b"".join(arrays[name].tobytes() for name in sorted(arrays))).hexdigest()


def sampled(name, settings, numbers):
    found, plan = {}, SampleSpec.of(SAMPLING | settings)
    for number in numbers:
        path = OUT / f"{name}-{number}"
        plan.run(path, console(), quiet(number))
        found[number] = digest(history(path))
    _, carry = sampling.prepare(plan.build()[0], plan.amounts, quiet(4))
    return {"histories": found, "devices": len(carry.state.x.sharding.device_set)}


def parameters(path):
    return {name: array for name, array in load_file(find(str(path))).items() if array.dtype.kind == "f"}


def trained():
    found, plan = {}, TrainSpec.of(TRAINING | WINDOWS)
    for number in (1, 4):
        path = OUT / f"train-{number}"
        plan.run(path, console(), quiet(number))
        found[number] = np.concatenate([array.ravel() for array in parameters(path).values()])
    return float(np.linalg.norm(found[4] - found[1]) / np.linalg.norm(found[1]))


class DrawingTorus(Torus):
    """With random numbers that know nothing of chains."""

    def momentum(self, key, x):
        return jax.random.normal(key, x.shape, x.dtype)


def drawing(target):
    return Target(DrawingTorus(target.geometry.sides), target.actions, target.observables, target.known, target.gamma)


def messages():
    """What a training step sends, and how far its records are from those of one device, for two numbers of chains.

    With 8 chains each device has two of them. With 4 it has one, and directions are drawn for pairs. A target that
    draws by itself, without knowing of chains, must not draw the same on each device.
    """
    found = {}
    for name, chains in (("pairs", 8), ("single", 4), ("drawing", 8)):
        plan = TrainSpec.of(TRAINING | WINDOWS | {"chains": chains})
        records = {}
        for number in (1, 4):
            algorithm, trajectory, *_ = plan.build()
            devices, state = training.prepare(algorithm, trajectory, plan.amounts, quiet(number))
            if name == "drawing":
                algorithm = dataclasses.replace(algorithm, target=drawing(algorithm.target))
            inputs = Inputs(algorithm, integer(plan.amounts.seed, np.uint32), integer(0), integer(10))
            with devices.active():
                program = advance.lower(inputs, state, 10).compile()
                _, records[number] = program(inputs, state, 10)
        sent = re.findall(r"= (.+) (all-reduce|all-gather|all-to-all|collective-permute)\(", program.compiled.as_text())
        far = max(float(np.abs(records[4][name] - records[1][name]).max()) for name in records[1])
        found[name] = {"sent": [f"{operation} {shape}" for shape, operation in sent], "difference": far}
    return found


def resumed(before, after):
    """Stopped at once by the time limit, taken up elsewhere: as if nothing had happened."""
    path = OUT / f"resumed-{before}-{after}"
    SampleSpec.of(SAMPLING | {"chunk": 5}).run(path, console(), quiet(before, 0.0))
    SampleSpec.resume(path, console(), quiet(after))
    return digest(history(path)) == digest(history(OUT / "hmc-1"))


def split(name, settings):
    """Each lattice on four devices: the largest difference of any record in a few trajectories, and what is sent."""
    plan = SampleSpec.of(SAMPLING | {"trajectories": 3, "warmup": 0, "step_size": 0.2} | settings)
    found = []
    for number in (1, 4):
        path = OUT / f"split-{name}-{number}"
        plan.run(path, console(), quiet(number, split_lattice=number))
        found.append(history(path))
    difference = max(float(np.abs(found[0][key] - found[1][key]).max()) for key in found[0])
    sampler = plan.build()[0]
    devices, carry = sampling.prepare(sampler, plan.amounts, quiet(4, split_lattice=4))

    def step(kernel, key, x):
        state, info = kernel.step(key, kernel.init(spread(x)))
        return spread(state.x), info

    with devices.active():
        program = eqx.filter_jit(step).lower(sampler.kernel, jax.random.key(0), carry.state.x).compile()
    sent = re.findall(r"= (\S+?)\{\S* (all-gather|all-to-all|collective-permute)\(", program.compiled.as_text())
    shapes = sorted({f"{operation} {shape}" for shape, operation in sent})
    return {"difference": difference, "sent": shapes, "strip": list(carry.state.x.addressable_shards[0].data.shape)}


def unequal():
    try:
        SampleSpec.of(SAMPLING | {"chains": 6}).run(OUT / "unequal", console(), quiet(4))
    except UserError as error:
        return str(error)
    return ""


def without_networks():
    SampleSpec.of(SAMPLING).run(OUT / "hmc-1", console(), quiet(1))
    return {
        "resumed": {"4 to 1": resumed(4, 1), "1 to 4": resumed(1, 4)},
        "unequal": unequal(),
        "split": split("hmc", {"lattice": (8, 4)}),
    }


def with_networks():
    # Both directions at once, which deal chains out in pairs.
    dense = TrainSpec.of(TRAINING | {"steps": 1, "network": "dense", "hidden": (8,)})
    algorithm, trajectory, *_ = dense.build()
    _, state = training.prepare(algorithm, trajectory, dense.amounts)
    description = models.describe(dense.architecture, {"name": "u1", "lattice": (4, 4), "beta": 2.0})
    models.save(OUT / "dense.safetensors", state.trajectory, description)
    return {
        "training": trained(),
        "windows": sampled("windows", {"model": str(OUT / "train-1"), "hits": 1}, (1, 4)),
        "dense": sampled("dense", {"model": str(OUT / "dense.safetensors")}, (1, 4)),
        "split": split("windows", {"lattice": (8, 4), "model": str(OUT / "train-1")}),
    }


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 4)  # before JAX starts, which imports do not
    parts = {
        "bits": lambda: sampled("hmc", {}, NUMBERS),
        "hmc": without_networks,
        "matrices": lambda: split("matrices", {"target": "su2", "lattice": (8, 4), "keep_configurations": 1}),
        "networks": with_networks,
        "messages": messages,
    }
    found = parts[sys.argv[1]]()
    sys.stdout.write(json.dumps(found) + "\n")
