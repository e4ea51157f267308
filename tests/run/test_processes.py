"""Two processes on one machine, connected by Gloo: the same numbers as one, and an end when one of them dies."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest
import xarray
from safetensors.numpy import load_file

from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.models import model as models
from dlhmc.run.processes import Membership, join

LATTICE = ["--lattice", "4", "4", "--beta", "2", "--chains", "8", "--seed", "3", "--start", "cold"]
# A chunk is one trajectory: time enough to be killed between two.
SAMPLING = ["sample", "u1", *LATTICE, "--leapfrog-steps", "3", "--warmup", "6", "--chunk", "1", "--quiet"]
LONG = [*SAMPLING, "--trajectories", "120", "--keep-configurations", "2"]
TRAINING = [
    "train",
    "u1",
    "local",
    *LATTICE,
    "--leapfrog-steps",
    "2",
    "--burn-in",
    "2",
    "--hidden",
    "4",
    "--window",
    "2",
    "--steps",
    "100",
]
# Only a run that hangs is waited for so long.
_PATIENCE = 900


class Pair:
    """Two processes of one run; "{process}" stands for the number of each."""

    def __init__(self, arguments, environment):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        program = [sys.executable, "-c", "from dlhmc.cli import main; main()", *arguments]
        where = ["--coordinator", f"127.0.0.1:{port}", "--num-processes", "2", "--process-id"]
        self.processes = [
            subprocess.Popen(
                [*(part.replace("{process}", str(number)) for part in program), *where, str(number)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(2)
        ]

    def wait_for_line(self, path, count):
        """Until the run has written `count` lines of metrics."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            with suppress(FileNotFoundError):
                if len(path.read_text().splitlines()) >= count:
                    return
            assert all(process.poll() is None for process in self.processes), self.end()
            time.sleep(0.05)
        raise AssertionError("nothing happens")

    def end(self):
        """Codes and what was printed, of each."""
        printed = [process.communicate(timeout=_PATIENCE) for process in self.processes]
        return [process.returncode for process in self.processes], printed


@pytest.fixture
def launch(compilation_cache):
    pairs = []

    def start(*arguments):
        pairs.append(Pair(arguments, compilation_cache))
        return pairs[-1]

    yield start
    for pair in pairs:
        for process in pair.processes:
            process.kill()
            process.communicate()


def same_history(one, other):
    with xarray.open_zarr(one / "history.zarr") as a, xarray.open_zarr(other / "history.zarr") as b:
        xarray.testing.assert_equal(a.load(), b.load())


@pytest.mark.slow
def test_killed_and_terminated_and_still_the_same(tmp_path, launch):
    alone, run = tmp_path / "alone", tmp_path / "run"
    assert cli.run([*LONG, "--out", str(alone)]) == ExitCode.OK

    # One of the two is killed: the other ends by itself, and says why.
    pair = launch(*LONG, "--out", str(run))
    pair.wait_for_line(run / "metrics.jsonl", 20)
    pair.processes[1].kill()
    codes, printed = pair.end()
    assert codes[0] not in (ExitCode.OK, *(-number for number in (signal.SIGKILL, signal.SIGTERM)))
    assert "another" in printed[0][1]  # ours, or that of JAX if it was faster
    assert printed[0][0] == printed[1][0] == ""

    # The end of a batch job, of which only one process hears.
    before = len((run / "metrics.jsonl").read_text().splitlines())
    pair = launch("resume", str(run), "--quiet")
    pair.wait_for_line(run / "metrics.jsonl", before + 5 if before < 100 else 1)
    pair.processes[1].send_signal(signal.SIGTERM)
    codes, printed = pair.end()
    assert codes == [ExitCode.TERMINATED] * 2, printed

    assert cli.run(["resume", str(run), "--quiet"]) == ExitCode.OK
    same_history(alone, run)


@pytest.mark.slow
def test_training_and_sampling_from_start_to_end(tmp_path, launch):
    """With progress on the first process only, and the model and the summary written once."""
    pair = launch(*TRAINING, "--out", str(tmp_path / "two"))
    assert cli.run([*TRAINING, "--out", str(tmp_path / "one"), "--quiet"]) == ExitCode.OK
    codes, printed = pair.end()
    assert codes == [ExitCode.OK] * 2, printed
    assert "trained model in" in printed[0][0]
    assert printed[1][0] == ""
    one, two = (load_file(models.find(str(tmp_path / name))) for name in ("one", "two"))
    names = [name for name in one if one[name].dtype.kind == "f"]
    expected, found = (np.concatenate([arrays[name].ravel() for name in names]) for arrays in (one, two))
    assert np.linalg.norm(found - expected) < 1e-5 * np.linalg.norm(expected)


def test_a_directory_that_is_taken_ends_both(tmp_path, launch):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("do not touch")
    codes, printed = launch(*SAMPLING, "--out", str(tmp_path / "full")).end()
    assert codes[0] == ExitCode.BAD_INPUT
    assert codes[1] != ExitCode.OK
    assert "is not empty" in printed[0][1]
    assert os.listdir(tmp_path / "full") == ["thesis.tex"]


@pytest.mark.slow
def test_processes_that_see_different_checkpoints_do_not_go_on(tmp_path, launch):
    """As on disks that show a new file to one machine before the other."""
    runs = [tmp_path / "run-0", tmp_path / "run-1"]
    assert cli.run([*SAMPLING, "--trajectories", "10", "--out", str(runs[0])]) == ExitCode.OK
    shutil.copytree(*runs)
    (runs[1] / "checkpoints" / "16.npz").unlink()
    codes, printed = launch("resume", str(tmp_path / "run-{process}"), "--quiet").end()
    assert codes == [ExitCode.BAD_INPUT] * 2, printed
    assert all("do not see the same checkpoints" in words[1] for words in printed)


@pytest.mark.parametrize(
    ("membership", "complaint"),
    [
        (Membership(None, 1, 2), "needs --coordinator"),
        (Membership("here", 0, 2), "host:port"),
        (Membership("here:1", 2, 2), "no process 2 of 2"),
        (Membership("here:1"), "needs --coordinator, --process-id"),
    ],
)
def test_what_cannot_be_joined(membership, complaint):
    with pytest.raises(UserError) as refused:
        join(membership)
    assert complaint in refused.value.on_command_line()


@pytest.mark.slow
def test_one_process_and_then_two(tmp_path, launch):
    """Chunks of a history that one process has made hold all chains: then the first of two writes for both."""
    alone, run = tmp_path / "alone", tmp_path / "run"
    short = [*SAMPLING, "--trajectories", "20", "--keep-configurations", "2"]
    assert cli.run([*short, "--out", str(alone)]) == ExitCode.OK
    assert cli.run([*short, "--out", str(run), "--time-limit", "0s"]) == ExitCode.TIME_OVER
    codes, printed = launch("resume", str(run), "--quiet", "--check-every", "0s").end()
    assert codes == [ExitCode.OK] * 2, printed
    same_history(alone, run)
    precision = json.loads((run / "summary.json").read_text())["precision"]
    assert precision["checks"] >= 20
    assert precision["acceptance_error"] < 1e-3
