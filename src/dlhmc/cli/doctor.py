"""Is this machine fit to sample? Devices, versions, memory, and a quick check that the numbers are right."""

import os
import platform
import time
from collections.abc import Mapping
from typing import Any

import jax
from rich.console import Console
from rich.table import Table

from dlhmc.kernels import HMC
from dlhmc.machine.sums import wrong_sums
from dlhmc.models.model import Model
from dlhmc.run.compilation import kept_in
from dlhmc.run.directory import versions
from dlhmc.testing import check_stationarity
from dlhmc.theories import registry

# An exact sampler fails the check on one machine in ten thousand.
_P_VALUE = 1e-4


def examine() -> dict[str, Any]:
    """Look at the machine (`facts`), and see whether sums are right and exact configurations stay exact (`checks`).

    Where all of them do, samples made here can be trusted (`good`).
    """
    checks = []
    u1, su2 = (registry.theory(name).settings for name in ("u1", "su2"))
    plane = u1(lattice=(4, 4), beta=2.0).build()  # type: ignore[call-arg]
    matrices = su2(lattice=(4, 4), beta=4.0).build()  # type: ignore[call-arg]
    kernels = {
        "HMC": HMC(plane, 0.25, 4),
        "a trained sampler": Model.open("u1-b2").kernel(plane),
        "HMC of SU(2)": HMC(matrices, 0.25, 4),
    }
    for name, kernel in kernels.items():
        started = time.perf_counter()
        result = check_stationarity(kernel, steps=5, chains=2000, seed=1)
        found = {"name": name, "p_value": float(result.p_value), "seconds": time.perf_counter() - started}
        checks.append(found | {"exact": result.p_value > _P_VALUE})
    wrong = wrong_sums()
    facts = _facts() | {"sums": f"{wrong} are wrong" if wrong else "right"}
    return {"facts": facts, "checks": checks, "good": not wrong and all(check["exact"] for check in checks)}


def show(findings: Mapping[str, Any], console: Console) -> None:
    """Print it."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in findings["facts"].items():
        table.add_row(name, value)
    console.print(table)
    for check in findings["checks"]:
        verdict = "exact" if check["exact"] else "WRONG"
        line = f"{check['name']}: {verdict} (p = {check['p_value']:.2g}, {check['seconds']:.1f} s)"
        console.print(line, style=None if check["exact"] else "red")
    if not findings["good"]:
        console.print("Samples made on this machine cannot be trusted: try other versions of jax and its drivers.")


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
        "compiled programs": kept_in() or "not kept",
    }


def _memory() -> str:
    statistics = jax.devices()[0].memory_stats()
    if statistics and "bytes_limit" in statistics:
        return f"{statistics['bytes_limit'] / 1e9:.1f} GB on each device"
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{total / 1e9:.1f} GB"
