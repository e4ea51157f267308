"""Reading and writing of configurations, whatever their format."""

import dataclasses
from typing import Any

import numpy as np

from dlhmc.errors import UserError
from dlhmc.files import AnyPath, read_regular, write_whole
from dlhmc.io import ildg, nersc, openqcd
from dlhmc.io.configuration import Configuration, native, require_special_unitary

#: modules with a `TITLE`, `recognises` for the first bytes of a file, `decode` and `encode`, which raise ValueError for
#: what is wrong with it, by the names that users call them; openQCD's has no mark of its own, so it comes last
FORMATS = {"nersc": nersc, "ildg": ildg, "openqcd": openqcd}


def read(path: AnyPath) -> Configuration:
    """The configuration in a file, whose content tells the format.

    Nothing in the file is trusted: checksum, plaquette, trace of the links and unitarity are verified.
    """
    try:
        data = read_regular(path)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise UserError(f"{path} cannot be read: {reason}.") from None
    for form in FORMATS.values():
        if form.recognises(data[:64]):
            try:
                # What is not a number in a file is not worth a warning: it is refused.
                with np.errstate(all="ignore"):
                    return form.decode(data)
            except ValueError as error:
                raise UserError(f"{path} cannot be read as {form.TITLE}: {error}.") from None
            except MemoryError:
                raise UserError(f"{path} does not fit into memory.") from None
    known = ", ".join(form.TITLE for form in FORMATS.values())
    raise UserError(f"{path} is of an unknown format, none of these: {known}.")


def write(path: AnyPath, configuration: Configuration, format: str, **options: Any) -> None:
    """Write a configuration in one of `FORMATS`, in one piece.

    Options are `precision` of 32 or 64 bits, 64 by default, for NERSC and ILDG; for NERSC also `compressed`, which
    leaves out the last row of each matrix, and `byte_order`, "big" or "little". What the header of the configuration
    says of its origin is kept where the format has a place for it.

    >>> import os, tempfile
    >>> links = np.broadcast_to(np.eye(3, dtype=complex), (4, 2, 2, 2, 4, 3, 3))
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write(os.path.join(directory, "cold"), Configuration(links), "nersc", precision=32)
    ...     read(os.path.join(directory, "cold")).header["plaquette"]
    1.0
    """
    data = encode(configuration, format, **options)
    try:
        write_whole(path, data)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None


def encode(configuration: Configuration, format: str, **options: Any) -> bytes:
    """What `write` writes."""
    if format not in FORMATS:
        raise UserError(f"There is no format '{format}' of configurations: choose one of {', '.join(FORMATS)}.")
    form, links = FORMATS[format], np.asarray(configuration.links)
    shape = links.shape
    if len(shape) != 7 or shape[0] != 4 or shape[-1] != shape[-2] or shape[-1] < 2 or 0 in shape:
        raise UserError(f"Links have the shape {list(shape)}, but files hold those of SU(N), [4, x, y, z, t, N, N].")
    try:
        with np.errstate(all="ignore"):
            configuration = dataclasses.replace(configuration, links=native(links))
            require_special_unitary(configuration.links)
            return form.encode(configuration, **options)
    except ValueError as error:
        raise UserError(f"The configuration cannot be written as {form.TITLE}: {error}.") from None
