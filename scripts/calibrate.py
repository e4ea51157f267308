"""Are errors right? Many short runs against exact values: pulls of unit variance, and no alarm.

python scripts/calibrate.py              # 960 runs
python scripts/calibrate.py --seed 2     # of other random numbers

Runs of HMC for U(1), 6×6, β = 2, are chains of one large run, which is summarised a few chains at a time. A pull is
(measured − exact)/error; the autocorrelation time of all chains together stands for the exact one. The variance of 960
unit pulls is outside of 0.9 to 1.1 for one seed in 35. Errors of τ_int are those of Wolff's eq. (42), which is an
approximation: in long runs they are too large by some 5 %.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import dlhmc
from dlhmc.errors import ExitCode

MOMENTS, TIME = ("plaquette", "charge_squared"), "tau_int_charge"
LEAST, MOST = 0.9, 1.1


def summaries(samples: dlhmc.Samples, chains: int) -> Iterator[dict[str, Any]]:
    """Of so many chains at a time."""
    for first in range(0, samples.data.sizes["chain"], chains):
        yield dlhmc.Samples(samples.data.isel(chain=slice(first, first + chains))).summary()


def pull(found: dict[str, Any], name: str, exact: float) -> float:
    """(measured − exact)/error; NaN for a run that gives no error."""
    entry = found[name]
    value = entry["value"] if name == TIME else entry["mean"]
    return float("nan") if value is None or entry["error"] is None else (value - exact) / entry["error"]


def calibrate(runs: int, chains: int, trajectories: int, seed: int) -> tuple[dict[str, NDArray[np.float64]], list[str]]:
    """The pulls of each quantity, and all alarms."""
    target = dlhmc.U1((6, 6), beta=2.0)
    kernel = dlhmc.HMC(target, 0.3, 5)
    samples = dlhmc.sample(
        kernel, chains=runs * chains, trajectories=trajectories, warmup=0, start="exact", seed=seed, progress=False
    )
    exact = {name: target.exact()[name] for name in MOMENTS} | {TIME: samples.summary()[TIME]["value"]}
    found = list(summaries(samples, chains))
    pulls = {name: np.array([pull(summary, name, value) for summary in found]) for name, value in exact.items()}
    return pulls, [alarm for summary in found for alarm in summary["alarms"]]


def verdict(pulls: dict[str, NDArray[np.float64]], alarms: list[str]) -> list[str]:
    """What is wrong."""
    wrong = [f"alarm: {alarm}" for alarm in alarms]
    for name, values in pulls.items():
        if not np.isfinite(values).all():
            wrong.append(f"{name}: {np.count_nonzero(~np.isfinite(values))} runs have no error")
        elif not LEAST < values.var() < MOST:
            wrong.append(f"{name}: the variance of the pulls is {values.var():.3f}")
    return wrong


def main() -> int:
    """A line for each quantity, then the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=960)
    parser.add_argument("--chains", type=int, default=8, help="of each run")
    parser.add_argument("--trajectories", type=int, default=500, help="of each chain")
    parser.add_argument("--seed", type=int, default=1)
    options, console = parser.parse_args(), Console(width=110, highlight=False)
    pulls, alarms = calibrate(**vars(options))
    for name, values in pulls.items():
        beyond = [np.count_nonzero(np.abs(values) > sigmas) / values.size for sigmas in (1, 2, 3)]
        shares = ", ".join(f"{100 * share:.3g} %" for share in beyond)
        console.print(f"{name:<15} mean {values.mean():+.3f}  variance {values.var():.3f}  beyond 1, 2, 3: {shares}")
    console.print(
        f"{len(alarms)} alarms in {options.runs} runs of {options.chains} × {options.trajectories} trajectories"
    )
    for line in (wrong := verdict(pulls, alarms)):
        console.print(f"WRONG: {line}", style="red")
    return ExitCode.WRONG if wrong else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
