"""SIGKILL in a process of the command line; what runs do about other signals is in test_driver.py."""

import signal

import pytest
from small_runs import assert_same_run, command, metrics, resume, run, start

# Chunks that are short, so that a signal comes between many of them; the uninterrupted run has long ones.
LONG = {"trajectories": 200, "keep_configurations": 4}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return run(tmp_path_factory.mktemp("runs") / "uninterrupted", **LONG)


def test_a_run_that_was_killed_equals_the_uninterrupted_one(tmp_path, compilation_cache, uninterrupted):
    directory = tmp_path / "run"
    sizes = "--lattice 4 4 --beta 2 --chains 4 --trajectories 200 --warmup 10 --leapfrog-steps 4 --start cold"
    arguments = command("sample", "u1", *sizes.split(), "--keep-configurations", 4, "--chunk", 2, "--out", directory)
    process = start(arguments, directory, compilation_cache)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=900)
    resume(directory)
    assert_same_run(uninterrupted, directory)
    steps = [line["step"] for line in metrics(directory)]
    assert steps == sorted(set(steps))
    assert steps[-1] == 210
