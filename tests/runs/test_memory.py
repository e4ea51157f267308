import sys
from pathlib import Path

import pytest

from dlhmc.runs.memory import give_back_what_is_free

PAGES = Path("/proc/self/statm")


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc keeps memory like this, and only Linux shows it")
def test_freed_memory_is_given_back():
    pieces = [bytes(2000) for _ in range(30_000)]
    kept = pieces[-1000:]  # on top, so that what is below cannot be given back by itself
    del pieces
    before = int(PAGES.read_text().split()[1])
    give_back_what_is_free()
    after = int(PAGES.read_text().split()[1])
    assert len(kept) == 1000
    assert (before - after) * 4096 > 30e6
