"""NERSC archives (Gauge Connection): a text header and links in order of sites, with a checksum.

As Grid (Grid/parallelIO/NerscIO.h, MetaData.h) reads and writes them, for SU(N) as well: `4D_SU3_GAUGE_3x3` has whole
matrices, `4D_SU3_GAUGE` all rows but the last, which follows from det U = 1.
"""

import datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dlhmc.io.configuration import (
    NUMBER,
    Configuration,
    from_sites,
    link_trace,
    matching,
    plaquette,
    require_checksum,
    require_size,
    to_sites,
    verified,
)

TITLE = "a NERSC archive"
_BEGIN, _END = b"BEGIN_HEADER", b"\nEND_HEADER\n"
_MOST_HEADER = 2**16
_ORDERS = {"BIG": ">", "LITTLE": "<"}
#: what is kept of another archive, and what stands there otherwise
_DEFAULTS = {"ENSEMBLE_ID": "dlhmc", "ENSEMBLE_LABEL": "", "SEQUENCE_NUMBER": "0", "CREATOR": "dlhmc"}


def recognises(head: bytes) -> bool:
    """Whether a file that begins so is an archive."""
    return head.startswith(_BEGIN)


def decode(data: bytes) -> Configuration:
    """The configuration in an archive; ValueError for whatever is wrong with it."""
    end = data.find(_END, 0, _MOST_HEADER)
    if end < 0:
        raise ValueError("its header has no end")
    header = _parse(data[:end])
    payload = memoryview(data)[end + len(_END) :]
    datatype = matching(header, "DATATYPE", r"4D_SU(\d)_GAUGE(_\1x\1)?")
    numbers = matching(header, "FLOATING_POINT", "IEEE(32|64)(BIG|LITTLE|)")
    lattice = [int(matching(header, f"DIMENSION_{number}", r"\d{1,9}")) for number in range(1, 5)]
    colors, precision = int(datatype[5]), int(numbers[4:6])
    rows = colors if datatype.endswith(f"x{colors}") else colors - 1
    require_size(lattice, colors, rows * colors * precision, len(payload))
    checksum = f"{int(matching(header, 'CHECKSUM', '(?:0x)?[0-9a-fA-F]{1,8}'), 16):x}"
    # What IEEE32 without an order means depends on the program: QDP++ and qlua say big endian, Grid and PyQUDA little.
    orders = [_ORDERS[numbers[6:]]] if numbers[6:] else list(_ORDERS.values())
    sums = {_checksum(payload, order): order for order in reversed(orders)}
    require_checksum(checksum, *sums)
    links = from_sites(payload, f"{sums[checksum]}c{precision // 4}", lattice, rows, colors)
    if rows < colors:
        links = _with_last_row(links)
    stated = [name for name in ("PLAQUETTE", "LINK_TRACE") if name in header]
    values = {name.lower(): float(matching(header, name, NUMBER)) for name in stated}
    return verified(links, values, header, format="nersc", precision=precision, checksum=checksum)


def encode(
    configuration: Configuration,
    *,
    precision: Literal[32, 64] = 64,
    compressed: bool = False,
    byte_order: Literal["big", "little"] = "big",
) -> bytes:
    """An archive; compressed, it is without the last rows of the matrices."""
    order, colors = _ORDERS[byte_order.upper()], configuration.colors
    rows = colors - 1 if compressed else colors
    dtype = f"{order}c{precision // 4}"
    payload = to_sites(configuration.links[..., :rows, :], dtype).tobytes()
    # as they will be read
    links = from_sites(payload, dtype, configuration.lattice, rows, colors)
    links = _with_last_row(links) if compressed else links
    now = datetime.datetime.now(datetime.UTC).strftime("%a %b %d %H:%M:%S %Y UTC")
    known = configuration.metadata
    header = {
        "HDR_VERSION": "1.0",
        "DATATYPE": f"4D_SU{colors}_GAUGE" + ("" if compressed else f"_{colors}x{colors}"),
        "STORAGE_FORMAT": "1.0",
        **{f"DIMENSION_{number}": str(side) for number, side in enumerate(configuration.lattice, 1)},
        "LINK_TRACE": f"{link_trace(links):.15g}",
        "PLAQUETTE": f"{plaquette(links):.15g}",
        **{f"BOUNDARY_{number}": "PERIODIC" for number in range(1, 5)},
        "CHECKSUM": _checksum(payload, order),
        **{key: _one_line(known.get(key, text)) for key, text in _DEFAULTS.items()},
        "CREATOR_HARDWARE": "",
        "CREATION_DATE": _one_line(known.get("CREATION_DATE", now)),
        "ARCHIVE_DATE": now,
        "FLOATING_POINT": f"IEEE{precision}{byte_order.upper()}",
    }
    lines = "".join(f"\n{key} = {value}" for key, value in header.items())
    return _BEGIN + lines.encode() + _END + payload


def _parse(text: bytes) -> dict[str, str]:
    lines = text.decode(errors="replace").splitlines()[1:]
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _one_line(text: str) -> str:
    """Without what some programs take for the end of the header."""
    return " ".join(text.replace("END_HEADER", "").split())


def _checksum(payload: bytes | memoryview, order: str) -> str:
    """The sum of all words of 32 bits; of a number of 64 bits both halves count, so their order does not matter."""
    return f"{int(np.frombuffer(payload, f'{order}u4').sum(dtype=np.uint64)) % 2**32:x}"


def _with_last_row(rows: NDArray[Any]) -> NDArray[Any]:
    """Matrices of SU(N) from their first N − 1 rows: the last is the complex conjugate of the cofactors.

    >>> _with_last_row(np.array([[0.6, 0.8j]]))
    array([[ 0.6+0.j ,  0. +0.8j],
           [-0. +0.8j,  0.6-0.j ]])
    """
    colors = rows.shape[-1]
    minors = [np.linalg.det(np.delete(rows, column, axis=-1)) for column in range(colors)]
    signs = (-1.0) ** (colors - 1 + np.arange(colors))
    last = (np.stack(minors, axis=-1) * signs).conj()
    return np.concatenate([rows, last[..., None, :]], axis=-2)
