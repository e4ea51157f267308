"""Train the models that come with the package, u1-b2 … u1-b7, and put them there with what was measured.

python scripts/ship_models.py --out runs/shipped
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

from rich.console import Console

from dlhmc.files import parse_json, read_text
from dlhmc.models.model import Model, describe, save
from dlhmc.spec.sampling import SampleSpec
from dlhmc.spec.training import TrainSpec
from dlhmc.theories.u1.theory import U1

BETAS = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
LATTICE = (16, 16)
SAMPLE: dict[str, Any] = {"lattice": LATTICE, "chains": 128, "trajectories": 2000, "warmup": 100}
MEASURED = ("acceptance", "plaquette", "charge_squared", "tau_int_charge", "chains", "trajectories", "lattice")


def ship(beta: float, out: Path, console: Console) -> None:
    """Networks in windows with all defaults, sampled without HMC between."""
    name = f"{U1.name}-b{beta:g}"
    trained, sampled = out / f"train-{name}", out / f"sample-{name}"
    for path in (trained, sampled):
        shutil.rmtree(path, ignore_errors=True)
    settings: dict[str, Any] = {"target": U1.name, "beta": beta}
    TrainSpec.of(settings | {"network": "local", "lattice": LATTICE}).run(trained, console)
    SampleSpec.of(settings | SAMPLE | {"model": str(trained), "alternate": 0}).run(sampled, console)
    summary, model = parse_json(read_text(sampled / "summary.json")), Model.open(str(trained))
    target = U1.settings(lattice=LATTICE, beta=beta)
    described = describe(model.architecture, target.to_table())
    more = {"training": model.description["training"], "measured": {key: summary[key] for key in MEASURED}}
    save(U1.models / f"{name}.safetensors", model.trajectory(target.build()), described | more)
    tau = summary["tau_int_charge"]
    console.print(f"{name}: acceptance {summary['acceptance']:.3f}, τ_int(Q) {tau}")


def main() -> None:
    """All of them, or those of some couplings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--betas", type=float, nargs="+", default=BETAS)
    options = parser.parse_args()
    for beta in options.betas:
        ship(beta, options.out, Console())


if __name__ == "__main__":
    main()
