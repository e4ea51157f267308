"""Files as the rest of the package sees them: links of a target, x[N, N, μ, *site], from files and back."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlhmc.errors import UserError
from dlhmc.io import exchange
from dlhmc.io.configuration import Configuration, Links
from dlhmc.theories.contract import FileFormat, StoredConfiguration

# Replica and number of a configuration, as CLS and openQCD write them; NERSC archives end with the number.
_NAMES = {
    "nersc": "{run}r{chain}.{trajectory}",
    "ildg": "{run}r{chain}n{trajectory}.lime",
    "openqcd": "{run}r{chain}n{trajectory}",
}


@functools.cache
def formats() -> dict[str, FileFormat]:
    """For SU(N) in four dimensions."""
    return {
        name: FileFormat(form.TITLE, form.recognises, _read, functools.partial(_encode, name), _NAMES[name])
        for name, form in exchange.FORMATS.items()
    }


def _read(path: Path) -> StoredConfiguration:
    configuration = exchange.read(path)
    return StoredConfiguration(f"su{configuration.colors}", np.moveaxis(configuration.links, (-2, -1), (0, 1)))


def _encode(format: str, x: NDArray[Any], run: str, trajectory: int) -> bytes:
    if x.shape[2] != 4:
        raise UserError(f"The format {format} is for lattices of four dimensions, and this one has {x.shape[2]}.")
    links = _projected(np.moveaxis(np.asarray(x, np.complex128), (0, 1), (-2, -1)))
    metadata = {"ENSEMBLE_ID": run, "SEQUENCE_NUMBER": str(trajectory)}
    return exchange.encode(Configuration(links, {"metadata": metadata}), format)


def _projected(links: Links) -> Links:
    """Links of single precision as elements of SU(N) in double precision: two Newton steps, then the determinant."""
    for _ in range(2):
        links = 1.5 * links - 0.5 * links @ (links.conj().swapaxes(-1, -2) @ links)
    phase = np.angle(np.linalg.det(links)) / links.shape[-1]
    return links * np.exp(-1j * phase)[..., None, None]
