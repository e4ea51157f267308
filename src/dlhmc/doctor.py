"""Is this machine fit to sample? Devices, versions, memory, and a quick check that the numbers are right."""

import os
import platform
import time

import jax
from rich.console import Console
from rich.table import Table

from dlhmc.errors import ExitCode
from dlhmc.kernels import HMC, Kernel
from dlhmc.runs.directory import versions
from dlhmc.runs.sampling import learned_kernel
from dlhmc.targets import U1
from dlhmc.testing import check_stationarity

# An exact sampler fails the check on one machine in ten thousand.
_P_VALUE = 1e-4


def doctor(console: Console) -> ExitCode:
    """Print what there is, and whether exact configurations stay exact here."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in _facts().items():
        table.add_row(name, value)
    console.print(table)
    good = True
    target = U1((4, 4), 2.0)
    kernels: dict[str, Kernel] = {
        "HMC": HMC(target, 0.25, 4),
        "a trained sampler": learned_kernel("u1-b2", target),
    }
    for name, kernel in kernels.items():
        started = time.perf_counter()
        result = check_stationarity(kernel, steps=5, chains=2000, seed=1)
        fine = result.p_value > _P_VALUE
        good = good and fine
        verdict = "exact" if fine else "WRONG"
        seconds = time.perf_counter() - started
        console.print(f"{name}: {verdict} (p = {result.p_value:.2g}, {seconds:.1f} s)", style=None if fine else "red")
    if not good:
        console.print("Samples made on this machine cannot be trusted: try other versions of jax and its drivers.")
    return ExitCode.OK if good else ExitCode.WRONG


def _facts() -> dict[str, str]:
    devices = jax.devices()
    kinds = sorted({f"{device.platform} ({device.device_kind})" for device in devices})
    return {
        "devices": f"{len(devices)}: {', '.join(kinds)}",
        "processes": f"{jax.process_count()}, this is number {jax.process_index()}",
        "memory": _memory(),
        "processor": f"{os.cpu_count()} cores, {platform.machine()}",
        "python": platform.python_version(),
        **versions(),
    }


def _memory() -> str:
    statistics = jax.devices()[0].memory_stats()
    if statistics and "bytes_limit" in statistics:
        return f"{statistics['bytes_limit'] / 1e9:.1f} GB on each device"
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{total / 1e9:.1f} GB"
