"""Put the models of a reproduction into the package, each with what its comparison measured.

dlhmc reproduce --preset cpu --out OUT
python scripts/ship_models.py OUT
"""

import sys
from pathlib import Path

import equinox as eqx
import jax

from dlhmc.models import model as models
from dlhmc.report.comparisons import Comparison
from dlhmc.runs.config import TrainConfig
from dlhmc.runs.directory import open_run
from dlhmc.runs.targets import build

# The name of a model says its number of layers, if that is not the default.
DEFAULT_LAYERS = TrainConfig().leapfrog_steps


def main(out: Path) -> None:
    """One file for each coupling and number of layers."""
    for path in sorted(out.glob("compare-b*")):
        comparison = Comparison.open(path)
        for entry in comparison.of_kind("model"):
            run = out / Path(entry.model or "").name
            file = models.find(str(run))
            built_from, description = models.read_config(file)
            target = build(open_run("train", TrainConfig, run)[1])
            like = eqx.filter_eval_shape(models.build, built_from, target, jax.random.key(0))
            measured = {
                "acceptance": entry.acceptance,
                "plaquette": dict(entry.observables["plaquette"]),
                "charge_squared": dict(entry.observables["charge_squared"]),
                "tau_int_charge": dict(entry.tau_int["charge"]),
                "tau_int_sine_charge": dict(entry.tau_int["sine_charge"]),
                "chains": comparison.results.chains,
                "trajectories": entry.trajectories,
            }
            layers = "" if entry.leapfrog_steps == DEFAULT_LAYERS else f"-n{entry.leapfrog_steps}"
            kept = {name: description[name] for name in ("model", "target", "symmetric", "training")}
            name = f"u1-b{comparison.results.beta:g}{layers}.npz"
            models.save(models.SHIPPED / name, models.load(file, like), kept | {"measured": measured})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
