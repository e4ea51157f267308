"""What sampling gives: an xarray dataset, and what one asks of it next."""

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from rich.console import Console

from dlhmc.errors import UserError
from dlhmc.run.directory import require_newest
from dlhmc.run.history import CONFIGURATIONS, diagnostics_of
from dlhmc.run.sampling import EXACT, MeasuredSoFar, derived_figures, description, open_measured, summary_of
from dlhmc.run.summary import (
    Histories,
    Quantities,
    autocorrelation_times,
    describe_histories,
    for_each,
    show,
    show_observables,
    show_values,
    show_warnings,
    summarise_observables,
    unconverged,
)
from dlhmc.statistics import ChainEstimate, ess_bulk, mean_and_error, split_rhat
from dlhmc.targets.contract import Moment

# Records whose names do not say it all.
_LABELS = {
    "accepted": "whether the proposal was accepted",
    "energy_change": "ΔH − log|J| of the proposal",
    "nonfinite": "whether the proposal was not finite, and rejected",
}


def _whole(data: xr.Dataset, name: str) -> NDArray[Any]:
    """A record [trajectory, …, chain]."""
    return data[name].transpose("trajectory", ..., "chain").values


def _histories(data: xr.Dataset) -> Histories:
    """What a dataset has recorded."""
    records = [str(name) for name, array in data.items() if "trajectory" in array.dims]
    return Histories(
        (data.sizes["trajectory"], data.sizes["chain"]),
        data.attrs.get("start"),
        {name: _whole(data, name).shape[1:-1] for name in records},
        lambda name, power, element: np.asarray(_whole(data, name)[:, *element], np.float64) ** power,
        lambda name: float(data[name].sum()),
    )


class Measurements:
    """Observables of many configurations, and what one asks of them.

    `data` is an xarray dataset: variables with the dimensions (chain, trajectory), and more for observables that are
    arrays, and attributes that say what they are and how to read them. What is asked of such an observable comes as an
    array, element by element.
    """

    def __init__(self, data: xr.Dataset) -> None:
        self.data = data
        self._quantities = Quantities.read(data.attrs, "This dataset")

    @property
    def observables(self) -> tuple[str, ...]:
        """The names of what was measured."""
        diagnostics = diagnostics_of(self.data.attrs)
        return tuple(name for name in _histories(self.data).elements if name not in diagnostics)

    @property
    def moments(self) -> dict[str, Moment]:
        """What is reported: powers of observables, by name."""
        return dict(self._quantities.moments)

    def series(self, name: str) -> NDArray[np.float64]:
        """An observable as an array [trajectory, chain], which is what `dlhmc.statistics` takes.

        An array-valued one has the axes of its elements in between.
        """
        if name not in self.observables:
            raise UserError(f"There is no observable '{name}': there are {', '.join(self.observables)}.")
        return np.asarray(_whole(self.data, name), np.float64)

    def _for_each(self, name: str, function: Callable[[NDArray[np.float64]], Any]) -> Any:
        """A function of the series of an observable, or an array of it where that is one."""
        series = self.series(name)
        return _plain(for_each(series.shape[1:-1], lambda element: function(series[:, *element])))

    def mean(self, name: str) -> Any:
        """The mean of a moment or an observable: an `Estimate` with its error, autocorrelation included, R̂ and ESS.

        The error is infinite where it is not known: see `dlhmc.statistics.mean_and_error`.
        """
        observable, power = self._quantities.moments.get(name, Moment(name))
        exact_start = _histories(self.data).start == "exact"
        is_sector = observable == self._quantities.sector

        def estimate(series: NDArray[np.float64]) -> ChainEstimate:
            sector = series if is_sector else None
            return mean_and_error(series**power, sector=sector, equilibrium_start=exact_start)

        return self._for_each(observable, estimate)

    def exact(self) -> dict[str, Any]:
        """The exact values of the moments, where they are known."""
        return dict(self._quantities.exact)

    def compare_with_exact(self) -> dict[str, Any]:
        """How far each moment is from its exact value, in standard errors; those without an error are left out."""
        known = {name: self._quantities.moments[name] for name in self._quantities.exact}
        quantities = dataclasses.replace(self._quantities, moments=known)
        found = summarise_observables(quantities, _histories(self.data), {})
        deviations = {name: np.asarray(entry["z"], np.float64) for name, entry in found.items()}
        return {name: z if z.ndim else float(z) for name, z in deviations.items() if not np.isnan(z).all()}

    def tau_int(self, name: str | None = None) -> Any:
        """The `AutocorrelationTime` of an observable; of the one that judges the sampler if none is named."""
        if name is None:
            name = next(iter(self._quantities.slow), self.observables[0])
        self.series(name)  # refuses a name that is none
        quantities = dataclasses.replace(self._quantities, slow={name: self._quantities.slow.get(name)})
        return _plain(autocorrelation_times(quantities, _histories(self.data))[name])

    def effective_sample_size(self, name: str) -> Any:
        """How many independent configurations the chains are worth for the mean of an observable, N/(2 τ_int)."""
        rows, chains = _histories(self.data).shape
        taus: Any = np.asarray(self.tau_int(name), object)
        return _plain(for_each(taus.shape, lambda element: rows * chains / (2 * taus[element].value)))

    def ess_bulk(self, name: str) -> Any:
        """The effective sample size of the ranks of an observable, as ArviZ has it."""
        return self._for_each(name, ess_bulk)

    def rhat(self, name: str) -> Any:
        """Rank-normalised split R̂ of an observable; below 1.01 chains are taken for converged."""
        return self._for_each(name, split_rhat)

    @property
    def _attributes(self) -> dict[str, Any]:
        return {str(name): value for name, value in self.data.attrs.items()}

    def summary(self) -> dict[str, Any]:
        """All results as one table of plain numbers; of a single configuration, all that was measured."""
        attributes, histories = self._attributes, _histories(self.data)
        about, derived = describe_histories(description(attributes), histories), derived_figures(attributes, histories)
        if histories.shape == (1, 1):
            values = {name: {"mean": self.series(name)[0, ..., 0].tolist(), "error": None} for name in self.observables}
            return about | values | derived | {"warnings": []}
        taus = autocorrelation_times(self._quantities, histories)
        found = summarise_observables(self._quantities, histories, taus)
        return about | found | derived | {"warnings": unconverged(found, self._quantities)}

    def show(self, console: Console | None = None) -> None:
        """Print the results beside the exact values."""
        summary, console = self.summary(), console or Console()
        if _histories(self.data).shape == (1, 1):
            show_values(summary, self.observables, console)
            return
        show_observables(summary, console)
        show_warnings(summary, console)

    def __repr__(self) -> str:
        """The table that `show` prints."""
        console = Console(file=io.StringIO(), width=100, force_jupyter=False, force_terminal=False)
        self.show(console)
        return str(console.file.getvalue())  # type: ignore[attr-defined]

    def save(self, path: str | Path) -> None:
        """Write a netCDF-4 file (.nc, .h5), which `dlhmc.load` reads, or a table of numbers (.csv)."""
        from dlhmc.run.export import write

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
        attributes = self._attributes
        return summary_of(attributes, self._quantities, _histories(self.data), float(attributes["seconds"]))

    def save_configurations(self, folder: str | Path, format: str, run: str = "run") -> int:
        """Write the configurations that were kept to files that others read, one for each chain and configuration.

        Formats are those of the theory; the names of the files begin with that of the run. Returns their number.
        """
        from dlhmc.run.export import write_configurations

        return write_configurations(self.data, Path(folder), format, run)

    def show(self, console: Console | None = None) -> None:
        """Print the results beside the exact values, and the speed."""
        show(self.summary(), console or Console())


