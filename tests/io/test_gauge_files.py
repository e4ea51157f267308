"""Files are read back, and have the bytes that other programs expect."""

import math
import os
import struct

import numpy as np
import pytest

from dlhmc.errors import UserError
from dlhmc.io import FORMATS, Configuration, lime, read, write
from gauge_links import (
    at_odd_sites,
    in_site_order,
    nersc_checksum,
    plaquette,
    random_links,
    scidac_checksum,
)

LATTICE = (2, 4, 6, 8)
VARIANTS = [
    *(("nersc", {"precision": p, "compressed": c, "byte_order": o})
      for p in (32, 64) for c in (False, True) for o in ("big", "little")),
    ("ildg", {"precision": 32}),
    ("ildg", {"precision": 64}),
    ("openqcd", {}),
]  # fmt: skip


@pytest.mark.parametrize(("form", "options"), VARIANTS)
def test_links_come_back(form, options, tmp_path):
    links = random_links(LATTICE)
    write(tmp_path / "a", Configuration(links), form, **options)
    found = read(tmp_path / "a")
    assert found.links.dtype == np.complex128
    assert found.links.flags.c_contiguous
    assert (found.lattice, found.colors) == (LATTICE, 3)
    assert found.header["format"] == form
    assert found.header["precision"] == options.get("precision", 64)
    tolerance = 1e-14 if found.header["precision"] == 64 else 2e-7
    np.testing.assert_allclose(found.links, links, rtol=0, atol=tolerance)
    assert found.header["plaquette"] == pytest.approx(plaquette(links), abs=tolerance)
    assert found.header["link_trace"] == pytest.approx(np.einsum("...ii->...", links).real.mean() / 3, abs=tolerance)
    # What is written again is the same to the last bit: nothing is lost on the way.
    write(tmp_path / "b", found, form, **options)
    np.testing.assert_array_equal(read(tmp_path / "b").links, found.links)


@pytest.mark.parametrize("colors", [2, 4])
@pytest.mark.parametrize(("form", "options"), [variant for variant in VARIANTS if variant[0] != "openqcd"])
def test_other_groups_and_odd_sides(colors, form, options, tmp_path):
    links = random_links((3, 1, 2, 5), colors)
    write(tmp_path / "a", Configuration(links), form, **options)
    found = read(tmp_path / "a")
    assert found.colors == colors
    np.testing.assert_allclose(found.links, links, rtol=0, atol=1e-14 if options["precision"] == 64 else 3e-7)


def nersc_parts(data):
    text, payload = data.split(b"END_HEADER\n", 1)
    lines = text.decode().splitlines()
    assert lines[0] == "BEGIN_HEADER"
    return {key.strip(): value.strip() for key, value in (line.split("=") for line in lines[1:])}, payload


@pytest.mark.parametrize(
    ("options", "datatype", "floating_point", "code", "rows"),
    [
        ({}, "4D_SU3_GAUGE_3x3", "IEEE64BIG", ">dd", 3),
        ({"compressed": True, "precision": 32}, "4D_SU3_GAUGE", "IEEE32BIG", ">ff", 2),
        ({"compressed": True, "byte_order": "little"}, "4D_SU3_GAUGE", "IEEE64LITTLE", "<dd", 2),
        ({"precision": 32, "byte_order": "little"}, "4D_SU3_GAUGE_3x3", "IEEE32LITTLE", "<ff", 3),
    ],
)
def test_bytes_of_nersc(options, datatype, floating_point, code, rows, tmp_path):
    links = random_links(LATTICE)
    write(tmp_path / "a", Configuration(links), "nersc", **options)
    header, payload = nersc_parts((tmp_path / "a").read_bytes())
    assert payload == in_site_order(links, code, rows)
    assert header["DATATYPE"] == datatype
    assert header["FLOATING_POINT"] == floating_point
    assert [header[f"DIMENSION_{number}"] for number in (1, 2, 3, 4)] == ["2", "4", "6", "8"]
    assert int(header["CHECKSUM"], 16) == nersc_checksum(payload, code[0])
    assert float(header["PLAQUETTE"]) == pytest.approx(plaquette(links), abs=1e-9)


