"""Ctrl-C and SIGKILL in processes of the command line; what runs do about signals otherwise is in test_driver.py."""

import signal

import pytest
from small_runs import assert_same_run, command, metrics, resume, run, start

from dlhmc.errors import ExitCode

# Chunks that are short, so that a signal comes between many of them; the uninterrupted run has long ones.
LONG = {"trajectories": 200, "keep_configurations": 4}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return run(tmp_path_factory.mktemp("runs") / "uninterrupted", **LONG)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_equals_the_uninterrupted_one(number, tmp_path, compilation_cache, uninterrupted):
    directory = tmp_path / "run"
    sizes = "--lattice 4 4 --beta 2 --chains 4 --trajectories 200 --warmup 10 --leapfrog-steps 4 --start cold"
    arguments = command("sample", "u1", *sizes.split(), "--keep-configurations", 4, "--chunk", 2, "--out", directory)
    process = start(arguments, directory, compilation_cache)
    process.send_signal(number)
    output, errors = process.communicate(timeout=900)
    if number == signal.SIGINT:
        assert (process.returncode, errors) == (ExitCode.INTERRUPTED, "")
        reached = metrics(directory)[-1]["step"]
        assert 0 < reached < 210
        assert f"stopped after {reached} of 210 trajectories, all saved; go on with\n" in output
        assert f"dlhmc resume {directory}\n" in output
    resume(directory)
    assert_same_run(uninterrupted, directory)
    steps = [line["step"] for line in metrics(directory)]
    assert steps == sorted(set(steps))
    assert steps[-1] == 210
