"""Bombs of zeros given as start are refused by their shape or size: no memory is taken for them."""

import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from dlhmc import HMC, U1, UserError, sample, wilson
from dlhmc.run.configurations import start_from_file

LITTLE = 2**20  # bytes, of those that Python and NumPy take


def require_refused(path, target, message):
    """The second time, when everything is imported."""
    for _ in range(2):
        tracemalloc.start()
        with pytest.raises(UserError, match=message):
            start_from_file(path, target, 8)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < LITTLE


def npy(path, shape, size):
    """A file with the header of an array, and nothing but a hole for its numbers."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        file.truncate(file.tell() + size)


def sparse_array(folder):
    npy(folder / "start.npy", (2, 4, 4, 2**24), 2**31)
    return folder / "start.npy", "shape"


def array_that_is_not_there(folder):
    npy(folder / "start.npy", (2, 4, 4, 8), 4)
    return folder / "start.npy", "no array of numbers"


def compressed_array(folder):
    with zipfile.ZipFile(folder / "start.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", bytes(2**27))
    return folder / "start.npz", "shape"


@pytest.mark.parametrize("bomb", [sparse_array, array_that_is_not_there, compressed_array])
def test_arrays(bomb, tmp_path):
    path, message = bomb(tmp_path)
    require_refused(path, U1((4, 4), 2.0), message)


def test_links_of_another_lattice(tmp_path):
    with (tmp_path / "start").open("wb") as file:
        file.write(struct.pack("<4id", 32, 32, 32, 32, 0.0))  # openQCD's header
        file.truncate(24 + 32**4 * 4 * 9 * 16)
    require_refused(tmp_path / "start", wilson("su3", (4, 4, 4, 4), 5.7), "far larger")


def test_array_in_memory_that_is_one_number_repeated():
    zeros = np.broadcast_to(np.float32(0), (2, 4, 4, 2**40))
    with pytest.raises(UserError, match="shape"):
        sample(HMC(U1((4, 4), 2.0), 0.2, 5), chains=8, trajectories=10, start=zeros, progress=False)
