"""What a run takes, before it is done: memory by purpose, and time."""

import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
from rich.console import Console

from dlhmc.errors import Setting, UserError
from dlhmc.run.progress import format_duration
from dlhmc.targets import Target

_TRIALS = 3
_UNITS = {"TB": 1e12, "GB": 1e9, "MB": 1e6}


def is_exhausted(error: Exception) -> bool:
    """Whether an error of JAX says that there was no memory."""
    return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)


def available() -> int | None:
    """Bytes that are free on a device or, where it has no memory of its own, on this machine; None if nobody knows."""
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


def of_fields(target: Target, chains: int) -> tuple[int, int]:
    """Bytes of configurations and of momenta, in the precision that JAX is set to."""
    real, geometry = jnp.dtype(jnp.result_type(float)), target.geometry
    x, v = math.prod(target.geometry.shape), math.prod(geometry.momentum_shape)
    return x * geometry.dtype(real).itemsize * chains, v * real.itemsize * chains


def require_room(target: Target, chains: int) -> None:
    """Refuse a run whose configurations, proposals and momenta alone are more than all devices can hold."""
    fields, momenta = of_fields(target, chains)
    needed, room = 2 * fields + momenta, available()
    if room is not None and needed > room * len(jax.devices()):
        raise UserError(
            f"This run needs about {in_bytes(needed)} of memory, and {in_bytes(room * len(jax.devices()))} are free: "
            f"take fewer {Setting('chains')} or a smaller target."
        )


def show_needs(
    target: Target,
    chains: int,
    run: Callable[[int], object],
    steps: int,
    unit: str,
    more: Mapping[str, str],
    console: Console,
) -> None:
    """Memory line by line with `more`, and the time of that many steps; `run` does as many as it is told."""
    fields, momenta = of_fields(target, chains)
    room = available()
    free = "" if room is None else f" of {in_bytes(room)} that are free"
    compiled = _timed(run, 0)
    step = min(_timed(run, 1) for _ in range(_TRIALS))
    lines = {
        "fields": in_bytes(fields),
        "momenta": in_bytes(momenta),
        "memory": f"{in_bytes(2 * fields + momenta)} and what the program needs{free}",
        **more,
        "time": f"{compiled:.0f} s to compile, {format_duration(step * steps)} for {steps:,} {unit}",
    }
    for name, text in lines.items():
        console.print(f"{name:>20}   {text}", markup=False, highlight=False, soft_wrap=True)


def in_bytes(number: float) -> str:
    """For people.

    >>> in_bytes(262144), in_bytes(1.4e11)
    ('0.26 MB', '140 GB')
    """
    value, unit = next(((number / size, unit) for unit, size in _UNITS.items() if number >= size), (number / 1e6, "MB"))
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.2g} {unit}"


def _timed(run: Callable[[int], object], steps: int) -> float:
    started = time.perf_counter()
    jax.block_until_ready(run(steps))
    return time.perf_counter() - started
