"""Training runs: bit for bit the same in memory, in a directory and after an interruption, and a model in the end."""

import dataclasses
import io
import json
import re
import shutil
import sys

import equinox as eqx
import jax
import numpy as np
import pytest
from rich.console import Console
from small_runs import assert_tensorboard_shows_the_metrics, shown_by_tensorboard
from toys import TARGET, interrupt

import dlhmc
from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.models.model import Model
from dlhmc.report.training import training_pictures
from dlhmc.run.directory import Place, read_json
from dlhmc.run.driver import ExecutionOptions
from dlhmc.run.settings import OptimiserSettings, TrainAmounts
from dlhmc.run.training import Training, train
from dlhmc.spec.training import TrainSpec, adam
from dlhmc.training import Algorithm, LaterStage, jump_loss


@pytest.fixture(scope="module")
def layers():
    return dlhmc.build_trajectory(TARGET, "dense", layers=1, hidden=(2,), step_size=0.3)


@pytest.fixture(scope="module")
def go(layers):
    """Trains in memory or in a directory, always with the same program."""
    optimiser = adam(OptimiserSettings(learning_rate=1e-2, rate_warmup=2), 12)
    algorithm = Algorithm(TARGET, None, jump_loss, optimiser)

    def run(path=None, resuming=False, progress=None, screen=None, stages=1, trajectory=layers, **changes):
        amounts = TrainAmounts(**{"chains": 4, "steps": 12, "burn_in": 1, "start": "hot"} | changes)
        options = ExecutionOptions(quiet=progress is None and screen is None, progress=progress)
        place = None if path is None else Place(path, {"objects": "toy", "run": dataclasses.asdict(amounts)}, resuming)
        console = Console(file=screen or io.StringIO(), width=1000)
        later = [LaterStage(algorithm, lambda trained, target: trained)] * (stages - 1)
        return train(algorithm, trajectory, amounts, {}, place, console, options, later=later)

    return run


@pytest.fixture(scope="module")
def whole(go):
    work, code = go()
    assert code == ExitCode.OK
    return work


