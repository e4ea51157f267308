"""Small runs for tests, and what they left on disk, read without the package's own code."""

import io
import json
import struct
import subprocess
import sys
import time
from pathlib import Path

import google_crc32c
import numpy as np
import xarray
from rich.console import Console
from tensorboardX.proto.event_pb2 import Event

from dlhmc.errors import ExitCode
from dlhmc.spec.sampling import SampleSpec

#: 4 × 4 links, a few chains, a step size that is tuned during the warm-up
TINY = {
    "lattice": (4, 4),
    "beta": 2.0,
    "chains": 4,
    "trajectories": 20,
    "warmup": 10,
    "leapfrog_steps": 4,
    "start": "cold",  # compiles faster than an exact one
}


def tiny(**changes) -> SampleSpec:
    return SampleSpec.of(TINY | changes)


def run(path: Path, plan: SampleSpec | None = None, **changes) -> Path:
    """A finished run in a new directory."""
    assert (plan or tiny(**changes)).run(path, Console(file=io.StringIO()))[1] == ExitCode.OK
    return path


def resume(path: Path) -> Path:
    assert SampleSpec.resume(path, Console(file=io.StringIO())) == ExitCode.OK
    return path


def histories(path: Path) -> dict[str, np.ndarray]:
    with xarray.open_zarr(path / "history.zarr") as store:
        return {str(name): array.values for name, array in store.variables.items()}


def state(path: Path, step: int | None = None) -> list[np.ndarray]:
    """All arrays of a checkpoint, the newest one unless told otherwise."""
    step = max(int(file.stem) for file in (path / "checkpoints").glob("*.npz")) if step is None else step
    with np.load(path / "checkpoints" / f"{step}.npz") as archive:
        return [archive[name] for name in sorted(archive.files) if name != "notes"]


def metrics(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def shown_by_tensorboard(path: Path) -> dict[int, dict[str, float]]:
    """Figures by step from all event files, without those of steps that a later file says to forget."""
    shown: dict[int, dict[str, float]] = {}
    for file in sorted((path / "tensorboard").iterdir()):
        for event in map(Event.FromString, _records(file.read_bytes())):
            if event.HasField("session_log"):
                shown = {step: figures for step, figures in shown.items() if step < event.step}
            elif event.HasField("summary"):
                figures = {value.tag: value.simple_value for value in event.summary.value}
                assert not figures.keys() & shown.setdefault(event.step, {}).keys()
                shown[event.step] |= figures
    return shown


def _records(data: bytes):
    """The records of a TFRecord file, with their checksums checked."""
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        for part, checksum in ((data[:8], data[8:12]), (data[12 : 12 + length], data[12 + length : 16 + length])):
            crc = google_crc32c.value(part)
            assert struct.unpack("<I", checksum)[0] == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % 2**32
        yield data[12 : 12 + length]
        data = data[16 + length :]


def assert_tensorboard_shows_the_metrics(path: Path) -> None:
    lines = {line.pop("step"): line for line in metrics(path)}
    shown = shown_by_tensorboard(path)
    assert shown.keys() == lines.keys()
    for step, line in lines.items():
        assert shown[step] == {name: float(np.float32(value)) for name, value in line.items()}


def assert_same_run(one: Path, other: Path) -> None:
    """Bit for bit: every history and the final state."""
    first, second = histories(one), histories(other)
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.dtype == second[name].dtype
        np.testing.assert_array_equal(array, second[name], err_msg=name)
        assert array.tobytes() == second[name].tobytes()
    assert_same_state(one, other)


def assert_same_state(one: Path, other: Path) -> None:
    """Bit for bit: every array of the last checkpoint."""
    for a, b in zip(state(one), state(other), strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", "from dlhmc.cli import main; main()", *map(str, arguments)]


def start(arguments: list[str], directory: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """A process that has begun to write trajectories after those that are there."""
    before = len(metrics(directory)) if (directory / "metrics.jsonl").exists() else 0
    process = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline and process.poll() is None:
        path = directory / "metrics.jsonl"
        if path.exists() and len(path.read_bytes().splitlines()) >= before + 3:
            return process
        time.sleep(0.02)
    process.kill()
    raise AssertionError(f"the run did not get going: {process.communicate()}")
