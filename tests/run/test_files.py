import io
import zipfile

import numpy as np
import pytest

from dlhmc.files import Archive, parse_json, read_text, write_arrays, write_whole


def npy(header, data=b""):
    text = repr(header).encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def archive(tmp_path, content, method=zipfile.ZIP_DEFLATED):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("a.npy", content)
    return path


def test_arrays_come_back(tmp_path):
    arrays = {"x": np.arange(6.0).reshape(2, 3), "f": np.asfortranarray(np.arange(6).reshape(2, 3)), "s": np.float32(2)}
    write_arrays(tmp_path / "a.npz", arrays)
    found = Archive(tmp_path / "a.npz")
    assert set(found.names) == arrays.keys()
    for name, array in arrays.items():
        assert found.read(name).dtype == array.dtype
        np.testing.assert_array_equal(found.read(name), array)
    with pytest.raises(ValueError, match="it has no 'y'"):
        found.read("y")


HEADER = {"descr": "<f4", "fortran_order": False, "shape": (1,)}


@pytest.mark.parametrize(
    "content",
    [
        npy(HEADER | {"shape": (10**12,)}, bytes(4)),
        npy(HEADER | {"shape": (-1,)}, bytes(4)),
        npy(HEADER | {"descr": "|O"}, bytes(8)),
        npy(HEADER | {"descr": [("a", "<f4")]}, bytes(4)),
        b"\x93NUMPY\x09\x00",
        b"\x80\x04K\x01.",  # a pickle
        b"\x93NUMPY\x01\x00\x20\x00__import__('os').system('true')  ",
    ],
)
def test_what_is_no_plain_array_is_refused(content, tmp_path):
    with pytest.raises(ValueError, match=r"it is no archive of arrays|it does not hold numbers"):
        Archive(archive(tmp_path, content))


def test_a_bomb_is_not_unpacked(tmp_path):
    """A directory that says three gigabytes; how little stands behind it does not matter."""
    data = bytearray(archive(tmp_path, npy(HEADER, bytes(4))).read_bytes())
    central = data.index(b"PK\x01\x02")
    data[central + 24 : central + 28] = (3 * 2**30).to_bytes(4, "little")
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(ValueError, match="more than 2 GB"):
        Archive(tmp_path / "a.npz")


def test_a_flipped_bit_anywhere_changes_no_number(tmp_path):
    write_arrays(tmp_path / "a.npz", {"x": np.arange(50.0)})
    data = (tmp_path / "a.npz").read_bytes()
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        (tmp_path / "b.npz").write_bytes(flipped)
        try:
            found = Archive(tmp_path / "b.npz").read("x")
        except ValueError:
            continue
        np.testing.assert_array_equal(found, np.arange(50.0))


@pytest.mark.parametrize(
    "data", [b"[" * 10**6, b"[]", b"\xff", b'{"a": Infinity}', b"", b'{"a": ' + b"9" * 10**4 + b"}"]
)
def test_what_is_no_table_is_refused(data):
    with pytest.raises(ValueError, match=r".+"):
        parse_json(data)


def test_a_text_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10**9)
    with pytest.raises(ValueError, match="larger than 64 MB"):
        read_text(tmp_path / "sparse")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    write_whole(tmp_path / "a", b"old")
    with pytest.raises(TypeError):
        write_whole(tmp_path / "a", io.StringIO())
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"