@pytest.fixture(scope="module")
def finished(go, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "run"
    assert go(path, chunk=3)[1] is ExitCode.OK
    return path


def assert_same(one, other):
    for a, b in zip(*(jax.tree.leaves(eqx.filter(work.carry, eqx.is_array)) for work in (one, other)), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("chunk", [5, None])
@pytest.mark.parametrize("stored", [False, True])
def test_numbers_do_not_depend_on_chunks_and_files(chunk, stored, whole, go, tmp_path):
    assert_same(whole, go(tmp_path / "run" if stored else None, chunk=chunk)[0])


def test_interrupted_training_equals_uninterrupted_training(whole, go, tmp_path):
    for step in (3, 7):
        resuming = (tmp_path / "run").exists()
        _, code = go(tmp_path / "run", resuming, interrupt(step), chunk=2, tensorboard=True)
        assert code == ExitCode.INTERRUPTED
    work, _ = go(tmp_path / "run", True, chunk=2, tensorboard=True)
    assert_same(whole, work)
    assert_tensorboard_shows_the_metrics(tmp_path / "run")


def test_a_finished_training_can_go_on(whole, go, tmp_path):
    """The schedules of this one do not depend on its length, so that it is as if it had been asked for at once."""
    go(tmp_path / "run")
    work, code = go(tmp_path / "run", True, steps=20)
    assert (code, work.steps_done) == (ExitCode.OK, 20)
    assert_same(go(steps=20)[0], work)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 20
    with pytest.raises(UserError, match="can go on with more, not with fewer"):
        go(tmp_path / "run", True, steps=12)
    before = whole.carry.guard
    assert float(before.rate_factor) == 1


def test_stages_go_on_in_the_one_that_was_reached_and_cannot_become_longer(go, tmp_path):
    both, _ = go(stages=2)
    for step in (4, 8):  # in the first stage, and in the second
        path = tmp_path / str(step)
        assert go(path, False, interrupt(step), stages=2, chunk=1)[1] == ExitCode.INTERRUPTED
        assert_same(both, go(path, True, stages=2, chunk=1)[0])
    with pytest.raises(UserError, match="a training in several stages has its steps"):
        go(path, True, stages=2, chunk=1, steps=20)


def test_files_of_a_run(finished):
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [3, 6, 9, 12]
    assert {"loss", "acceptance", "skipped", "restored", "rate_factor"} <= lines[-1].keys()
    assert not (finished / "tensorboard").exists()
    assert Model.open(str(finished)).description["training"]["steps"] == 12


def test_curves_of_a_run_that_has_lost_its_last_checkpoint_are_not_shown(finished, tmp_path):
    copied = shutil.copytree(finished, tmp_path / "copied")
    (copied / "checkpoints" / "12.npz").unlink()
    with pytest.raises(UserError, match=r"the checkpoint of step 12 is missing.*dlhmc resume"):
        training_pictures([copied])


def test_gradients_that_are_not_finite_end_the_run_with_everything_saved(go, layers, tmp_path):
    wild = jax.tree.map(lambda a: np.full_like(a, 1e30), layers)
    path = tmp_path / "run"
    for resuming in (False, True):  # its last checkpoint can be read
        with pytest.raises(UserError, match=r"gradient was not finite again and again.*lower learning_rate"):
            go(path, resuming, trajectory=wild)
    assert (path / "model.safetensors").exists()


def test_updates_that_are_skipped_and_parameters_that_are_not_finite_are_warned_of(whole, layers):
    """A finished run whose last state is spoiled by hand."""
    good, screen = whole.carry, io.StringIO()
    spoiled = jax.tree.map(lambda a: np.full_like(a, np.inf), good.trajectory)
    try:
        whole.carry = good._replace(trajectory=spoiled, guard=good.guard._replace(skipped=np.int32(3)))
        whole.show(Console(file=screen, width=1000))
    finally:
        whole.carry = good
    assert "Warning: 3 of 12 updates were skipped" in screen.getvalue()
    assert "Warning: The last parameters are not finite; the model holds earlier ones." in screen.getvalue()


def test_tensorboard_shows_the_metrics_also_after_a_crash(go, tmp_path, monkeypatch):
    """As after a power cut: events are there of steps after the checkpoint that the run goes on from."""

    def crash(work, step, count, advance=Training.advance):
        if step == 6:
            raise RuntimeError("crash")
        advance(work, step, count)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "advance", crash)
        with pytest.raises(RuntimeError):
            go(tmp_path / "run", chunk=3, tensorboard=True)
    assert sorted(shown_by_tensorboard(tmp_path / "run")) == [3, 6]
    go(tmp_path / "run", True, chunk=3, tensorboard=True)
    assert sorted(shown_by_tensorboard(tmp_path / "run")) == [3, 6, 9, 12]
    assert_tensorboard_shows_the_metrics(tmp_path / "run")


def test_tensorboard_must_be_installed(go, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)  # as Python marks what cannot be imported
    with pytest.raises(UserError, match=re.escape("pip install 'dlhmc[tensorboard]'")):
        go(tmp_path / "x", tensorboard=True)
    assert not (tmp_path / "x").exists()


def test_what_has_no_model_is_told_apart(tmp_path):
    compared = tmp_path / "compared"
    compared.mkdir()
    (compared / "results.json").touch()
    with pytest.raises(UserError, match="is a comparison and has no model: give the training run"):
        Model.open(str(compared))
    (tmp_path / "begun").mkdir()
    with pytest.raises(UserError, match="no trained model yet: go on with 'dlhmc resume"):
        Model.open(str(tmp_path / "begun"))


@pytest.mark.parametrize(
    "settings",
    [
        {"gamma_start": 0.0},
        {"anneal": 2.0},
        {"network": "dense", "hidden": ()},
        {"gamma_knots": (0.0, 0.5, 1.0, 0.9)},
        {"clip": 0.0},
    ],
)
def test_bad_settings(settings):
    with pytest.raises(UserError, match="must be"):
        TrainSpec.of({"network": "local", "lattice": (4, 4), "beta": 2.0} | settings)


def test_training_says_when_it_did_not_learn_to_leave_sectors(tmp_path):
    """Nothing leaves its sector at β = 12 with networks that see hardly a step of training."""
    words = "train u1 dense --lattice 4 4 --beta 12 --hidden 4 --leapfrog-steps 1 --steps 200 --chains 4"
    assert cli.run([*words.split(), "--quiet", "--out", str(tmp_path / "run")]) == ExitCode.OK
    (warning,) = read_json(tmp_path / "run" / "summary.json")["warnings"]
    assert warning.startswith("Nothing was learned about leaving sectors: they change in ")
