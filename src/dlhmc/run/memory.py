"""Memory: how much there is, and of long runs that it stays in one piece and that what is freed goes back.

The latter two are settings of the GNU C library; elsewhere nothing is done.
"""

import ctypes
import os
import sys
from pathlib import Path
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


def is_exhausted(error: Exception) -> bool:
    """Whether an error of JAX says that there was no memory."""
    import jax

    return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)


def available() -> int | None:
    """Bytes that are free on a device or, where it has no memory of its own, on this machine; None if nobody knows."""
    import jax

    device = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in device:
        return int(device["bytes_limit"] - device.get("bytes_in_use", 0))
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return min(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]), _of_group())
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _of_group() -> int:
    """What is left of the limit that a container or a batch system has set."""
    try:
        limit, used = (
            Path("/sys/fs/cgroup", f"memory.{name}").read_text(encoding="ascii") for name in ("max", "current")
        )
        return int(limit) - int(used)
    except (OSError, ValueError):  # none
        return sys.maxsize
