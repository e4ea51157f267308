"""Comparisons made by hand: results and histories on disk, without a race."""

import dataclasses
from pathlib import Path

import numpy as np

from dlhmc.comparison.command import RESULTS
from dlhmc.comparison.results import Entry, Quantity, Results, to_json
from dlhmc.files import fingerprint, write_arrays
from dlhmc.run.directory import new_run, write_json

CHAINS, ROWS = 4, 60


def entry(name, kind, tau, *, steps=4, slow=("x0",), moments=("mean",), error=0.1, **more):
    """A sampler with this τ_int, in milliseconds as many as steps; without an error, it is but a lower limit."""
    known = error is not None
    time = {"value": tau if known else None, "error": error, "window": 5, "frozen": not known, "lower_bound": tau}
    cost = Quantity.measured(tau, error) if known else Quantity(lower=tau)
    rest = {"acceptance": 0.8, "integrator": "leapfrog", "length": 1.0, "step_size": 0.25, "model": None} | more
    return Entry(
        name=name,
        kind=kind,
        status="measured" if known else "lower bound",
        leapfrog_steps=steps,
        forces=steps + 1,
        network_flops=0,
        trajectories=ROWS,
        seconds=1.0,
        nonfinite_rejected=0,
        observables={moment: {"mean": 0.5, "error": 0.1, "exact": 0.4, "z": 1.0} for moment in moments},
        tau_int=dict.fromkeys(slow, time),
        tau_int_others={},
        steps_tau=cost.times(steps),
        seconds_per_trajectory=Quantity.measured(1e-3 * steps, 1e-5),
        seconds_per_independent=cost.times(2e-3 * steps),
        gain_in_steps=Quantity.measured(5.0, 1.0) if kind == "model" else Quantity(),
        gain_in_time=Quantity(lower=3.0) if kind == "model" else Quantity(),
        **rest,
    )


def comparison(path: Path, target, entries, *, whole=False) -> Path:
    """A directory as `dlhmc compare` or `dlhmc.compare` leaves it."""
    rng = np.random.default_rng(1)
    saved = []
    with new_run("compare", {"target": target["target"], "seed": 1, "objects": "none"}, path):
        (path / "histories").mkdir()
        for number, one in enumerate(entries):
            file = f"histories/{number}.npz"
            values = {name: rng.normal(0, 1.0, (ROWS, CHAINS)) for name in one.tau_int}
            write_arrays(path / file, {name: v.round() if whole else v for name, v in values.items()})
            saved.append(dataclasses.replace(one, history=file, history_sha256=fingerprint(path / file)))
        results = Results(
            target=target,
            chains=CHAINS,
            precision=0.1,
            seconds=2.0,
            finished=True,
            interrupted=False,
            exact=dict.fromkeys(entries[0].observables, 0.4) if whole else {},
            best_in_steps=None,
            best_in_time=None,
            warnings=("chains have not met",),
            entries=tuple(saved),
        )
        write_json(path / RESULTS, to_json(results))
    return path
