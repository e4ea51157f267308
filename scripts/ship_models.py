"""Put models into the package with what was measured: those of a reproduction, or the one that a run samples with.

dlhmc reproduce --preset cpu --out OUT
python scripts/ship_models.py OUT

dlhmc sample --model RUN --lattice 16 16 --chains 128 --trajectories 2000 --out SAMPLES
python scripts/ship_models.py SAMPLES NAME
"""

import dataclasses
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from dlhmc.models.model import Model, describe, save
from dlhmc.report.comparisons import ComparedRun
from dlhmc.theories import registry
from dlhmc.theories.u1.theory import U1Theory


def main(out: Path, folder: Path) -> None:
    """One file for each coupling and number of layers."""
    for path in sorted(out.glob("compare-b*")):
        comparison = ComparedRun.open(path)
        for entry in comparison.of_kind("model"):
            model = Model.open(str(out / Path(entry.model or "").name))
            theory, _ = model.target_settings
            measured = {
                "acceptance": entry.acceptance,
                "plaquette": dict(entry.observables["plaquette"]),
                "charge_squared": dict(entry.observables["charge_squared"]),
                "tau_int_charge": dict(entry.tau_int["charge"]),
                "tau_int_sine_charge": dict(entry.tau_int["sine_charge"]),
                "chains": comparison.results.chains,
                "trajectories": entry.trajectories,
            }
            # The name of a model says its number of layers, if that is not the default.
            is_default = entry.leapfrog_steps == type(model.architecture)().leapfrog_steps
            layers = "" if is_default else f"-n{entry.leapfrog_steps}"
            name = f"{theory}-b{comparison.results.target['beta']:g}{layers}.npz"
            ship(model, measured, folder / name)


def ship(model: Model, measured: dict[str, Any], path: Path) -> None:
    """A file with the trained layers, what they were trained for, and what was measured with them."""
    theory, settings = model.target_settings
    target = {"name": theory} | dataclasses.asdict(settings)
    described = describe(model.architecture, target, symmetric=model.description["symmetric"])
    more = {"training": model.description["training"], "measured": measured}
    save(path, model.trajectory(settings.build()), described | more)


def ship_one(samples: Path, name: str) -> None:
    """The model that a run sampled with."""
    summary = json.loads((samples / "summary.json").read_text())
    model = Model.open(tomllib.loads((samples / "config.toml").read_text())["model"])
    names = ("acceptance", "plaquette", "charge_squared", "tau_int_charge", "chains", "trajectories", "lattice")
    folder = registry.theory(model.target_settings[0]).models
    if folder is None:
        raise SystemExit(f"no models come with the theory {model.target_settings[0]}")
    folder.mkdir(exist_ok=True)
    ship(model, {key: summary[key] for key in names}, folder / f"{name}.npz")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        ship_one(Path(sys.argv[1]), sys.argv[2])
    else:
        main(Path(sys.argv[1]), U1Theory.models)
