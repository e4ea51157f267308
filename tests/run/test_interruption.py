import io
import signal

import pytest
from rich.console import Console
from safetensors.numpy import load_file
from small_runs import (
    assert_same_run,
    assert_same_state,
    assert_tensorboard_shows_the_metrics,
    command,
    metrics,
    resume,
    run,
    start,
    tiny,
)

from dlhmc.errors import ExitCode
from dlhmc.plans.training import TrainPlan
from dlhmc.settings import read_table, to_toml

# Chunks that are short, so that a signal comes between many of them; the uninterrupted run has long ones.
LONG = {"trajectories": 200, "hits": 1, "keep_configurations": 4}
# Only a run that hangs is waited for so long.
PATIENCE = 900


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return run(tmp_path_factory.mktemp("runs") / "uninterrupted", **LONG)


@pytest.fixture
def arguments(tmp_path):
    (tmp_path / "config.toml").write_text(to_toml(tiny(**LONG, chunk=2).table()))
    return command("sample", "--config", tmp_path / "config.toml", "--out", tmp_path / "run")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
def test_an_interrupted_run_equals_the_uninterrupted_one(
    number, code, arguments, tmp_path, compilation_cache, uninterrupted
):
    directory = tmp_path / "run"
    process = start(arguments, directory, compilation_cache)
    process.send_signal(number)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert errors == ""
    reached = metrics(directory)[-1]["step"]
    assert 0 < reached < 210
    assert f"stopped after {reached} of 210 trajectories" in output
    assert f"dlhmc resume {directory}\n" in output

    resume(directory)
    assert_same_run(uninterrupted, directory)
    steps = [line["step"] for line in metrics(directory)]
    assert steps == sorted(set(steps))
    assert steps[-1] == 210


def without_times(lines):
    return [{name: value for name, value in line.items() if name != "steps_per_second"} for line in lines]


def test_interrupted_training_equals_uninterrupted_training(tmp_path, compilation_cache):
    settings = {
        "hidden": (4,),
        "window": 2,
        "lattice": (4, 4),
        "beta": 2.0,
        "leapfrog_steps": 1,
        "chains": 4,
        "start": "cold",
    }
    plan = TrainPlan.from_table(settings | {"steps": 300, "burn_in": 1, "chunk": 2})
    (tmp_path / "config.toml").write_text(to_toml(plan.table()))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    quiet = Console(file=io.StringIO())
    assert TrainPlan.from_table(read_table(tmp_path / "config.toml")).run(whole, quiet)[1] == ExitCode.OK

    arguments = command("train", "--config", tmp_path / "config.toml", "--tensorboard", "--out", parts)
    process = start(arguments, parts, compilation_cache)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == ExitCode.INTERRUPTED
    assert errors == ""
    reached = metrics(parts)[-1]["step"]
    assert 0 < reached < 300
    assert f"stopped after {reached} of 300 steps" in output
    assert_tensorboard_shows_the_metrics(parts)
    assert TrainPlan.resume(parts, quiet) == ExitCode.OK

    assert_same_state(whole, parts)
    assert without_times(metrics(whole)) == without_times(metrics(parts))
    assert_tensorboard_shows_the_metrics(parts)
    one, other = (load_file(path / "model.safetensors") for path in (whole, parts))
    assert {name: array.tobytes() for name, array in one.items()} == {name: a.tobytes() for name, a in other.items()}
