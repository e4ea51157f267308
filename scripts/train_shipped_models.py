"""Train the models that come with the package: along β = 2 … 7 by transfer, each measured with a sampling run.

python scripts/train_shipped_models.py OUT     # a new directory for the runs; about ten minutes
"""

import sys
from pathlib import Path

import equinox as eqx
import jax
from rich.console import Console

from dlhmc import models
from dlhmc.layers.rings import default_radii
from dlhmc.runs.config import SampleConfig, TrainConfig
from dlhmc.runs.directory import read_json
from dlhmc.runs.sampling import sample
from dlhmc.runs.targets import build
from dlhmc.runs.training import train

BETAS = (2, 3, 4, 5, 6, 7)
MEASURED = (
    "acceptance",
    "plaquette",
    "charge_squared",
    "tau_int_charge",
    "tau_int_sine_charge",
    "chains",
    "trajectories",
)


def main(out: Path) -> None:
    """Train, measure, and put the models into the package."""
    console = Console()
    before = None
    for beta in BETAS:
        run = out / f"train-b{beta}"
        # The radii of the last coupling serve for all, so that parameters can be handed on.
        config = TrainConfig(
            beta=float(beta), steps=1000, radii=default_radii(8.0), model=None if before is None else str(before)
        )
        train(config, run, console)
        sampled = SampleConfig(beta=float(beta), model=str(run))
        sample(sampled, out / f"sample-b{beta}", console)
        summary = read_json(out / f"sample-b{beta}" / "summary.json")
        file = models.find(str(run))
        built_from, description = models.read_config(file)
        like = eqx.filter_eval_shape(models.build, built_from, build(config), jax.random.key(0))
        kept = {name: description[name] for name in ("model", "target", "symmetric", "training")}
        measured = {name: summary[name] for name in MEASURED}
        models.save(models.SHIPPED / f"u1-b{beta}.npz", models.load(file, like), kept | {"measured": measured})
        before = run


if __name__ == "__main__":
    main(Path(sys.argv[1]))
