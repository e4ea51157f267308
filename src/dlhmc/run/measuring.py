"""Observables of configurations that come from elsewhere: a NumPy array, an .npy or an HDF5 file, or one file each."""

import dataclasses
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from numpy.typing import NDArray

from dlhmc.errors import Setting, UserError, required
from dlhmc.run.configurations import as_field, load_array
from dlhmc.run.describe import describe_target
from dlhmc.run.directory import versions
from dlhmc.run.samples import Measurements
from dlhmc.run.summary import Quantities
from dlhmc.settings import fields_of
from dlhmc.targets import Target
from dlhmc.targets.contract import Observables, Observed
from dlhmc.theories import registry
from dlhmc.theories.contract import Occasional, StoredConfiguration, TargetSettings

# Configurations that are measured at a time, and numbers of all of them.
_BATCH, _NUMBERS = 256, 2**23
NONE = Occasional()


def measure(configurations: Any, target: Target, occasional: Occasional = NONE) -> Measurements:
    """Measure the observables of a target on configurations[configuration, …] or [chain, configuration, …].

    The axes that follow are those of the target's geometry; angles are in radians or complex numbers e^{ix}.
    Configurations of a chain follow each other in its order, so that their autocorrelation can be told; without a chain
    axis they are one chain. What runs of a theory measure once in a while can be asked for as `occasional`.

    >>> from dlhmc.theories.vectors.toys import Gaussian
    >>> found = measure(np.random.default_rng(0).normal(size=(1000, 3)), Gaussian([1.0, 1.0, 1.0]))
    >>> print(found.mean("squared_norm"))
    2.97(7)
    """
    return _measure(configurations, target, describe_target(target), (), occasional)


def _measure(
    configurations: Any, target: Target, described: Mapping[str, Any], unknown: Collection[str], occasional: Occasional
) -> Measurements:
    """The same where some settings of the target are not known, which no observable depends on."""
    shape, wanted = np.shape(configurations), target.geometry.shape
    extra = len(shape) - len(wanted)
    if extra not in (1, 2) or shape[extra:] != wanted:
        axes = ", ".join(map(str, wanted))
        raise UserError(
            f"The configurations have the shape {list(shape)}, but must have [configuration, {axes}] or "
            f"[chain, configuration, {axes}]."
        )
    if 0 in shape:
        raise UserError(f"There are no configurations in an array of the shape {list(shape)}.")
    chains, rows = (1, *shape)[-len(wanted) - 2 : -len(wanted)]
    batch = max(1, min(_BATCH, _NUMBERS // math.prod(wanted)))
    more = occasional.observables(target)
    batches = []
    for chain in range(chains):
        for first in range(0, rows, batch):
            part = slice(first, first + batch)
            x = as_field(configurations[part] if extra == 1 else configurations[chain, part], target)
            # A batch of configurations takes the place of chains.
            batches.append(jax.tree.map(np.asarray, _observables(target, more, x)))
    data = xr.Dataset(coords={"chain": np.arange(chains), "trajectory": np.arange(1, rows + 1)})
    for name in batches[0]:
        values = np.concatenate([found[name] for found in batches], axis=-1)  # […, chain and configuration]
        elements = [f"{name}_{axis}" for axis in range(values.ndim - 1)]
        data[name] = ((*elements, "chain", "trajectory"), values.reshape(*values.shape[:-1], chains, rows))
        data[name] = data[name].transpose("chain", "trajectory", ...)
    one = jax.ShapeDtypeStruct((*wanted, 1), target.geometry.dtype(jnp.result_type(float)))
    quantities = Quantities.of(target, occasional={} if more is None else eqx.filter_eval_shape(more, one))
    if unknown:
        quantities = dataclasses.replace(quantities, exact={}, variances={})
    known = {name: value for name, value in described.items() if name not in unknown}
    about = {"quantities": quantities.to_json(), "notes": json.dumps(occasional.notes()), "diagnostics": "[]"}
    versioned = {"versions": json.dumps(versions())}
    return Measurements(data.assign_attrs({"kernel": "configurations"} | known | about | versioned))


@eqx.filter_jit
def _observables(target: Target, more: Observables | None, x: Array) -> dict[str, Observed]:
    return target.observables(x) | ({} if more is None else more(x))


class _Files:
    """An array [configuration, …] of files that hold one configuration each, read when they are looked at."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self.settings, first = self._read(paths[0])
        self.theory, x = first
        self.shape = (len(paths), *x.shape)

    def _read(self, path: Path) -> tuple[TargetSettings, StoredConfiguration]:
        if not path.is_file():
            raise UserError(f"There is no file {path}.")
        if (form := registry.format_of(path)) is None:
            raise UserError(f"{path} is of another kind than {self._paths[0]}: measure them one after the other.")
        return registry.read_configuration(path, form)

    def __getitem__(self, index: slice) -> NDArray[Any]:
        return np.stack([self._same(path) for path in self._paths[index]])

    def _same(self, path: Path) -> NDArray[Any]:
        settings, (theory, x) = self._read(path)
        if theory != self.theory or x.shape != self.shape[1:]:
            found, first = registry.told_by(settings), registry.told_by(self.settings)
            raise UserError(f"{path} is of {found}, but {self._paths[0]} of {first}: measure them one after the other.")
        return x


def measure_files(
    paths: Sequence[Path], theory: str | None, given: Mapping[str, Any], occasional: Occasional = NONE
) -> Measurements:
    """Measure configurations in files that people exchange, one each, as one chain in their order.

    The files tell theory and size; what is `given` beside it, such as couplings, is that of the exact values.
    """
    files = _Files(paths)
    if theory not in (None, files.theory):
        raise UserError(f"{paths[0]} is of {registry.told_by(files.settings)}, not of {theory}.")
    settings = dataclasses.replace(files.settings, **given)
    unknown = {field.name for field in fields_of(type(settings))} - given.keys() - {*settings.told_by_shape}
    return _measure(files, settings.build(), settings.describe(), unknown, occasional)


def measure_file(
    path: Path,
    settings_of: Callable[[tuple[int, ...]], TargetSettings],
    dataset: str | None = None,
    occasional: Occasional = NONE,
) -> Measurements:
    """The same for configurations in a file, whose shape tells the target; or a `UserError` that there is none."""
    with _opened(path, dataset) as array:
        settings = settings_of(array.shape)
        return _measure(array, settings.build(), settings.describe(), (), occasional)


@contextmanager
def _opened(path: Path, dataset: str | None) -> Iterator[Any]:
    """An array that is read piece by piece."""
    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    if path.suffix == ".npy":
        yield load_array(path)
    elif path.suffix in (".h5", ".hdf5", ".nc"):
        h5py = required("h5py", "netcdf", str(path))
        try:
            file = h5py.File(path, "r")
        except OSError as error:
            raise UserError(f"{path} is no HDF5 file: {error}.") from None
        with file:
            found: dict[str, Any] = {}
            file.visititems(lambda key, item: found.update({key: item} if isinstance(item, h5py.Dataset) else {}))
            names = ", ".join(found) or "none"
            if dataset is None and len(found) != 1:
                raise UserError(
                    f"{path} holds several arrays, or none: give {Setting('dataset')} (there are: {names})."
                )
            if dataset not in (None, *found):
                raise UserError(f"{path} has no array '{dataset}': there are {names}.")
            yield found[dataset or names]
    else:
        known = ", ".join(form.title for form in registry.formats().values())
        raise UserError(f"{path} has no known format: give an .npy or an HDF5 file (.h5, .hdf5, .nc), or {known}.")
