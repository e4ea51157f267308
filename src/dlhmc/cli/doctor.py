"""Is this machine fit to sample? Devices, versions, memory, and a quick check that the numbers are right."""

import os
import platform
import time
from typing import Any, NamedTuple

import jax
from rich.console import Console
from rich.table import Table

from dlhmc.machine.compilation import kept_in
from dlhmc.runs.directory import versions
from dlhmc.testing import check_stationarity
from dlhmc.theories import registry

# An exact sampler fails the check on one machine in ten thousand.
_P_VALUE = 1e-4


class Check(NamedTuple):
    """Whether exact configurations stay exact under a kernel."""

    name: str
    p_value: float
    seconds: float

    @property
    def good(self) -> bool:
        """Whether there is no doubt about it."""
        return self.p_value > _P_VALUE


class Findings(NamedTuple):
    """What there is, and what was checked."""

    facts: dict[str, str]
    checks: tuple[Check, ...]

    @property
    def good(self) -> bool:
        """Whether samples made here can be trusted."""
        return all(check.good for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """All of it for a program."""
        checks = [check._asdict() | {"exact": check.good} for check in self.checks]
        return {"facts": self.facts, "checks": checks, "good": self.good}


def examine() -> Findings:
    """Look at the machine, and see whether exact configurations stay exact here."""
    checks = []
    kernels = [kernel for theory in registry.all_theories() for kernel in theory.checked_kernels().items()]
    for name, make_kernel in kernels:
        started = time.perf_counter()
        result = check_stationarity(make_kernel(), steps=5, chains=2000, seed=1)
        checks.append(Check(name, float(result.p_value), time.perf_counter() - started))
    return Findings(_facts(), tuple(checks))


def show(findings: Findings, console: Console) -> None:
    """Print it."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in findings.facts.items():
        table.add_row(name, value)
    console.print(table)
    for check in findings.checks:
        verdict = "exact" if check.good else "WRONG"
        line = f"{check.name}: {verdict} (p = {check.p_value:.2g}, {check.seconds:.1f} s)"
        console.print(line, style=None if check.good else "red")
    if not findings.good:
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
