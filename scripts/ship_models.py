"""Put the models of a reproduction into the package, each with what its comparison measured.

dlhmc reproduce --preset cpu --out OUT
python scripts/ship_models.py OUT
"""

import dataclasses
import sys
from pathlib import Path

from dlhmc.models.model import Model, describe, save
from dlhmc.report.comparisons import ComparedRun
from dlhmc.theories.u1.theory import U1Theory


def main(out: Path, folder: Path) -> None:
    """One file for each coupling and number of layers."""
    for path in sorted(out.glob("compare-b*")):
        comparison = ComparedRun.open(path)
        for entry in comparison.of_kind("model"):
            model = Model.open(str(out / Path(entry.model or "").name))
            theory, settings = model.target_settings
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
            target = {"name": theory} | dataclasses.asdict(settings)
            described = describe(model.architecture, target, symmetric=model.description["symmetric"])
            more = {"training": model.description["training"], "measured": measured}
            save(folder / name, model.trajectory(settings.build()), described | more)


if __name__ == "__main__":
    main(Path(sys.argv[1]), U1Theory.models)
