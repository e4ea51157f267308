"""Kill runs with SIGKILL at random moments, resume them, and compare the end with an undisturbed run, bit by bit.

    python scripts/torture.py --kills 100
    python scripts/torture.py --minutes 60

Every process is a real one that is killed for good. A third of the kills comes at any moment from the start of the
process on, a third while a checkpoint is being written, a third while the history (or the metrics) is.
"""

import argparse
import collections
import contextlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from safetensors.numpy import load_file

#: runs of a few seconds; chunks of a fixed length, so that their metrics can be compared line by line
RUNS = {
    "sample": "sample u1 --lattice 4 4 --beta 2 --chains 32 --trajectories 6000 --warmup 500 --leapfrog-steps 6 "
    "--start cold --hits 1 --keep-configurations 5 --chunk 100",
    "train": "train u1 local --lattice 4 4 --beta 2 --leapfrog-steps 2 --chains 16 --steps 2000 --burn-in 5 "
    "--start cold --chunk 25",
}
PATIENCE = 600.0


def main() -> int:
    """Torture as asked, print counts, and return 1 if anything was lost or wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="how many processes to kill")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long even so")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        counts = torture(Path(directory), RUNS, arguments.kills, 60 * arguments.minutes, arguments.seed)
    sys.stdout.write(report(counts))
    return 1 if counts["wrong"] or not counts["kills"] else 0


def torture(
    directory: Path, runs: Mapping[str, str], kills: int, seconds: float = math.inf, seed: int = 1
) -> collections.Counter[str]:
    """Kill so many processes, all kinds of runs in turn, and count what happened."""
    moments = random.Random(seed)  # noqa: S311
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(directory / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    counts: collections.Counter[str] = collections.Counter()
    whole: dict[str, Path] = {}
    lasts: dict[str, float] = {}
    for kind in runs:
        for _ in range(2 if kills > 10 else 1):  # once to compile, once to see how long it takes
            whole[kind] = directory / f"whole-{kind}"
            shutil.rmtree(whole[kind], ignore_errors=True)
            started = time.monotonic()
            finish([*runs[kind].split(), "--out", str(whole[kind])], environment)
            lasts[kind] = time.monotonic() - started
    deadline = time.monotonic() + seconds
    while counts["kills"] < kills and time.monotonic() < deadline:
        kind = list(runs)[counts["runs"] % len(runs)]
        counts["runs"] += 1
        path = directory / f"run-{counts['runs']}"
        while True:
            begun = (path / "config.toml").exists()
            command = ["resume", str(path)] if begun else [*runs[kind].split(), "--out", str(path)]
            if counts["kills"] >= kills or time.monotonic() > deadline:
                finish(command, environment)
                break
            when = moments.choice(["at any moment", "during a checkpoint", "during a history"])
            if kind == "train" and when == "during a history":
                when = "during metrics"
            process = start(command, environment)
            if not wait_for(when, process, path, moments, lasts[kind]):
                output = process.communicate(timeout=PATIENCE)[0]
                if process.returncode:
                    counts["wrong"] += 1
                    sys.stdout.write(f"{kind} {path.name} ended with {process.returncode}: {output}\n")
                break
            process.send_signal(signal.SIGKILL)
            process.communicate()
            counts["kills"] += 1
            counts[f"kills of {kind}"] += 1
            for name in found_after_kill(path):
                counts[name] += 1
            lost = lost_chunks(path)
            counts["most chunks lost"] = max(counts["most chunks lost"], lost[0])
            if lost[0] > 1:
                counts["wrong"] += 1
                sys.stdout.write(f"{kind} {path.name}: {lost[0]} chunks are lost\n")
            counts["most milliseconds lost"] = max(counts["most milliseconds lost"], round(1000 * lost[1]))
            if counts["kills"] % 10 == 0:
                sys.stdout.write(f"{counts['kills']} kills, {counts['runs']} runs, {counts['wrong']} wrong\n")
                sys.stdout.flush()
        for difference in differences(whole[kind], path):
            counts["wrong"] += 1
            sys.stdout.write(f"{kind} {path.name}: {difference}\n")
        counts["finished runs"] += 1
        shutil.rmtree(path)
    return counts


def start(command: list[str], environment: Mapping[str, str]) -> "subprocess.Popen[str]":
    """A real process of the command line."""
    line = [sys.executable, "-c", "from dlhmc.cli import main; main()", *command, "--quiet"]
    return subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603


def finish(command: list[str], environment: Mapping[str, str]) -> None:
    """Run to the end, which must be a good one."""
    process = start(command, environment)
    output = process.communicate(timeout=PATIENCE)[0]
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}: {output}")


def wait_for(when: str, process: "subprocess.Popen[str]", path: Path, moments: random.Random, lasts: float) -> bool:
    """Wait for a moment to kill; false if the process has ended before."""
    if when == "at any moment":
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moments.uniform(0, lasts))
    else:
        # Not always the first one.
        for _ in range(moments.randint(1, 40)):
            before = sign_of_writing(when, path)
            while process.poll() is None and sign_of_writing(when, path) in (before, ""):
                time.sleep(0)  # a write takes less than a millisecond
        if moments.random() < 0.5:  # and not always its first instant
            time.sleep(moments.uniform(0, 0.005))
    return process.poll() is None


def sign_of_writing(when: str, path: Path) -> str:
    """Something that is new when the moment comes; empty before and after."""
    with contextlib.suppress(OSError):
        if when == "during metrics":
            return str(os.stat(path / "metrics.jsonl").st_size)
        # Files are written under another name first.
        folder = path / ("checkpoints" if when == "during a checkpoint" else "history.zarr/plaquette/c/0")
        return "".join(entry.name for entry in os.scandir(folder) if entry.name.endswith(".tmp"))
    return ""


def found_after_kill(path: Path) -> list[str]:
    """In which state the kill left the directory."""
    if not (path / "config.toml").exists():
        return ["before the run began"]
    found = []
    if not (path / "metrics.jsonl").exists():
        found.append("before the first checkpoint was done")
    if any((path / "checkpoints").glob(".*")):
        found.append("with half a checkpoint")
    if any(path.glob("history.zarr/*/c/*/.*.tmp")) or any(path.glob("history.zarr/*/c/*/*/.*.tmp")):
        found.append("with half a chunk of the history")
    if (path / "metrics.jsonl").exists() and not (path / "metrics.jsonl").read_bytes().endswith(b"\n"):
        found.append("with half a line or none in the metrics")
    return found or ["between two writes"]


def lost_chunks(path: Path) -> tuple[int, float]:
    """Chunks after the newest checkpoint, the one in progress not counted, and how long they took."""
    saved = [int(entry.stem) for entry in (path / "checkpoints").glob("*.npz")]
    file = path / "metrics.jsonl"
    if not saved or not file.exists():
        return 0, 0.0
    lines = [json.loads(line) for line in file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    steps = [0, *(line["step"] for line in lines)]
    lost = [(new - old) / line["steps_per_second"] for old, new, line in zip(steps, steps[1:], lines, strict=False)]
    lost = [seconds for seconds, line in zip(lost, lines, strict=True) if line["step"] > max(saved)]
    return len(lost), sum(lost)


def differences(one: Path, other: Path) -> Iterator[str]:
    """What is not the same bit by bit: histories, parameters, metrics, results; times left out."""
    for name, array in arrays(one).items():
        found = arrays(other).get(name)
        if found is None or found.dtype != array.dtype or found.tobytes() != array.tobytes():
            yield f"{name} differs"
    for name in ("metrics.jsonl", "summary.json"):
        if figures(one / name) != figures(other / name):
            yield f"{name} differs"


def arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array that a run leaves behind."""
    if (path / "model.safetensors").exists():
        return load_file(path / "model.safetensors")
    store = zarr.open_group(path / "history.zarr", mode="r")
    return {name: np.asarray(store[name]) for name in store.array_keys()}


def figures(path: Path) -> list[dict[str, object]]:
    """The tables of a file without what a clock has measured, and of sampling's metrics the steps alone."""
    text = path.read_text(encoding="utf-8")
    tables = [json.loads(line) for line in (text.splitlines() if path.suffix == ".jsonl" else [text])]
    if path.suffix == ".jsonl" and (path.parent / "history.zarr").exists():
        return [{"step": table["step"]} for table in tables]
    return [timeless(table) for table in tables]


def timeless(table: Any) -> Any:
    """Without times and speeds."""
    if not isinstance(table, dict):
        return table
    return {key: timeless(value) for key, value in table.items() if "second" not in key}


def report(counts: Mapping[str, int]) -> str:
    """All counts, the general ones first."""
    first = ["kills", "finished runs", "wrong", "most chunks lost", "most milliseconds lost"]
    others = sorted(counts.keys() - {*first, "runs"})
    return "".join(f"{counts[name]:>8} {name}\n" for name in [*first, *others])


if __name__ == "__main__":
    sys.exit(main())
