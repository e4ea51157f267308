"""Observables of configurations that come from elsewhere: a NumPy array, an .npy or an HDF5 file."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from numpy.typing import NDArray

from dlhmc.errors import Setting, UserError, required
from dlhmc.geometry import Torus
from dlhmc.results.samples import Measurements, variable
from dlhmc.runs.describe import describe_target
from dlhmc.runs.directory import versions
from dlhmc.runs.summary import Quantities
from dlhmc.targets import Target
from dlhmc.targets.contract import Observed

# Configurations that are measured at a time.
_BATCH = 256


def measure(configurations: Any, target: Target) -> Measurements:
    """Measure the observables of a target on configurations[configuration, …] or [chain, configuration, …].

    The axes that follow are those of `target.shape`; angles may be given in radians or as complex numbers e^{ix}.
    Configurations of a chain follow each other in its order, so that their autocorrelation can be told; without a chain
    axis they are one chain.

    >>> from dlhmc.theories.vectors.gaussian import Gaussian
    >>> found = measure(np.random.default_rng(0).normal(size=(1000, 3)), Gaussian([1.0, 1.0, 1.0]))
    >>> print(found.mean("squared_norm"))
    2.97(7)
    """
    shape, wanted = np.shape(configurations), target.shape
    extra = len(shape) - len(wanted)
    if extra not in (1, 2) or shape[extra:] != wanted:
        axes = ", ".join(map(str, wanted))
        raise UserError(
            f"The configurations have the shape {_shown(shape)}, but must have [configuration, {axes}] or "
            f"[chain, configuration, {axes}]."
        )
    if 0 in shape:
        raise UserError(f"There are no configurations in an array of the shape {_shown(shape)}.")
    one_chain = extra == 1
    chains, rows = (1, shape[0]) if one_chain else shape[:2]
    # A batch of configurations takes the place of chains.
    batches = [
        _measured(target, configurations[index] if one_chain else configurations[chain, index])
        for chain in range(chains)
        for index in (slice(first, first + _BATCH) for first in range(0, rows, _BATCH))
    ]
    variables = {}
    for name in batches[0]:
        values = np.concatenate([batch[name] for batch in batches], axis=-1)  # […, chain and configuration]
        variables[name] = variable(
            name, np.moveaxis(values.reshape(*values.shape[:-1], chains, rows), (-2, -1), (0, 1))
        )
    what = {"kernel": "configurations"} | describe_target(target)
    more = {"quantities": Quantities.of(target).to_json(), "versions": json.dumps(versions())}
    more["diagnostics"] = "[]"
    coordinates = {"chain": np.arange(chains), "trajectory": np.arange(1, rows + 1)}
    return Measurements(xr.Dataset(variables, coordinates, what | more))


def _measured(target: Target, batch: Any) -> dict[str, NDArray[Any]]:
    """The observables of configurations [configuration, …]."""
    array = np.asarray(batch)
    if array.dtype.kind not in "fciu":
        raise UserError(f"The configurations are of the type {array.dtype}, but must be numbers.")
    if not np.all(np.isfinite(array)):
        raise UserError("The configurations hold numbers that are not finite: leave those configurations out.")
    geometry = target.geometry
    if array.dtype.kind == "c" and not geometry.is_complex:
        if not isinstance(geometry, Torus) or np.abs(np.abs(array) - 1).max() > 1e-4:
            raise UserError("Complex numbers must be e^{ix} of absolute value 1: give angles, or divide by it.")
        array = np.angle(array)
    x = jnp.asarray(np.moveaxis(array, 0, -1), geometry.dtype(jnp.result_type(float)))
    return {name: np.asarray(values) for name, values in _observables(target, x).items()}


@eqx.filter_jit
def _observables(target: Target, x: Array) -> dict[str, Observed]:
    return target.observables(x)


def measure_file(
    path: Path, target_of: Callable[[tuple[int, ...]], Target], dataset: str | None = None
) -> Measurements:
    """The same for configurations in a file, whose shape tells the target; or a `UserError` that there is none."""
    with _opened(path, target_of, dataset) as array:
        return measure(array, target_of(array.shape))


@contextmanager
def _opened(path: Path, target_of: Callable[[tuple[int, ...]], Target], dataset: str | None) -> Iterator[Any]:
    """An array that is read piece by piece."""
    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    if path.suffix == ".npy":
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UserError(f"{path} is no array of numbers: {error}.") from None
        yield array
    elif path.suffix in (".h5", ".hdf5", ".nc"):
        with _hdf5(path) as file:
            yield _find(file, path, target_of, dataset)
    else:
        raise UserError(f"{path} has no known format: give an .npy or an HDF5 file (.h5, .hdf5, .nc).")


def _hdf5(path: Path) -> Any:
    h5py = required("h5py", "netcdf", str(path))
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise UserError(f"{path} is no HDF5 file: {error}.") from None


def _find(file: Any, path: Path, target_of: Callable[[tuple[int, ...]], Target], name: str | None) -> Any:
    """The array of that name, or the only one that could hold configurations."""
    import h5py

    found: list[str] = []
    file.visititems(lambda key, item: found.append(key) if isinstance(item, h5py.Dataset) else None)
    if name is None:
        fitting = [key for key in found if _fits(file[key].shape, target_of)]
        if len(fitting) != 1:
            names = ", ".join(found) or "none"
            raise UserError(
                f"{path} does not tell which array holds the configurations: give {Setting('dataset')} (there are: "
                f"{names})."
            )
        name = fitting[0]
    if name not in found:
        raise UserError(f"{path} has no array '{name}': there are {', '.join(found) or 'none'}.")
    return file[name]


def _fits(shape: tuple[int, ...], target_of: Callable[[tuple[int, ...]], Target]) -> bool:
    try:
        target_of(shape)
    except UserError:
        return False
    return True


def _shown(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
