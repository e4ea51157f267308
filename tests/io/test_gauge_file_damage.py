"""Damaged and hostile files are refused in one sentence that says what is wrong."""

import os
import random
import re
import struct

import fuzz
import numpy as np
import pytest

from dlhmc.errors import UserError
from dlhmc.io import FORMATS, Configuration, lime, read, write
from gauge_links import in_site_order, nersc_checksum, random_links, scidac_checksum

LATTICE = (2, 4, 2, 4)
LINKS = random_links(LATTICE)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The bytes of a file in each format."""
    path = tmp_path_factory.mktemp("files")
    for form in FORMATS:
        write(path / form, Configuration(LINKS), form)
    return {form: (path / form).read_bytes() for form in FORMATS}


def refused(data, path, pattern):
    path.write_bytes(data)
    with pytest.raises(UserError, match=pattern) as caught:
        read(path)
    sentence = str(caught.value)
    assert sentence.startswith(str(path))
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 500


def changed(data, pattern, replacement):
    new, count = re.subn(pattern, replacement, data)
    assert count == 1
    return new


def flipped(data, at):
    """One bit of one number, not even among the largest: the top of its mantissa."""
    out = bytearray(data)
    out[at] ^= 0x08
    return bytes(out)


@pytest.mark.parametrize("form", FORMATS)
def test_truncated_files(form, files, tmp_path):
    data = files[form]
    for size in (len(data) - 8, len(data) - 3000, len(data) // 2):
        refused(data[:size], tmp_path / "a", "truncated")
    for size in (0, 1, 3, 20, 100):
        refused(data[:size], tmp_path / "a", "truncated|unknown format|no end")
    refused(data + bytes(16), tmp_path / "a", "too long|no record of LIME|truncated")


def test_a_flipped_bit_is_named_by_the_check_that_sees_it(files, tmp_path):
    path, data = tmp_path / "a", files["nersc"]
    refused(
        flipped(data, len(data) - 15), path, "checksum is wrong: the file says [0-9a-f]+, but its links give [0-9a-f]+"
    )
    data = files["ildg"]
    at = data.index(b"ildg-binary-data") + 128 + 1001
    refused(flipped(data, at), path, "checksum is wrong: the file says [0-9a-f]+ [0-9a-f]+, but its links give")
    refused(flipped(files["openqcd"], 24 + 16 * 100 + 6), path, "not unitary")


@pytest.mark.parametrize(
    ("pattern", "replacement", "reason"),
    [
        (rb"CHECKSUM = .*", b"CHECKSUM = 12ab", "checksum is wrong: the file says 12ab, but"),
        (rb"CHECKSUM = .*", b"CHECKSUM = -1", "its CHECKSUM is '-1'"),
        (rb"CHECKSUM = .*\n", b"", "no CHECKSUM"),
        (rb"PLAQUETTE = .*", b"PLAQUETTE = 0.5", "plaquette is wrong: the file says 0.5, but its links give 0.34"),
        (rb"PLAQUETTE = .*", b"PLAQUETTE = nan", "its PLAQUETTE is 'nan'"),
        (rb"LINK_TRACE = .*", b"LINK_TRACE = 1e999", "link trace is wrong: the file says inf"),
        (rb"DIMENSION_2 = 4", b"DIMENSION_2 = 8", "truncated: its dimensions 2×8×2×4 need"),
        (rb"DIMENSION_2 = 4", b"DIMENSION_2 = 2", "too long: its dimensions 2×2×2×4 need"),
        (rb"DIMENSION_2 = 4", b"DIMENSION_2 = 0", "dimensions are 2×0×2×4"),
        (rb"DIMENSION_2 = 4", b"DIMENSION_2 = -4", "its DIMENSION_2 is '-4'"),
        (rb"DIMENSION_2 = 4", b"DIMENSION_2 = 999999999", "dimensions are .* more than 2 GB"),
        (rb"DIMENSION_2 = 4", b"DIMENSION_2 = " + b"9" * 5000, "its DIMENSION_2 is"),
        (rb"DIMENSION_1 = 2\nDIMENSION_2 = 4", b"DIMENSION_1 = 4\nDIMENSION_2 = 2", "plaquette is wrong"),
        (rb"DATATYPE = .*", b"DATATYPE = 4D_SU3_GAUGE", "too long"),
        (rb"DATATYPE = .*", b"DATATYPE = 4D_SU2_GAUGE_2x2", "too long"),
        (rb"DATATYPE = .*", b"DATATYPE = 4D_SU1_GAUGE_1x1", "with 1 colours"),
        (rb"DATATYPE = .*", b"DATATYPE = 4D_SU3_GAUGE_2x2", "its DATATYPE is"),
        (rb"FLOATING_POINT = .*", b"FLOATING_POINT = IEEE64LITTLE", "checksum is wrong"),
        (rb"FLOATING_POINT = .*", b"FLOATING_POINT = TIDSP32", "its FLOATING_POINT is"),
        (rb"END_HEADER", b"END", "no end"),
    ],
)
def test_headers_of_nersc(pattern, replacement, reason, files, tmp_path):
    refused(changed(files["nersc"], pattern, replacement), tmp_path / "a", reason)


def nersc_of(links, files):
    """An archive whose checksum fits, and which says nothing of plaquette and trace."""
    payload = in_site_order(links, ">dd", 3)
    header = files["nersc"].split(b"END_HEADER\n")[0]
    header = changed(header, rb"(PLAQUETTE|LINK_TRACE) = .*\n(PLAQUETTE|LINK_TRACE) = .*\n", b"")
    header = changed(header, rb"CHECKSUM = .*", f"CHECKSUM = {nersc_checksum(payload, '>'):x}".encode())
    return header + b"END_HEADER\n" + payload


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, 1e200j, 0.9, 1e-320])
def test_links_that_are_none(value, files, tmp_path):
    links = LINKS.copy()
    links[2, 1, 2, 0, 3, 1, 1] = value
    refused(nersc_of(links, files), tmp_path / "a", "not unitary")
    swapped = LINKS.copy()
    swapped[0, 0, 0, 0, 0] = np.diag([1, 1, -1])
    refused(nersc_of(swapped, files), tmp_path / "a", "determinants")
    (tmp_path / "a").write_bytes(nersc_of(LINKS, files))
    np.testing.assert_array_equal(read(tmp_path / "a").links, LINKS)


BOMB = b"""<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]><ildgFormat><field>&c;</field></ildgFormat>"""
OUTSIDE = b"""<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><ildgFormat><field>&a;</field></ildgFormat>"""


def with_record(data, kind, content):
    """The same file with another record, or none."""
    records = [(name, bytes(old) if name != kind else content) for name, old in lime.decode(data)]
    return lime.encode([[lime.Record(*record) for record in records if record[1] is not None]])


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        ("ildg-format", BOMB, "declares a document type"),
        ("ildg-format", BOMB.decode().encode("utf-16"), "XML .* is damaged"),
        ("ildg-format", OUTSIDE, "declares a document type"),
        ("scidac-checksum", BOMB, "declares a document type"),
        ("ildg-format", b"<ildgFormat><field>&a;</field></ildgFormat>", "XML .* is damaged"),
        ("ildg-format", b"<a>" * 10_000, "XML .* is damaged"),
        ("ildg-format", b"<a>" * 100_000, "larger than 64 KB"),
        ("ildg-format", b"<ildgFormat></ildgFormat>", "no field"),
        ("ildg-format", b"", "XML .* is damaged"),
        ("ildg-format", None, "0 records 'ildg-format'"),
        ("ildg-binary-data", None, "0 records 'ildg-binary-data'"),
        ("ildg-binary-data", b"", "truncated"),
        ("scidac-checksum", None, "'scidac-checksum' is missing"),
        ("scidac-checksum", b"<a><suma>1</suma><sumb>abc</sumb></a>", "checksum is wrong: the file says 1 abc, but"),
        ("scidac-checksum", b"<a><suma>1</suma></a>", "no sumb"),
        ("scidac-checksum", b"<a><suma>x</suma></a>", "its suma is .x."),
        ("scidac-record-xml", b"<usqcdInfo><plaq>0.5</plaq></usqcdInfo>", "plaquette is wrong: the file says 0.5"),
        ("scidac-record-xml", b"<usqcdInfo><linktr>0.5</linktr></usqcdInfo>", "link trace is wrong"),
    ],
)
def test_records_of_ildg(kind, content, reason, files, tmp_path):
    refused(with_record(files["ildg"], kind, content), tmp_path / "a", reason)


@pytest.mark.parametrize(
    ("pattern", "replacement", "reason"),
    [
        (rb"<lt>4</lt>", b"<lt>8</lt>", "truncated: its dimensions 2×4×2×8"),
        (rb"<lt>4</lt>", b"<lt>999999999</lt>", "more than 2 GB"),
        (rb"<lt>4</lt>", b"<lt>\xd9\xa4</lt>", "its lt is '٤'"),  # a digit, but none of ASCII
        (rb"<field>su3gauge", b"<field>su9gauge", "truncated"),
        (rb"<field>su3gauge", b"<field>clover", "its field is 'clover'"),
        (rb"(ildgFormat.*<precision>)64", rb"\g<1>32", "too long"),
        (rb"(ildgFormat.*<precision>)64", rb"\g<1>16", "its precision is .16."),
    ],
)
def test_xml_of_ildg(pattern, replacement, reason, files, tmp_path):
    content = {record.type: bytes(record.data) for record in lime.decode(files["ildg"])}["ildg-format"]
    data = with_record(files["ildg"], "ildg-format", changed(content, pattern, replacement))
    refused(data, tmp_path / "a", reason)


def test_headers_of_lime(files, tmp_path):
    data, path = files["ildg"], tmp_path / "a"
    refused(data[:8] + (2**64 - 1).to_bytes(8) + data[16:], path, "truncated: its record 'scidac-private-file-xml' has")
    refused(data[:8] + bytes(8) + data[16:], path, "no record of LIME at byte 144")
    empty = struct.pack(">IHHQ128s", 0x456789AB, 1, 0, 0, b"a")
    refused(empty * 2000, path, "more than 1000 records")
    refused(data + data, path, "2 records 'ildg-format'")
    # A checksum that fits the links of another file does not make up for XML that does not.
    payload = in_site_order(random_links(LATTICE, seed=1), ">dd", 3)
    sums = "<a><suma>{:x}</suma><sumb>{:x}</sumb></a>".format(*scidac_checksum(payload, len(payload) // 576))
    other = with_record(with_record(data, "ildg-binary-data", payload), "scidac-checksum", sums.encode())
    refused(other, path, "plaquette is wrong")


def test_headers_of_openqcd(files, tmp_path):
    data, path = files["openqcd"], tmp_path / "a"

    def with_header(*sides, plaquette=None):
        stored = struct.unpack("<d", data[16:24])[0] if plaquette is None else plaquette
        return struct.pack("<4id", *sides, stored) + data[24:]

    assert with_header(4, 2, 4, 2) == data
    refused(with_header(4, 2, 4, 2, plaquette=1.5), path, "plaquette is wrong: the file says 0.5, but its links give")
    refused(with_header(4, 2, 4, 2, plaquette=np.nan), path, "plaquette is wrong: the file says nan")
    refused(with_header(4, 2, 4, 4), path, "truncated: its dimensions 4×2×4×4 need")
    refused(with_header(4, 2, 2, 2), path, "too long")
    refused(with_header(2, 4, 4, 2), path, "plaquette is wrong")
    refused(with_header(4, 1, 16, 1), path, "even")
    refused(with_header(4096, 4096, 4096, 4096), path, "more than 2 GB")
    refused(with_header(4, -2, 4, -2), path, "unknown format")
    refused(with_header(4, 2, 4, 2**30), path, "unknown format")
    # One unitary link instead of another
    refused(data[:24] + np.eye(3, dtype="<c16").tobytes() + data[24 + 144 :], path, "plaquette is wrong")


def test_what_is_no_file_of_links(files, tmp_path):
    path = tmp_path / "a"
    refused(b"", path, "unknown format, none of these: a NERSC archive, an ILDG file, an openQCD configuration")
    refused(b"\x93NUMPY\x01\x00" + bytes(200), path, "unknown format")
    refused(bytes(1000), path, "unknown format")
    (tmp_path / "real").write_bytes(files["nersc"])
    os.symlink(tmp_path / "real", tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    for name, reason in {
        "link": "symbolic link",
        "pipe": "not a regular file",
        ".": "Is a directory",
        "missing": "No such file",
        "real/below": "Not a directory",
        "\0": "cannot be read",
    }.items():
        with pytest.raises(UserError, match=reason):
            read(tmp_path / name)
    with open(tmp_path / "large", "wb") as file:
        file.write(files["nersc"])
        file.truncate(2**31 + 1)
    with pytest.raises(UserError, match="larger than 2 GB"):
        read(tmp_path / "large")


@pytest.mark.parametrize("form", FORMATS)
def test_accidents_are_noticed(form, files, tmp_path):
    """Whatever happens to a file, it is read as it was or refused; openQCD has no checksum against tiny changes."""
    path, refusals = tmp_path / "a", 0
    for number in range(150):
        path.write_bytes(fuzz.change_bytes(files[form], random.Random(number)))  # noqa: S311
        try:
            found = read(path)
        except UserError:
            refusals += 1
        else:
            np.testing.assert_allclose(found.links, LINKS, rtol=0, atol=1e-5 if form == "openqcd" else 0)
    assert refusals > 100
