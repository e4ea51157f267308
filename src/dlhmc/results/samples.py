"""What sampling gives: an xarray dataset, and what one asks of it next."""

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from rich.console import Console

from dlhmc.errors import UserError
from dlhmc.runs.directory import require_newest
from dlhmc.runs.history import History, Rows
from dlhmc.runs.sampling import measured, open_sampling
from dlhmc.runs.summary import (
    Histories,
    Quantities,
    autocorrelation_times,
    show,
    show_observables,
    summarise,
    summarise_observables,
)
from dlhmc.statistics import (
    AutocorrelationTime,
    Estimate,
    effective_sample_size,
    integrated_autocorrelation_time,
    mean_and_error,
    split_rhat,
)
from dlhmc.targets.contract import Moment

#: what a kernel records of every trajectory beside the observables
DIAGNOSTICS = {
    "accepted": "whether the proposal was accepted",
    "energy_change": "ΔH − log|J| of the proposal",
    "nonfinite": "whether the proposal was not finite, and rejected",
    "hits": "fraction of accepted instanton hits",
}
_EXACT = "exact_"
_NOT_DESCRIBING = {"quantities", "versions", "warmup", "seed", "seconds", "step_size", "leapfrog_steps"}


class _InMemory(Histories):
    """The histories of a dataset."""

    def __init__(self, data: xr.Dataset) -> None:
        self._data = data

    @property
    def shape(self) -> tuple[int, int]:
        """Trajectories and chains."""
        return self._data.sizes["trajectory"], self._data.sizes["chain"]

    def series(self, name: str, power: int = 1) -> NDArray[np.float64]:
        """A record of every trajectory, raised to a power."""
        values = self._data[name].transpose("trajectory", "chain").values
        return np.asarray(values, np.float64) ** power

    def total(self, name: str) -> float:
        """The sum of a record over all trajectories and chains."""
        return float(self._data[name].sum())


class Measurements:
    """Observables of many configurations, and what one asks of them.

    `data` is an xarray dataset: variables with the dimensions (chain, trajectory), and attributes that say what they
    are and how to read them.
    """

    def __init__(self, data: xr.Dataset) -> None:
        self.data = data
        try:
            self._quantities = Quantities.from_json(json.loads(data.attrs["quantities"]))
        except (KeyError, ValueError, TypeError) as error:
            raise UserError(f"This dataset does not say what it holds, as those of dlhmc do ({error}).") from None

    @property
    def observables(self) -> tuple[str, ...]:
        """The names of what was measured."""
        per_trajectory = (str(name) for name, array in self.data.items() if "trajectory" in array.dims)
        return tuple(name for name in per_trajectory if name not in DIAGNOSTICS)

    @property
    def moments(self) -> dict[str, Moment]:
        """What is reported: powers of observables, by name."""
        return dict(self._quantities.moments)

    def series(self, name: str) -> NDArray[np.float64]:
        """An observable as an array [trajectory, chain], which is what `dlhmc.statistics` takes."""
        if name not in self.observables:
            raise UserError(f"There is no observable '{name}': there are {', '.join(self.observables)}.")
        return _InMemory(self.data).series(name)

    def mean(self, name: str) -> Estimate:
        """The mean of a moment (charge_squared) or observable (charge) with its error, autocorrelation included."""
        observable, power = self._quantities.moments.get(name, Moment(name))
        return mean_and_error(self.series(observable) ** power)

    def exact(self) -> dict[str, float]:
        """The exact values of the moments, where they are known."""
        return dict(self._quantities.exact)

    def compare_with_exact(self) -> dict[str, float]:
        """How far each moment is from its exact value, in standard errors; those without an error are left out."""
        estimates = {name: self.mean(name) for name in self._quantities.exact}
        return {
            name: (estimate.value - self._quantities.exact[name]) / estimate.error
            for name, estimate in estimates.items()
            if 0 < estimate.error < math.inf
        }

    def tau_int(self, name: str | None = None) -> AutocorrelationTime:
        """The integrated autocorrelation time of an observable; of the one that judges the sampler if none is named."""
        if name is None:
            name = next(iter(self._quantities.slow), self.observables[0])
        mean, variance = self._quantities.slow.get(name), self._quantities.variances.get(name)
        return integrated_autocorrelation_time(self.series(name), mean, variance=variance)

    def effective_sample_size(self, name: str) -> float:
        """How many independent configurations the chains are worth for an observable."""
        return effective_sample_size(self.series(name), self._quantities.slow.get(name))

    def rhat(self, name: str) -> float:
        """Rank-normalised split R̂ of an observable; below 1.01 chains are taken for converged."""
        return split_rhat(self.series(name))

    def _what(self) -> dict[str, Any]:
        about = ((str(name), value) for name, value in self.data.attrs.items())
        return {name: value for name, value in about if name not in _NOT_DESCRIBING and not name.startswith(_EXACT)}

    def summary(self) -> dict[str, Any]:
        """All results as one table of plain numbers."""
        histories = _InMemory(self.data)
        rows, chains = histories.shape
        taus = autocorrelation_times(self._quantities, histories)
        size = {"chains": chains, "trajectories": rows}
        return self._what() | size | summarise_observables(self._quantities, histories, taus)

    def show(self, console: Console | None = None) -> None:
        """Print the results beside the exact values."""
        show_observables(self.summary(), self._quantities, console or Console())

    def __repr__(self) -> str:
        """The table that `show` prints."""
        console = Console(file=io.StringIO(), width=100, force_jupyter=False, force_terminal=False)
        self.show(console)
        return str(console.file.getvalue())  # type: ignore[attr-defined]

    def save(self, path: str | Path) -> None:
        """Write a netCDF-4 file (.nc, .h5), which `dlhmc.load` reads, or a table of numbers (.csv)."""
        from dlhmc.results.export import write

        write(self.data, Path(path))


