"""What sampling gives: an xarray dataset, and what one asks of it next."""

import functools
import io
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from rich.console import Console

from dlhmc.errors import UserError
from dlhmc.run import export
from dlhmc.run.history import diagnostics_of
from dlhmc.run.show import show
from dlhmc.run.summary import Histories, for_each
from dlhmc.targets.contract import Moment


class Measurements:
    """Observables of many configurations, and what one asks of them.

    `data` is an xarray dataset: variables with the dimensions (chain, trajectory), and more for observables that are
    arrays, and attributes that say what they are and how to read them. What is asked of such an observable comes as an
    array, element by element.
    """

    def __init__(self, data: xr.Dataset) -> None:
        self.data = data
        #: the same as summaries and statistics read it
        self.histories = Histories(data)
        self._quantities = self.histories.quantities

    @property
    def observables(self) -> tuple[str, ...]:
        """The names of what was measured."""
        diagnostics = diagnostics_of(self.data.attrs)
        return tuple(name for name in self.histories.elements if name not in diagnostics)

    @property
    def moments(self) -> dict[str, Moment]:
        """What is reported: powers of observables, by name."""
        return dict(self._quantities.moments)

    def _shape(self, name: str) -> tuple[int, ...]:
        if name not in self.observables:
            raise UserError(f"There is no observable '{name}': there are {', '.join(self.observables)}.")
        return self.histories.elements[name]

    def series(self, name: str) -> NDArray[np.float64]:
        """An observable as an array [trajectory, chain], which is what `dlhmc.statistics` takes.

        An array-valued one has the axes of its elements in between.
        """
        self._shape(name)
        return np.asarray(self.data[name].transpose("trajectory", ..., "chain"), np.float64)

    def mean(self, name: str) -> Any:
        """The mean of a moment or an observable: an `Estimate` with its error, autocorrelation included, R̂ and ESS.

        The error is infinite where it is not known: see `dlhmc.statistics.mean_and_error`.
        """
        observable, power = self._quantities.moments.get(name, Moment(name))
        estimate = functools.partial(self.histories.estimate, observable, power)
        return _plain(for_each(self._shape(observable), estimate))

    def exact(self) -> dict[str, Any]:
        """The exact values of the moments, where they are known."""
        return dict(self._quantities.exact)

    def tau_int(self, name: str | None = None) -> Any:
        """The `AutocorrelationTime` of an observable; of the one that judges the sampler if none is named."""
        if name is None:
            name = next(iter(self._quantities.slow), self.observables[0])
        return _plain(for_each(self._shape(name), functools.partial(self.histories.time, name)))

    def effective_sample_size(self, name: str) -> Any:
        """How many independent configurations the chains are worth for the mean of an observable, N/(2 τ_int)."""
        number = np.prod(self.histories.shape)
        times: Any = np.asarray(self.tau_int(name), object)
        return _plain(for_each(times.shape, lambda element: number / (2 * times[element].value)))

    def summary(self) -> dict[str, Any]:
        """All results as one table of plain numbers, that of summary.json; of a single configuration, its values."""
        return self.histories.summary()

    def show(self, console: Console | None = None) -> None:
        """Print the results beside the exact values, and of a run its speed."""
        show(self.summary(), console or Console())

    def __repr__(self) -> str:
        """The table that `show` prints."""
        text = io.StringIO()
        self.show(Console(file=text, width=100, force_jupyter=False, force_terminal=False))
        return text.getvalue()

    def save(self, path: str | Path) -> None:
        """Write a netCDF-4 file (.nc, .h5), which `dlhmc.load` reads, or a table of numbers (.csv)."""
        export.write(self.data, Path(path))


class Samples(Measurements):
    """The measurements of a sampling run, with what the kernel recorded of each trajectory.

    Configurations that were kept are in `data`, too, with the dimensions (kept, field_0, …, chain).
    """

    @property
    def acceptance(self) -> float:
        """The fraction of accepted proposals."""
        return float(self.data["accepted"].mean())

    def save_configurations(self, folder: str | Path, format: str, run: str = "run") -> int:
        """Write the configurations that were kept to files that others read, one for each chain and configuration.

        Formats are those of the theory; the names of the files begin with that of the run. Returns their number.
        """
        return export.write_configurations(self.data, Path(folder), format, run)


def _plain(found: NDArray[Any]) -> Any:
    """The one there is, or all in an array; of numbers, if they are."""
    return np.asarray(found.tolist()) if found.ndim else found[()]
