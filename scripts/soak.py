"""Sample for an hour and watch the process: speed, memory and open files must stay what they are.

python scripts/soak.py --minutes 60 --out soak

The command `dlhmc sample` runs in a process of its own and is watched from outside, through /proc (Linux). Its memory
goes up and down within a second: what counts are the peaks between two looks, and of a twelfth of the time both their
median and the largest of them, and the memory that is the process's own. The first sixth is for caches to fill; from
then on none of these may grow by 1 %, the number of open files may not grow, and the CPU time of a trajectory may
change by less than a tenth. Exit code 1 if not.
"""

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

MOST_GROWTH = 0.01
MOST_CHANGE_OF_SPEED = 0.1
_PARTS = 12
_TICK = os.sysconf("SC_CLK_TCK")
_MEGABYTE = 1e6


class Look(NamedTuple):
    """What was seen of the process at one time."""

    seconds: float
    trajectories: int
    cpu_seconds: float
    #: resident memory: the most since the last look, and what of it is the process's own now, not of libraries' files
    peak: int
    own: int
    open_files: int


def look(pid: int, metrics: Path, started: float) -> Look | None:
    """The process now; None if it has ended or measured nothing yet."""
    try:
        last = json.loads(metrics.read_bytes()[-4096:].splitlines()[-1])
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        kilobytes = dict(re.findall(r"(\w+):\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()))
        peak, own = 1024 * int(kilobytes["VmHWM"]), 1024 * int(kilobytes["RssAnon"])
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # a new peak from here on
        files = len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, ValueError, LookupError):
        return None
    cpu = (int(after_name[11]) + int(after_name[12])) / _TICK
    return Look(time.monotonic() - started, last["step"], cpu, peak, own, files)


def watch(process: "subprocess.Popen[bytes]", metrics: Path, every: float) -> list[Look]:
    """Look at the process until it ends."""
    started, looks = time.monotonic(), []
    while process.poll() is None:
        if (seen := look(process.pid, metrics, started)) is not None:
            looks.append(seen)
        time.sleep(every)
    return looks


def judge(looks: list[Look], chains: int) -> dict[str, Any]:
    """Figures of each part of the time, and what has changed after the first sixth."""
    edges = [looks[round(i * (len(looks) - 1) / _PARTS)] for i in range(_PARTS + 1)]
    parts = []
    for i, (a, b) in enumerate(itertools.pairwise(edges)):
        within = looks[round(i * (len(looks) - 1) / _PARTS) + 1 : round((i + 1) * (len(looks) - 1) / _PARTS) + 1]
        done = b.trajectories - a.trajectories
        parts.append(
            {
                "minutes": b.seconds / 60,
                "trajectories_per_second": done / (b.seconds - a.seconds),
                "cpu_microseconds_per_trajectory": 1e6 * (b.cpu_seconds - a.cpu_seconds) / (done * chains),
                "resident_megabytes": statistics.median(seen.peak for seen in within) / _MEGABYTE,
                "largest_megabytes": max(seen.peak for seen in within) / _MEGABYTE,
                "own_megabytes": statistics.median(seen.own for seen in within) / _MEGABYTE,
                "open_files": max(seen.open_files for seen in within),
            }
        )
    settled = parts[_PARTS // 6 :]
    first, last = settled[0], settled[-1]
    cpu = [part["cpu_microseconds_per_trajectory"] for part in settled]
    # When others need memory, the system takes pages of libraries' files away: the process's own is judged, too.
    kinds = ("resident_megabytes", "largest_megabytes", "own_megabytes")
    growth = max(last[name] / first[name] - 1 for name in kinds)
    change = last["cpu_microseconds_per_trajectory"] / first["cpu_microseconds_per_trajectory"] - 1
    return {
        "trajectories": looks[-1].trajectories,
        "parts": parts,
        "resident_growth": growth,
        "open_files_growth": last["open_files"] - first["open_files"],
        "cpu_change": change,
        "cpu_spread": max(cpu) / min(cpu) - 1,
        "constant": growth < MOST_GROWTH
        and last["open_files"] <= first["open_files"]
        and abs(change) < MOST_CHANGE_OF_SPEED,
    }


def show(figures: dict[str, Any], console: Console) -> None:
    """The table, then the verdict."""
    table = Table()
    columns = (
        "until minute",
        "trajectories/s",
        "CPU µs a trajectory and chain",
        "resident MB",
        "at most",
        "own",
        "open files",
    )
    for name in columns:
        table.add_column(name, justify="right")
    for part in figures["parts"]:
        table.add_row(
            f"{part['minutes']:.0f}" if part["minutes"] >= 10 else f"{part['minutes']:.1f}",
            f"{part['trajectories_per_second']:.0f}",
            f"{part['cpu_microseconds_per_trajectory']:.2f}",
            f"{part['resident_megabytes']:.1f}",
            f"{part['largest_megabytes']:.1f}",
            f"{part['own_megabytes']:.1f}",
            f"{part['open_files']}",
        )
    console.print(table)
    console.print(
        f"after the first sixth: resident memory {100 * figures['resident_growth']:+.2f} %, open files "
        f"{figures['open_files_growth']:+d}, CPU time a trajectory {100 * figures['cpu_change']:+.1f} % "
        f"(largest over smallest {100 * figures['cpu_spread']:+.1f} %)",
        highlight=False,
        soft_wrap=True,
    )
    verdict = "constant" if figures["constant"] else "NOT constant"
    console.print(f"{figures['trajectories']} trajectories: {verdict}", style=None if figures["constant"] else "red")


def main() -> int:
    """Run, watch, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("soak"), help="new directory; figures go to soak.json in it")
    parser.add_argument("--chains", type=int, default=128)
    parser.add_argument("sample_options", nargs="*", help="after --: further options of dlhmc sample")
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    run = options.out / "run"
    command = [
        *(sys.executable, "-c", "from dlhmc.cli import main; main()", "sample", "u1", "--out", str(run)),
        *("--chains", str(options.chains), "--trajectories", "100000000"),
        *("--time-limit", f"{options.minutes:g}m", *options.sample_options),
    ]
    with (options.out / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603
        looks = watch(process, run / "metrics.jsonl", every=max(1.0, options.minutes * 60 / 360))
    console = Console(width=110)
    if process.returncode != 75 or len(looks) <= _PARTS:  # 75: the time limit has come
        console.print((options.out / "log").read_text(), markup=False)
        console.print(f"exit code {process.returncode}, {len(looks)} looks: too few, or not the end", style="red")
        return 1
    figures = judge(looks, options.chains) | {"command": command[3:]}
    (options.out / "soak.json").write_text(json.dumps(figures, indent=2) + "\n")
    show(figures, console)
    shutil.rmtree(run)  # gigabytes that nobody needs
    return 0 if figures["constant"] else 1


if __name__ == "__main__":
    sys.exit(main())
