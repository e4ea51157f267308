import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlhmc.runs.memory import give_back_what_is_free

PAGES = Path("/proc/self/statm")


only_glibc = pytest.mark.skipif(
    sys.platform != "linux", reason="only glibc keeps memory like this, and only Linux shows it"
)


@only_glibc
def test_freed_memory_is_given_back():
    pieces = [bytes(2000) for _ in range(30_000)]
    kept = pieces[-1000:]  # on top, so that what is below cannot be given back by itself
    del pieces
    before = int(PAGES.read_text().split()[1])
    give_back_what_is_free()
    after = int(PAGES.read_text().split()[1])
    assert len(kept) == 1000
    assert (before - after) * 4096 > 30e6


COUNT_POOLS = """
import ctypes, threading, sys
from dlhmc.runs.memory import use_one_pool
if sys.argv[1] == "one":
    use_one_pool()
everyone_is_here = threading.Barrier(4)
def take():
    taken = [bytes(2000) for _ in range(1000)]
    everyone_is_here.wait()
threads = [threading.Thread(target=take) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


def pools(which, path, **variables):
    """How many pools of memory a process with four threads has."""
    command = [sys.executable, "-c", COUNT_POOLS, which, str(path)]
    subprocess.run(command, check=True, timeout=60, env=os.environ | variables)
    return path.read_text().count("<heap nr=")


@only_glibc
def test_all_threads_share_one_pool(tmp_path):
    assert pools("one", tmp_path / "one") == 1
    assert pools("many", tmp_path / "many") > 1
    assert pools("one", tmp_path / "asked", MALLOC_ARENA_MAX="4") > 1