@pytest.mark.parametrize("byte_order", ["big", "little"])
@pytest.mark.parametrize("precision", [32, 64])
def test_the_checksum_tells_the_byte_order_if_the_header_does_not(byte_order, precision, tmp_path):
    write(tmp_path / "a", Configuration(random_links(LATTICE)), "nersc", precision=precision, byte_order=byte_order)
    expected = read(tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    (tmp_path / "b").write_bytes(data.replace(f"{precision}{byte_order.upper()}".encode(), f"{precision}".encode()))
    np.testing.assert_array_equal(read(tmp_path / "b").links, expected.links)


def test_an_archive_keeps_its_origin(tmp_path):
    header = {"metadata": {"ENSEMBLE_ID": "beta 6.0\nEND_HEADER", "SEQUENCE_NUMBER": "1200"}}
    write(tmp_path / "a", Configuration(random_links((2, 2, 2, 2)), header), "nersc")
    write(tmp_path / "b", read(tmp_path / "a"), "nersc", precision=32)
    found = read(tmp_path / "b").metadata
    assert found["SEQUENCE_NUMBER"] == "1200"
    assert found["ENSEMBLE_ID"] == "beta 6.0"


@pytest.mark.parametrize(("precision", "code"), [(32, ">ff"), (64, ">dd")])
def test_bytes_of_ildg(precision, code, tmp_path):
    links = random_links(LATTICE)
    write(
        tmp_path / "a", Configuration(links, {"metadata": {"ildg-data-lfn": "lfn://a/b"}}), "ildg", precision=precision
    )
    data = (tmp_path / "a").read_bytes()
    found, flags, at = {}, [], 0
    while at < len(data):
        magic, version, flag, size, kind = struct.unpack(">IHHQ128s", data[at : at + 144])
        assert (magic, version) == (0x456789AB, 1)
        found[kind.rstrip(b"\0").decode()] = data[at + 144 : at + 144 + size]
        flags.append(flag >> 14)
        at += 144 + math.ceil(size / 8) * 8
    assert list(found) == [
        "scidac-private-file-xml",
        "scidac-file-xml",
        "scidac-private-record-xml",
        "scidac-record-xml",
        "ildg-format",
        "ildg-data-lfn",
        "ildg-binary-data",
        "scidac-checksum",
    ]
    # Messages begin (2) with private records and end (1) with those of the user and the checksum, as in QIO.
    assert flags == [2, 1, 2, 0, 0, 0, 0, 1]
    payload = found["ildg-binary-data"]
    assert payload == in_site_order(links, code, 3)
    suma, sumb = scidac_checksum(payload, math.prod(LATTICE))
    assert f"<suma>{suma:x}</suma><sumb>{sumb:x}</sumb>".encode() in found["scidac-checksum"]
    assert b"<lx>2</lx><ly>4</ly><lz>6</lz><lt>8</lt>" in found["ildg-format"]
    assert f"<precision>{precision}</precision>".encode() in found["ildg-format"]
    assert found["ildg-data-lfn"] == b"lfn://a/b"
    assert read(tmp_path / "a").metadata["ildg-data-lfn"] == "lfn://a/b"


def test_ildg_as_other_programs_write_it(tmp_path):
    """As tmLQCD: other records, white space in XML, the records in messages of their own, no padding at the end."""
    links = random_links(LATTICE)
    payload = in_site_order(links, ">dd", 3)
    suma, sumb = scidac_checksum(payload, math.prod(LATTICE))
    xml = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<ildgFormat xmlns="http://www.lqcd.org/ildg">\n'
        "  <version> 1.0 </version>\n  <field> su3gauge </field>\n  <precision> 64 </precision>\n"
        "  <lx> 2 </lx>\n  <ly> 4 </ly>\n  <lz> 6 </lz>\n  <lt> 8 </lt>\n</ildgFormat>"
    )
    checksum = f"<scidacChecksum><suma>{suma:08X}</suma><sumb>{sumb:08x}</sumb></scidacChecksum>\n\0"
    records = [
        lime.Record("xlf-info", b"plaquette = 0.5\n trajectory nr = 7"),
        lime.Record("ildg-format", xml.encode()),
        lime.Record("ildg-binary-data", payload),
        lime.Record("scidac-checksum", checksum.encode()),
    ]
    (tmp_path / "a").write_bytes(lime.encode([record] for record in records).rstrip(b"\0") + b"\0")
    found = read(tmp_path / "a")
    np.testing.assert_array_equal(found.links, links)
    assert found.header["checksum"] == f"{suma:x} {sumb:x}"
    assert found.metadata["xlf-info"] == "plaquette = 0.5\n trajectory nr = 7"
    (tmp_path / "b").write_bytes(lime.encode([[record] for record in records[:-1]]))
    assert read(tmp_path / "b").header["checksum"] is None


def test_bytes_of_openqcd(tmp_path):
    links = random_links(LATTICE)
    write(tmp_path / "a", Configuration(links), "openqcd")
    data = (tmp_path / "a").read_bytes()
    *sides, stored = struct.unpack("<4id", data[:24])
    assert sides == [8, 2, 4, 6]
    volume = math.prod(LATTICE)
    # what openQCD itself asks for
    assert abs(stored - 3 * plaquette(links)) < math.sqrt(6 * volume) * np.finfo(float).eps
    assert data[24:] == at_odd_sites(links)


def test_what_cannot_be_written(tmp_path):
    links = random_links((2, 2, 2, 2))
    path = tmp_path / "a"
    for wrong, form, reason in [
        (links[0], "nersc", "shape"),
        (links.real, "nersc", "not unitary"),
        (2 * links, "ildg", "not unitary"),
        (np.exp(0.1j) * links, "ildg", "determinants"),
        (np.full_like(links, np.nan), "openqcd", "not unitary"),
        (random_links((2, 2, 3, 2)), "openqcd", "even"),
        (random_links((2, 2, 2, 2), colors=2), "openqcd", r"SU\(3\)"),
        (links, "milc", "nersc, ildg, openqcd"),
    ]:
        with pytest.raises(UserError, match=reason):
            write(path, Configuration(wrong), form)
    with pytest.raises(UserError, match="cannot be written"):
        write(tmp_path / "missing" / "a", Configuration(links), "nersc")
    assert os.listdir(tmp_path) == []


def test_formats_are_told_by_their_first_bytes(tmp_path):
    for form in FORMATS:
        write(tmp_path / form, Configuration(random_links((2, 2, 2, 4))), form)
    for form in FORMATS:
        head = (tmp_path / form).read_bytes()[:64]
        assert [name for name, one in FORMATS.items() if one.recognises(head)] == [form]
