"""LIME, the Lattice QCD Interchange Message Encapsulation: records with a type, each after a header of 144 bytes."""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_HEADER = struct.Struct(">IHHQ128s")
_MAGIC, _VERSION = 0x456789AB, 1
_BEGIN, _END = 1 << 15, 1 << 14
#: no file comes near this
_MOST_RECORDS = 1000


class Record(NamedTuple):
    """A record of a message."""

    type: str
    data: memoryview | bytes


def recognises(head: bytes) -> bool:
    """Whether a file that begins so has records of LIME."""
    return head.startswith(_MAGIC.to_bytes(4))


def decode(data: bytes) -> list[Record]:
    """All records of a file; ValueError if it ends within one of them."""
    records: list[Record] = []
    view, at = memoryview(data), 0
    # Some programs pad the last record, some do not, and some add the end of a line.
    while len(data) - at >= 8:
        if len(records) == _MOST_RECORDS:
            raise ValueError(f"it has more than {_MOST_RECORDS} records")
        if len(data) - at < _HEADER.size:
            raise ValueError("it is truncated: it ends within the header of a record")
        magic, version, _, size, name = _HEADER.unpack_from(data, at)
        if magic != _MAGIC or version != _VERSION:
            raise ValueError(f"there is no record of LIME at byte {at}, where one should begin")
        at += _HEADER.size
        kind = name.partition(b"\0")[0].decode("ascii", errors="replace")
        if size > len(data) - at:
            raise ValueError(
                f"it is truncated: its record {kind!r} has {size} bytes, of which {len(data) - at} are there"
            )
        records.append(Record(kind, view[at : at + size]))
        at += size + -size % 8
    return records


def encode(messages: Iterable[Sequence[Record]]) -> bytes:
    """A file of messages, which are sequences of records."""
    parts = []
    for message in messages:
        for number, (kind, data) in enumerate(message):
            flags = _BEGIN * (number == 0) | _END * (number == len(message) - 1)
            parts += [_HEADER.pack(_MAGIC, _VERSION, flags, len(data), kind.encode()), data, bytes(-len(data) % 8)]
    return b"".join(parts)
