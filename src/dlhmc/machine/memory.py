"""Memory of long runs: it stays in one piece, and what the process has freed goes back to the system.

Both are settings of the GNU C library; elsewhere nothing is done.
"""

import ctypes
import os
import sys
from typing import Any

_M_ARENA_MAX = -8  # <malloc.h>


def _c_function(name: str) -> Any:
    """A function of the C library, if it has it."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


_TRIM = _c_function("malloc_trim")


def use_one_pool() -> None:
    """Let threads take memory from one pool instead of one each, which grow for hours until each has its pieces.

    It is for the whole process, so for processes of our own only, before JAX starts its threads.
    """
    asked = "MALLOC_ARENA_MAX" in os.environ or "arena_max" in os.environ.get("GLIBC_TUNABLES", "")
    if not asked and (set_option := _c_function("mallopt")) is not None:
        set_option(_M_ARENA_MAX, 1)


def give_back_what_is_free() -> None:
    """Without it free memory stays with the process in pieces, more and more of them, as if the run needed it."""
    if _TRIM is not None:
        _TRIM(0)
