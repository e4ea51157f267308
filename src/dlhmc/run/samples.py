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
from dlhmc.run.history import CONFIGURATIONS, KEPT, diagnostics_of
from dlhmc.run.sampling import open_measured
from dlhmc.run.show import show, show_values
from dlhmc.run.summary import EXACT, Histories, Measured, autocorrelation_times, for_each
from dlhmc.statistics import ChainEstimate, ess_bulk, mean_and_error, split_rhat
from dlhmc.targets.contract import Moment

# Records whose names do not say it all.
_LABELS = {
    "accepted": "whether the proposal was accepted",
    "energy_change": "ΔH − log|J| of the proposal",
    "nonfinite": "whether the proposal was not finite, and rejected",
}


class Measurements:
    """Observables of many configurations, and what one asks of them.

    `data` is an xarray dataset: variables with the dimensions (chain, trajectory), and more for observables that are
    arrays, and attributes that say what they are and how to read them. What is asked of such an observable comes as an
    array, element by element.
    """

    def __init__(self, data: xr.Dataset) -> None:
        self.data = data
        self._quantities = self._measured.quantities

    @property
    def _measured(self) -> Measured:
        """The same as its summary is made of."""
        arrays = {
            str(name): array.transpose("trajectory", ..., "chain").values
            for name, array in self.data.items()
            if "trajectory" in array.dims
        }
        attributes = {str(name): value for name, value in self.data.attrs.items()}
        histories = Histories(arrays, self.data.sizes["trajectory"], attributes.get("start"))
        return Measured(histories, attributes, self._seconds)

    @property
    def _seconds(self) -> float | None:
        """Of sampling; None where nothing is known of it."""
        return None

    @property
    def observables(self) -> tuple[str, ...]:
        """The names of what was measured."""
        diagnostics = diagnostics_of(self.data.attrs)
        return tuple(name for name in self._measured.histories.arrays if name not in diagnostics)

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
        return np.asarray(self._measured.histories.arrays[name], np.float64)

    def _for_each(self, name: str, function: Callable[[NDArray[np.float64]], Any]) -> Any:
        """A function of the series of an observable, or an array of it where that is one."""
        series = self.series(name)
        return _plain(for_each(series.shape[1:-1], lambda element: function(series[:, *element])))

    def mean(self, name: str) -> Any:
        """The mean of a moment or an observable: an `Estimate` with its error, autocorrelation included, R̂ and ESS.

        The error is infinite where it is not known: see `dlhmc.statistics.mean_and_error`.
        """
        observable, power = self._quantities.moments.get(name, Moment(name))
        exact_start = self._measured.histories.start == "exact"
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
        found = self._measured.results({})
        deviations = {name: np.asarray(found[name]["z"], np.float64) for name in self._quantities.exact}
        return {name: z if z.ndim else float(z) for name, z in deviations.items() if not np.isnan(z).all()}

    def tau_int(self, name: str | None = None) -> Any:
        """The `AutocorrelationTime` of an observable; of the one that judges the sampler if none is named."""
        if name is None:
            name = next(iter(self._quantities.slow), self.observables[0])
        self.series(name)  # refuses a name that is none
        quantities = dataclasses.replace(self._quantities, slow={name: self._quantities.slow.get(name)})
        return _plain(autocorrelation_times(quantities, self._measured.histories)[name])

    def effective_sample_size(self, name: str) -> Any:
        """How many independent configurations the chains are worth for the mean of an observable, N/(2 τ_int)."""
        rows, chains = self._measured.histories.shape
        taus: Any = np.asarray(self.tau_int(name), object)
        return _plain(for_each(taus.shape, lambda element: rows * chains / (2 * taus[element].value)))

    def ess_bulk(self, name: str) -> Any:
        """The effective sample size of the ranks of an observable, as ArviZ has it."""
        return self._for_each(name, ess_bulk)

    def rhat(self, name: str) -> Any:
        """Rank-normalised split R̂ of an observable; below 1.01 chains are taken for converged."""
        return self._for_each(name, split_rhat)

    @property
    def _is_one_configuration(self) -> bool:
        return self._measured.histories.shape == (1, 1)

    def summary(self) -> dict[str, Any]:
        """All results as one table of plain numbers, that of summary.json; of a single configuration, its values."""
        return self._measured.values(self.observables) if self._is_one_configuration else self._measured.summary()

    def show(self, console: Console | None = None) -> None:
        """Print the results beside the exact values, and of a run its speed."""
        console = console or Console()
        if self._is_one_configuration:
            show_values(self.summary(), self.observables, console)
        else:
            show(self.summary(), console)

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

    @property
    def _seconds(self) -> float | None:
        return float(self.data.attrs["seconds"])

    def save_configurations(self, folder: str | Path, format: str, run: str = "run") -> int:
        """Write the configurations that were kept to files that others read, one for each chain and configuration.

        Formats are those of the theory; the names of the files begin with that of the run. Returns their number.
        """
        from dlhmc.run.export import write_configurations

        return write_configurations(self.data, Path(folder), format, run)


def _plain(found: NDArray[Any]) -> Any:
    """The one there is, or all in an array; of numbers, if they are."""
    return np.asarray(found.tolist()) if found.ndim else found[()]


def dataset(measured: Measured) -> xr.Dataset:
    """The rows of a history in memory, with coordinates, units and all that is known about the run."""
    history, rows = measured.history, measured.rows
    if history is None:
        raise TypeError("there is no history")
    variables = {
        name: variable(name, np.moveaxis(np.asarray(array[:rows]), -1, 0))
        for name, array in measured.histories.arrays.items()
    }
    coordinates: dict[str, Any] = {
        "chain": xr.Variable("chain", np.arange(measured.histories.shape[1]), {"long_name": "Markov chain"}),
        "trajectory": xr.Variable(
            "trajectory", np.arange(1, rows + 1), {"long_name": "trajectories after the warm-up", "units": "1"}
        ),
    }
    if (kept := history.kept) is not None:
        kept = kept[kept <= rows]
        array = history.array(CONFIGURATIONS)
        dimensions = (KEPT, *(f"field_{axis}" for axis in range(len(array.shape) - 2)), "chain")
        variables[CONFIGURATIONS] = xr.Variable(dimensions, np.asarray(array[: len(kept)]), {"units": "1"})
        coordinates[KEPT] = xr.Variable(KEPT, kept, {"long_name": "trajectory after which it was kept"})
    found = dict(measured.attributes) | {"seconds": measured.seconds}
    if measured.step_size is not None:
        found["step_size"] = measured.step_size
    exact = measured.quantities.exact
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
    found, _, problems = open_measured(path)
    require_newest(path, problems)
    return Samples(dataset(found))
