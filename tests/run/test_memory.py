import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dlhmc.run.checkpoint import Checkpoints
from dlhmc.run.history import History
from dlhmc.run.memory import give_back_what_is_free

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
from dlhmc.run.memory import use_one_pool
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
    subprocess.run(command, check=True, env=os.environ | variables)
    return path.read_text().count("<heap nr=")


@only_glibc
def test_all_threads_share_one_pool(tmp_path):
    assert pools("one", tmp_path / "one") == 1
    assert pools("many", tmp_path / "many") > 1
    assert pools("one", tmp_path / "asked", MALLOC_ARENA_MAX="4") > 1


def test_no_names_are_left_in_the_interpreter(tmp_path, monkeypatch):
    """`pathlib` interns every part of every path, and since Python 3.12 for good: a long run has many files."""
    interned = []
    intern = sys.intern
    monkeypatch.setattr(sys, "intern", lambda text: interned.append(text) or intern(text))
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    history = History.create(tmp_path / "history", 2**17, {"charge": np.zeros(4, np.float32)}, [], np.zeros((2, 4)), {})
    assert "checkpoints" in interned
    interned.clear()
    for step in range(1, 4):
        checkpoints.save(step, {"x": np.zeros(3)}, {})
        history.write(step * 2**16 // 2, {"charge": np.zeros((5, 4), np.float32)})
    assert interned == []