def _plain(found: NDArray[Any]) -> Any:
    """The one there is, or all in an array; of numbers, if they are."""
    return np.asarray(found.tolist()) if found.ndim else found[()]


def dataset(measured: MeasuredSoFar) -> xr.Dataset:
    """The rows of a history in memory, with coordinates, units and all that is known about the run."""
    history, rows, variables = measured.history, measured.rows, {}
    for name in history.records:
        history.rows(name, rows).total()  # refuses a history that has lost rows
        variables[name] = variable(name, np.moveaxis(np.asarray(history.array(name)[:rows]), -1, 0))
    coordinates: dict[str, Any] = {
        "chain": xr.Variable("chain", np.arange(history.chains), {"long_name": "Markov chain"}),
        "trajectory": xr.Variable(
            "trajectory", np.arange(1, rows + 1), {"long_name": "trajectories after the warm-up", "units": "1"}
        ),
    }
    if CONFIGURATIONS in history.names:
        array, kept = history.array(CONFIGURATIONS), np.asarray(history.array("kept")[:])
        kept = kept[kept <= rows]
        dimensions = ("kept", *(f"field_{axis}" for axis in range(array.ndim - 2)), "chain")
        variables[CONFIGURATIONS] = xr.Variable(dimensions, np.asarray(array[: len(kept)]), {"units": "1"})
        coordinates["kept"] = xr.Variable("kept", kept, {"long_name": "trajectory after which it was kept"})
    found = history.attributes | {"seconds": measured.seconds}
    if measured.step_size is not None:
        found["step_size"] = measured.step_size
    exact = Quantities.read(found, "The history").exact
    numbers = {f"{EXACT}{name}": value for name, value in exact.items() if np.ndim(value) < 2}  # as netCDF wants it
    return xr.Dataset(variables, coordinates, found | numbers)


def variable(name: str, values: NDArray[Any]) -> xr.Variable:
    """A record [chain, trajectory, …] with its dimensions, unit and name in words."""
    elements = (f"{name}_{axis}" for axis in range(values.ndim - 2))
    # Everything is in units of the theory: pure numbers.
    attributes = {"units": "1", "long_name": _LABELS.get(name, name.replace("_", " "))}
    return xr.Variable(("chain", "trajectory", *elements), values, attributes)


def load_samples(path: Path) -> Samples:
    """The measurements of a run directory, finished or not; what has lost its newest checkpoint is refused."""
    found, problems = open_measured(path)
    require_newest(path, problems)
    return Samples(dataset(found))
