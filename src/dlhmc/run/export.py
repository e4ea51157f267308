"""Histories for other programs: netCDF-4, which is HDF5 as well, and comma-separated values; and configurations."""

from pathlib import Path

import numpy as np
import xarray as xr

from dlhmc.errors import Setting, UserError, required
from dlhmc.files import write_whole
from dlhmc.run.describe import known_theory
from dlhmc.run.history import CONFIGURATIONS
from dlhmc.run.show import index_of
from dlhmc.theories import registry

_NETCDF = (".nc", ".h5")
_FORMATS = (*_NETCDF, ".csv")


def write(data: xr.Dataset, path: Path) -> None:
    """Write a dataset in the format that the file name asks for; a file that exists is left alone.

    `.nc` and `.h5` hold everything: dimensions, attributes, kept configurations. `.csv` is a row for each trajectory of
    each chain, with a column for each element of an array: name[0,1].
    """
    require_format(path)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        if path.suffix == ".csv":
            _write_table(data, temporary)
        else:
            compressed = {name: {"zlib": True, "complevel": 4} for name, array in data.items() if array.size > 1}
            data.to_netcdf(temporary, engine="h5netcdf", encoding=compressed)
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_configurations(data: xr.Dataset, folder: Path, format: str, run: str) -> int:
    """Write kept configurations to files that people exchange, one for each chain and configuration; their number.

    No file that exists is written to. `run` is what their names begin with.
    """
    all_formats = registry.formats()
    if format not in all_formats:
        raise UserError(f"{Setting('format')} is {format!r}, but must be one of {', '.join(all_formats)}.")
    theory = known_theory(data.attrs)
    form = all_formats[format] if theory is not None and "files" in theory.abilities else None
    if form is None:
        target = data.attrs.get("target")
        raise UserError(f"The format {format} cannot hold configurations of the target {target}.")
    if CONFIGURATIONS not in data:
        raise UserError(f"The run has kept no configurations: sample with {Setting('keep_configurations')}.")
    x, kept = data[CONFIGURATIONS], [int(trajectory) for trajectory in data["kept"]]
    # Names in the order of the run.
    wide, tall = max(3, len(str(x.sizes["chain"] - 1))), len(str(data.sizes["trajectory"]))
    number = 0
    for chain in range(x.sizes["chain"]):
        for index, trajectory in enumerate(kept):
            name = form.names.format(run=run, chain=f"{chain:0{wide}}", trajectory=f"{trajectory:0{tall}}")
            path = folder / name
            if path.exists():
                raise UserError(f"{path} exists already: choose another directory.")
            content = form.encode(np.asarray(x[index, ..., chain]), run, trajectory)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                write_whole(path, content)
            except OSError as error:
                raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None
            number += 1
    return number


def require_format(path: Path) -> None:
    """Refuse before any work is done."""
    if path.suffix not in _FORMATS:
        raise UserError(f"{path} has no known format: end it with {', '.join(_FORMATS)}.")
    if path.exists():
        raise UserError(f"{path} exists already: choose another file.")
    if path.suffix in _NETCDF:
        required("h5netcdf", "netcdf", str(path))


def read(path: Path) -> xr.Dataset:
    """A dataset that `write` has written, in memory."""
    if path.suffix not in _NETCDF:
        raise UserError(f"{path} is no dataset: netCDF files end with {' or '.join(_NETCDF)}.")
    required("h5netcdf", "netcdf", str(path))
    try:
        return xr.load_dataset(path, engine="h5netcdf")
    except Exception as error:  # HDF5 raises many kinds for damaged files
        raise UserError(f"{path} is missing or damaged: {error}.") from None


def _write_table(data: xr.Dataset, path: Path) -> None:
    columns = {
        f"{name}{index_of(element)}": array[..., *element].drop_vars(set(array.coords) - {"chain", "trajectory"})
        for name, array in data.items()
        if "trajectory" in array.dims
        for element in np.ndindex(array.shape[2:])
    }
    xr.Dataset(columns).to_dataframe(dim_order=["chain", "trajectory"]).to_csv(path)