class Samples(Measurements):
    """The measurements of a sampling run, with what the kernel recorded of each trajectory.

    Configurations that were kept are in `data`, too, with the dimensions (kept, field_0, …, chain).
    """

    @property
    def acceptance(self) -> float:
        """The fraction of accepted proposals."""
        return float(self.data["accepted"].mean())

    def summary(self) -> dict[str, Any]:
        """All results as one table, that of summary.json."""
        steps, seconds = int(self.data.attrs["leapfrog_steps"]), float(self.data.attrs["seconds"])
        return summarise(self._what(), self._quantities, _InMemory(self.data), steps, seconds)

    def show(self, console: Console | None = None) -> None:
        """Print the results beside the exact values, and the speed."""
        show(self.summary(), self._quantities, console or Console())


def dataset(history: History, rows: int, attributes: Mapping[str, Any]) -> xr.Dataset:
    """The first rows of a history in memory, with coordinates, units and all that is known about the run."""
    variables: dict[str, xr.Variable] = {}
    for name in history.names:
        array = history.array(name)
        if name == "configurations":
            done = int((np.asarray(history.array("kept")[:]) <= rows).sum())
            variables[name] = xr.Variable(_field_dimensions(array.ndim), np.asarray(array[:done]), {"units": "1"})
        elif name != "kept":
            Rows(array, rows).total()  # refuses a history that has lost rows
            values = np.asarray(array[:rows]).T
            variables[name] = xr.Variable(("chain", "trajectory"), values, variable_attributes(name))
    chains = history.array("accepted").shape[1]
    coordinates: dict[str, Any] = {
        "chain": xr.Variable("chain", np.arange(chains), {"long_name": "Markov chain"}),
        "trajectory": xr.Variable(
            "trajectory", np.arange(1, rows + 1), {"long_name": "trajectories after the warm-up", "units": "1"}
        ),
    }
    if "configurations" in variables:
        done = variables["configurations"].shape[0]
        kept = np.asarray(history.array("kept")[:done])
        coordinates["kept"] = xr.Variable("kept", kept, {"long_name": "trajectory after which it was kept"})
    found = dict(history.attributes) | dict(attributes)
    exact = json.loads(found.get("quantities", "{}")).get("exact", {})
    return xr.Dataset(variables, coordinates, found | {f"{_EXACT}{name}": value for name, value in exact.items()})


def _field_dimensions(ndim: int) -> tuple[str, ...]:
    return ("kept", *(f"field_{axis}" for axis in range(ndim - 2)), "chain")


def variable_attributes(name: str) -> dict[str, str]:
    """Unit and name in words of a record."""
    # Lattice units: all that is measured is a pure number.
    return {"units": "1", "long_name": DIAGNOSTICS.get(name, name.replace("_", " "))}


def load_samples(path: Path) -> Samples:
    """The measurements of a run directory, finished or not; what has lost its newest checkpoint is refused."""
    found = measured(*open_sampling(path))
    require_newest(path, found.problems)
    return Samples(dataset(found.history, found.rows, run_attributes(found.seconds, found.step_size)))


def run_attributes(seconds: float, step_size: float | None) -> dict[str, float]:
    """What is known of a run only when it has run."""
    return {"seconds": seconds} | ({} if step_size is None else {"step_size": step_size})


def show_results(path: Path, console: Console) -> dict[str, Any]:
    """The results so far of a run of objects made in Python."""
    samples = load_samples(path)
    samples.show(console)
    return samples.summary()
