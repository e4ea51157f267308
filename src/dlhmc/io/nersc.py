"""NERSC archives (Gauge Connection): a text header and links in order of sites, with a checksum.

As Grid (Grid/parallelIO/NerscIO.h, MetaData.h) reads and writes them, for SU(N) as well: `4D_SU3_GAUGE_3x3` has whole
matrices, `4D_SU3_GAUGE` all rows but the last, which follows from det U = 1.
"""

import datetime
import re
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dlhmc.io.configuration import (
    NUMBER,
    Configuration,
    in_site_order,
    link_trace,
    native,
    plaquette,
    require_equal,
    require_size,
    require_special_unitary,
)

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
    datatype, floating_point = _get(header, "DATATYPE"), _get(header, "FLOATING_POINT")
    kind = re.fullmatch(r"4D_SU(\d)_GAUGE(_\1x\1)?", datatype, re.ASCII)
    numbers = re.fullmatch(r"IEEE(32|64)(BIG|LITTLE|)", floating_point)
    if kind is None:
        raise ValueError(f"its DATATYPE is {datatype[:80]!r}, but must be 4D_SU3_GAUGE or 4D_SU3_GAUGE_3x3")
    if numbers is None:
        raise ValueError(
            f"its FLOATING_POINT is {floating_point[:80]!r}, but must be IEEE32BIG, IEEE64LITTLE or the like"
        )
    lattice = tuple(_integer(header, f"DIMENSION_{number}") for number in range(1, 5))
    colors, precision = int(kind[1]), int(numbers[1])
    rows = colors if kind[2] else colors - 1
    require_size(lattice, colors, 4 * rows * colors * 2 * precision // 8, len(payload))
    checksum = int(_matching(header, "CHECKSUM", r"(?:0x)?[\da-fA-F]{1,8}"), 16)
    order = _verified_order(payload, checksum, _ORDERS.get(numbers[2]))
    stored = np.frombuffer(payload, f"{order}c{precision // 4}").reshape(*lattice[::-1], 4, rows, colors)
    links = native(in_site_order(stored))
    if rows < colors:
        links = _with_last_row(links)
    require_special_unitary(links)
    found = {"plaquette": plaquette(links), "link_trace": link_trace(links)}
    for name, value in found.items():
        if name.upper() in header:
            require_equal(name.replace("_", " "), _number(header, name.upper()), value)
    facts = {"format": "nersc", "precision": precision, "checksum": f"{checksum:x}"}
    return Configuration(links, facts | found | {"metadata": header})


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
    stored = np.ascontiguousarray(in_site_order(configuration.links)[..., :rows, :], f"{order}c{precision // 4}")
    # of the links as they will be read
    links = native(in_site_order(stored))
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
        "CHECKSUM": f"{_checksum(stored.tobytes(), order):x}",
        **{key: _one_line(known.get(key, text)) for key, text in _DEFAULTS.items()},
        "CREATOR_HARDWARE": "",
        "CREATION_DATE": _one_line(known.get("CREATION_DATE", now)),
        "ARCHIVE_DATE": now,
        "FLOATING_POINT": f"IEEE{precision}{byte_order.upper()}",
    }
    lines = "".join(f"\n{key} = {value}" for key, value in header.items())
    return _BEGIN + lines.encode() + _END + stored.tobytes()


def _parse(text: bytes) -> dict[str, str]:
    lines = text.decode(errors="replace").splitlines()[1:]
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _get(header: dict[str, str], key: str) -> str:
    if key not in header:
        raise ValueError(f"its header has no {key}")
    return header[key]


def _matching(header: dict[str, str], key: str, pattern: str) -> str:
    text = _get(header, key)
    if not re.fullmatch(pattern, text, re.ASCII):
        raise ValueError(f"its {key} is {text[:80]!r}")
    return text


def _integer(header: dict[str, str], key: str) -> int:
    return int(_matching(header, key, r"\d{1,9}"))


def _number(header: dict[str, str], key: str) -> float:
    return float(_matching(header, key, NUMBER))


def _one_line(text: str) -> str:
    """Without what some programs take for the end of the header."""
    return " ".join(text.replace("END_HEADER", "").split())


def _checksum(payload: bytes | memoryview, order: str) -> int:
    """The sum of all words of 32 bits; of a number of 64 bits both halves count, so their order does not matter."""
    return int(np.frombuffer(payload, f"{order}u4").sum(dtype=np.uint64)) % 2**32


def _verified_order(payload: memoryview, checksum: int, order: str | None) -> str:
    """The byte order for which the checksum is right.

    What IEEE32 without an order means depends on the program: QDP++ and qlua say big endian, Grid and PyQUDA little.
    """
    found = {one: _checksum(payload, one) for one in ([order] if order else _ORDERS.values())}
    for one, value in found.items():
        if value == checksum:
            return one
    values = " or ".join(f"{value:x}" for value in found.values())
    raise ValueError(f"its checksum is wrong: the file says {checksum:x}, but its links give {values}")


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
