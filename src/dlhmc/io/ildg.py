"""ILDG's configurations: records of LIME, big endian, in order of sites, with SciDAC's checksum.

The records and their order are those of QIO (lib/qio/QIO_write.c) and Grid (Grid/parallelIO/IldgIO.h), which Chroma and
MILC read; `ildg-data-lfn` is there because Grid insists. SU(N) other than SU(3) is `suNgauge`, as in Grid.
"""

import math
import zlib
from collections.abc import Iterable, Mapping
from typing import Literal
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import numpy as np

from dlhmc.io import lime
from dlhmc.io.configuration import (
    NUMBER,
    Configuration,
    from_sites,
    link_trace,
    matching,
    plaquette,
    require_checksum,
    to_sites,
    verified,
)
from dlhmc.io.lime import Record, recognises

__all__ = ["TITLE", "decode", "encode", "recognises"]

TITLE = "an ILDG file"

#: far more than XML of any program has
_MOST_TEXT = 2**16
_FORMAT, _LINKS, _CHECKSUM = "ildg-format", "ildg-binary-data", "scidac-checksum"
_RECORD, _INFO, _LFN = "scidac-private-record-xml", "scidac-record-xml", "ildg-data-lfn"
_SIDES = ("lx", "ly", "lz", "lt")
_PROLOG = '<?xml version="1.0" encoding="UTF-8"?>'
_SCHEMA = {
    "xmlns": "http://www.lqcd.org/ildg",
    "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
    "xsi:schemaLocation": "http://www.lqcd.org/ildg filefmt.xsd",
}


def decode(data: bytes) -> Configuration:
    """The configuration in a file; ValueError for whatever is wrong with it."""
    records = lime.decode(data)
    kinds = [record.type for record in records]
    for kind in (_FORMAT, _LINKS):
        if kinds.count(kind) != 1:
            raise ValueError(f"it has {kinds.count(kind)} records '{kind}', but must have one")
    by_type = {record.type: record.data for record in reversed(records)}
    if _RECORD in by_type and _CHECKSUM not in by_type:
        raise ValueError(f"its record '{_CHECKSUM}' is missing")  # QIO always writes it; ILDG does not ask for it
    described = _leaves(by_type[_FORMAT], _FORMAT)
    colors = int(matching(described, "field", r"su\dgauge")[2])
    precision = int(matching(described, "precision", "32|64"))
    lattice = [int(matching(described, side, r"\d{1,9}")) for side in _SIDES]
    payload = by_type[_LINKS]
    links = from_sites(payload, f">c{precision // 4}", lattice, colors, colors)
    checksum = None
    if _CHECKSUM in by_type:
        leaves = _leaves(by_type[_CHECKSUM], _CHECKSUM)
        sums = (int(matching(leaves, name, r"[\da-fA-F]{1,8}"), 16) for name in ("suma", "sumb"))
        checksum = _shown(sums)
        require_checksum(checksum, _shown(_checksums(payload, math.prod(lattice))))
    # where a program has left them (Grid, MILC)
    info = by_type.get(_INFO, b"")
    leaves = _leaves(info, _INFO) if b"usqcdInfo" in bytes(info[:_MOST_TEXT]) else {}
    names = {"plaq": "plaquette", "linktr": "link_trace"}
    stated = {names[name]: float(matching(leaves, name, NUMBER)) for name in names if name in leaves}
    texts = {
        kind: bytes(content).rstrip(b"\0").decode(errors="replace")
        for kind, content in records
        if kind != _LINKS and len(content) <= _MOST_TEXT
    }
    return verified(links, stated, texts, format="ildg", precision=precision, checksum=checksum)


def encode(configuration: Configuration, *, precision: Literal[32, 64] = 64) -> bytes:
    """A file as QIO writes it."""
    colors, lattice = configuration.colors, configuration.lattice
    dtype = f">c{precision // 4}"
    payload = to_sites(configuration.links, dtype).tobytes()
    links = from_sites(payload, dtype, lattice, colors, colors)  # as they will be read
    suma, sumb = _checksums(payload, math.prod(lattice))
    letter = {32: "F", 64: "D"}[precision]
    info = {"version": "1.0", "plaq": f"{plaquette(links):.15g}", "linktr": f"{link_trace(links):.15g}", "info": ""}
    file = {"version": "1.1", "spacetime": "4", "dims": " ".join(map(str, lattice)), "volfmt": "0"}
    record = {
        "version": "1.1",
        "date": "",
        "recordtype": "0",
        "datatype": f"QDP_{letter}{colors}_ColorMatrix",
        "precision": letter,
        "colors": str(colors),
        "spins": "4",
        "typesize": str(2 * colors**2 * precision // 8),
        "datacount": "4",
    }
    described = {"version": "1.0", "field": f"su{colors}gauge", "precision": str(precision)}
    described |= dict(zip(_SIDES, map(str, lattice), strict=True))
    name = configuration.metadata.get(_LFN, "lfn://dlhmc/unregistered")
    return lime.encode(
        [
            [
                Record("scidac-private-file-xml", _xml("scidacFile", file)),
                Record("scidac-file-xml", _xml("usqcdInfo", info)),
            ],
            [
                Record(_RECORD, _xml("scidacRecord", record)),
                Record(_INFO, _xml("usqcdInfo", info)),
                Record(_FORMAT, _xml("ildgFormat", described, _SCHEMA)),
                Record(_LFN, name.encode()),
                Record(_LINKS, payload),
                Record(_CHECKSUM, _xml("scidacChecksum", {"version": "1.0", "suma": f"{suma:x}", "sumb": f"{sumb:x}"})),
            ],
        ]
    )


def _xml(root: str, leaves: Mapping[str, str], attributes: Mapping[str, str] | None = None) -> bytes:
    opening = " ".join([root, *(f'{key}="{value}"' for key, value in (attributes or {}).items())])
    inside = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in leaves.items())
    return f"{_PROLOG}<{opening}>{inside}</{root}>".encode()


def _leaves(data: memoryview | bytes, what: str) -> dict[str, str]:
    """The texts of elements by their names without namespaces; no declarations, so no entities, from strangers."""
    if len(data) > _MOST_TEXT:
        raise ValueError(f"its record '{what}' is larger than {_MOST_TEXT // 2**10} KB")
    text = bytes(data).rstrip(b"\0").decode(errors="replace")
    if "<!DOCTYPE" in text:
        raise ValueError(f"the XML of its record '{what}' declares a document type, which none of its kind does")
    try:
        elements = list(ElementTree.fromstring(text).iter())  # noqa: S314 - without declarations no entities
    except ElementTree.ParseError as error:
        raise ValueError(f"the XML of its record '{what}' is damaged ({error})") from None
    # The first one of a name counts.
    return {element.tag.rpartition("}")[2]: (element.text or "").strip() for element in reversed(elements)}


def _shown(sums: Iterable[int]) -> str:
    return " ".join(f"{value:x}" for value in sums)


def _checksums(payload: memoryview | bytes, sites: int) -> tuple[int, int]:
    """SciDAC's: the CRC-32 of each site's data, rotated by the number of the site modulo 29 and 31, all XORed."""
    view, size = memoryview(payload), len(payload) // sites
    sums = np.array([zlib.crc32(view[at : at + size]) for at in range(0, len(view), size)], np.uint64)
    numbers = np.arange(sites, dtype=np.uint64)

    def rotated(by: np.ndarray) -> int:
        return int(np.bitwise_xor.reduce((sums << by | sums >> (32 - by)) & 0xFFFFFFFF))

    return rotated(numbers % 29), rotated(numbers % 31)
