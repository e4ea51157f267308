"""ILDG's configurations: records of LIME, big endian, in order of sites, with SciDAC's checksum.

The records and their order are those of QIO (lib/qio/QIO_write.c) and Grid (Grid/parallelIO/IldgIO.h), which Chroma and
MILC read; `ildg-data-lfn` is there because Grid insists. SU(N) other than SU(3) is `suNgauge`, as in Grid.
"""

import re
import zlib
from collections.abc import Mapping
from typing import Any, Literal
from xml.parsers import expat
from xml.sax.saxutils import escape

import numpy as np

from dlhmc.io import lime
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
from dlhmc.io.lime import Record, recognises

__all__ = ["decode", "encode", "recognises"]

#: far more than XML of any program has
_MOST_TEXT = 2**16
_FORMAT, _LINKS, _CHECKSUM = "ildg-format", "ildg-binary-data", "scidac-checksum"
_RECORD, _INFO, _LFN = "scidac-private-record-xml", "scidac-record-xml", "ildg-data-lfn"
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
    colors = int(_matching(described, "field", r"su\dgauge")[2])
    precision = int(_matching(described, "precision", "32|64"))
    lattice = tuple(int(_matching(described, side, r"\d{1,9}")) for side in ("lx", "ly", "lz", "lt"))
    payload = by_type[_LINKS]
    site = 4 * colors**2 * 2 * precision // 8
    require_size(lattice, colors, site, len(payload))
    checksum = _verified_checksum(payload, site, by_type.get(_CHECKSUM))
    stored = np.frombuffer(payload, f">c{precision // 4}").reshape(*lattice[::-1], 4, colors, colors)
    links = native(in_site_order(stored))
    require_special_unitary(links)
    found = {"plaquette": plaquette(links), "link_trace": link_trace(links)}
    _verify_info(by_type.get(_INFO, b""), found)
    facts = {"format": "ildg", "precision": precision, "checksum": checksum}
    texts = {
        record.type: _text(record) for record in records if record.type != _LINKS and len(record.data) <= _MOST_TEXT
    }
    return Configuration(links, facts | found | {"metadata": texts})


def encode(configuration: Configuration, *, precision: Literal[32, 64] = 64) -> bytes:
    """A file as QIO writes it."""
    colors, lattice = configuration.colors, configuration.lattice
    stored = np.ascontiguousarray(in_site_order(configuration.links), f">c{precision // 4}")
    payload, site = stored.tobytes(), 4 * colors**2 * 2 * precision // 8
    links = native(in_site_order(stored))  # as they will be read
    suma, sumb = _checksums(payload, site)
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
        "typesize": str(site // 4),
        "datacount": "4",
    }
    described = {"version": "1.0", "field": f"su{colors}gauge", "precision": str(precision)}
    described |= dict(zip(("lx", "ly", "lz", "lt"), map(str, lattice), strict=True))
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
    found: dict[str, str] = {}
    texts: list[str] = []

    def refuse(*_: Any) -> None:
        raise ValueError(f"the XML of its record '{what}' declares a document type, which none of its kind does")

    def end(name: str) -> None:
        found.setdefault(name.rpartition(" ")[2], "".join(texts).strip())
        texts.clear()

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.StartElementHandler = lambda *_: texts.clear()
    parser.CharacterDataHandler = texts.append
    parser.EndElementHandler = end
    try:
        parser.Parse(bytes(data).rstrip(b"\0"), True)
    except expat.ExpatError as error:
        raise ValueError(f"the XML of its record '{what}' is damaged ({error})") from None
    return found


def _matching(leaves: Mapping[str, str], name: str, pattern: str) -> str:
    if name not in leaves:
        raise ValueError(f"its XML has no <{name}>")
    if not re.fullmatch(pattern, leaves[name], re.ASCII):
        raise ValueError(f"its XML says {leaves[name][:80]!r} as <{name}>")
    return leaves[name]


def _text(record: Record) -> str:
    return bytes(record.data).rstrip(b"\0").decode(errors="replace")


def _verified_checksum(payload: memoryview | bytes, site: int, record: memoryview | bytes | None) -> str | None:
    """Of a file that has one."""
    if record is None:
        return None
    leaves = _leaves(record, _CHECKSUM)
    stored = tuple(int(_matching(leaves, name, r"[\da-fA-F]{1,8}"), 16) for name in ("suma", "sumb"))
    found = _checksums(payload, site)
    said, given = (" ".join(f"{value:x}" for value in sums) for sums in (stored, found))
    if stored != found:
        raise ValueError(f"its checksum is wrong: the file says {said}, but its links give {given}")
    return said


def _checksums(payload: memoryview | bytes, site: int) -> tuple[int, int]:
    """SciDAC's: the CRC-32 of each site's data, rotated by the number of the site modulo 29 and 31, all XORed."""
    view = memoryview(payload)
    sums = np.array([zlib.crc32(view[at : at + site]) for at in range(0, len(view), site)], np.uint64)
    numbers = np.arange(len(sums), dtype=np.uint64)

    def rotated(by: np.ndarray) -> int:
        return int(np.bitwise_xor.reduce((sums << by | sums >> (32 - by)) & 0xFFFFFFFF))

    return rotated(numbers % 29), rotated(numbers % 31)


def _verify_info(record: memoryview | bytes, found: Mapping[str, float]) -> None:
    """Plaquette and trace, where a program has left them (Grid, MILC)."""
    if b"usqcdInfo" not in bytes(record[:_MOST_TEXT]):
        return
    leaves = _leaves(record, _INFO)
    for name, value in {"plaq": found["plaquette"], "linktr": found["link_trace"]}.items():
        if name in leaves:
            text = _matching(leaves, name, NUMBER)
            require_equal({"plaq": "plaquette", "linktr": "link trace"}[name], float(text), value)
