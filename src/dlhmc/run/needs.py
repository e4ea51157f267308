"""What a run takes, before it is done: memory by purpose, and time."""

import math
import os
import time
from collections.abc import Callable, Mapping

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


def _memory() -> int:
    """Bytes of all devices or, where they have none of their own, of this machine."""
    devices = jax.devices()
    limit = (devices[0].memory_stats() or {}).get("bytes_limit")
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if limit is None else int(limit) * len(devices)


def of_fields(target: Target, chains: int) -> tuple[int, int]:
    """Bytes of configurations and of momenta, in the precision that JAX is set to."""
    real, geometry = jnp.dtype(jnp.result_type(float)), target.geometry
    x, v = math.prod(target.geometry.shape), math.prod(geometry.momentum_shape)
    return x * geometry.dtype(real).itemsize * chains, v * real.itemsize * chains


def require_room(target: Target, chains: int) -> None:
    """Refuse a run whose configurations, proposals and momenta alone are more than all devices can hold."""
    fields, momenta = of_fields(target, chains)
    needed, room = 2 * fields + momenta, _memory()
    if needed > room:
        raise UserError(
            f"This run needs about {in_bytes(needed)} of memory, and there are {in_bytes(room)}: take fewer "
            f"{Setting('chains')} or a smaller target."
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
    compiled = _timed(run, 0)
    step = min(_timed(run, 1) for _ in range(_TRIALS))
    lines = {
        "fields": in_bytes(fields),
        "momenta": in_bytes(momenta),
        "memory": f"{in_bytes(2 * fields + momenta)} of {in_bytes(_memory())}, and what the program needs",
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
