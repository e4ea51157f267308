"""Comparisons made by hand: results and histories on disk, without a run."""

import dataclasses
from pathlib import Path

import numpy as np

from dlhmc.comparison.comparing import RESULTS
from dlhmc.comparison.results import Entry, Mean, Results, to_json
from dlhmc.files import write_arrays, write_whole
from dlhmc.run.directory import new_run
from dlhmc.statistics.quantity import Quantity

CHAINS, ROWS = 4, 60


def entry(name, kind, tau, *, steps=4, slow=("x0",), moments=("mean",), error=0.1, group=None, exact=True, **more):
    """A sampler with this τ_int, in milliseconds as many as steps; without an error, it is but a lower limit."""
    cost = Quantity.measured(tau, error) if error is not None else Quantity(lower=tau)
    mean = Mean(0.5, 0.1, 0.4, 1.0) if exact else Mean(0.5, 0.1)
    return Entry(
        name=name,
        group=group or ("HMC" if kind == "hmc" else name),
        settings=name if kind == "hmc" else "",
        kind=kind,
        status="measured" if error is not None else "lower limit",
        leapfrog_steps=steps,
        trajectories=ROWS,
        acceptance=0.8,
        nonfinite=0,
        pace=(1e-3 * max(steps, 1),) * 4,
        taus=dict.fromkeys(slow, cost),
        moments=dict.fromkeys(moments, mean),
        **{"work": {}, **more},
    )


def comparison(path: Path, target, entries, *, whole=False) -> Path:
    """A directory as `dlhmc compare` or `dlhmc.compare` leaves it."""
    rng = np.random.default_rng(1)
    saved = []
    with new_run("compare", {"target": target["target"], "seed": 1, "objects": "none"}, path):
        (path / "histories").mkdir()
        for number, one in enumerate(entries):
            file = f"histories/{number}.npz"
            values = {name: rng.normal(0, 1.0, (ROWS, CHAINS)) for name in one.taus}
            write_arrays(path / file, {name: v.round() if whole else v for name, v in values.items()})
            saved.append(dataclasses.replace(one, history=file))
        results = Results(
            target=target,
            chains=CHAINS,
            precision=0.1,
            seconds=2.0,
            interrupted=False,
            slow=tuple(entries[0].taus),
            left_out=(),
            warnings=("chains have not met",),
            entries=tuple(saved),
        )
        write_whole(path / RESULTS, to_json(results))
    return path
