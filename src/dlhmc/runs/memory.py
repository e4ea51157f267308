"""Memory of long runs: what the process has freed goes back to the system."""

import ctypes
import sys
from collections.abc import Callable


def _find_trim() -> Callable[[int], int] | None:
    """malloc_trim of the C library, where it has one (glibc)."""
    if sys.platform != "linux":
        return None
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim


_TRIM = _find_trim()


def give_back_what_is_free() -> None:
    """Without it free memory stays with the process in pieces, more and more of them, as if the run needed it."""
    if _TRIM is not None:
        _TRIM(0)
