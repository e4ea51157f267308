"""Training runs: bit for bit the same after an interruption, and a model that can be sampled with."""

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
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from small_runs import assert_tensorboard_shows_the_metrics, shown_by_tensorboard

from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.models.model import Model, describe, find, save
from dlhmc.plans.sampling import SamplePlan
from dlhmc.plans.training import TrainPlan
from dlhmc.report.training import training_pictures
from dlhmc.run.checkpoint import Checkpoints
from dlhmc.run.directory import RunDirectory, new_run
from dlhmc.run.loop import PLAIN, ExecutionOptions, execute
from dlhmc.run.training import Stages, Training
from dlhmc.settings import read_table, to_toml
from dlhmc.training import LaterStage

# Layers that compile fast, as most of what happens in a run does not depend on them.
SMALL = {
    "network": "local",
    "hidden": (4,),
    "window": 3,
    "lattice": (4, 4),
    "beta": 2.0,
    "leapfrog_steps": 2,
    "chains": 16,
    "steps": 12,
    "burn_in": 3,
    "rate_warmup": 2,
    "start": "cold",
}

QUIET = ExecutionOptions(quiet=True)


def console():
    return Console(file=io.StringIO())


def planned(**changes):
    table = SMALL | changes
    windows = {} if table["network"] == "local" else {"window"}
    return TrainPlan.from_table({name: value for name, value in table.items() if name not in windows})


def begun(plan, directory, kind=Training):
    """A run before its first step."""
    _, trajectory, _ = plan.build()
    first, *algorithms = plan.algorithms()
    grown = [stage.architecture.grown for stage in plan.stages()[1:]]
    later = tuple(LaterStage(*stage) for stage in zip(algorithms, grown, strict=True))
    return kind(Stages(first, trajectory, later, plan.amounts, PLAIN), directory, {})


def stopped(kind, plan, path, reason):
    """A run of a kind that does not come to its end."""
    with new_run("train", plan.table(), path) as directory:
        work = begun(plan, directory, kind)
        with pytest.raises(reason):
            execute(work, directory, console(), QUIET, resuming=False, chunk=plan.amounts.chunk)


def arrays_of(model):
    return load_file(model)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "run"
    assert planned().run(path, console(), QUIET)[1] is ExitCode.OK
    return path


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """A model with settings of its own, untrained."""
    path, plan = tmp_path_factory.mktemp("networks") / "model.safetensors", planned(network="dense", hidden=(8,))
    _, trajectory, _ = plan.build()
    save(path, trajectory, describe(plan.architecture, {"name": "u1", "lattice": [4, 4], "beta": 2.0}))
    return path


@pytest.mark.parametrize(("beta", "wanted"), [(0.5, []), (12.0, ["Nothing was learned about leaving sectors"])])
def test_trainings_say_where_they_did_not_learn_to_leave_sectors(beta, wanted, tmp_path):
    """At the larger coupling nothing leaves; at the smaller one everything does, and there is nothing to learn."""
    plan = planned(beta=beta, steps=200, gamma_start=1.0, chains=64)
    with new_run("train", plan.table(), tmp_path / "run") as directory:
        work = begun(plan, directory)
        execute(work, directory, console(), QUIET, resuming=False, chunk=None)
    warnings = json.loads(directory.summary.read_text())["warnings"]
    assert [warning.split(":")[0] for warning in warnings] == wanted


def test_updates_that_are_skipped_and_parameters_that_are_not_finite_are_warned_of(finished, tmp_path):
    """A finished run whose last state is spoiled by hand: the model must be of good parameters, and say so."""
    screen = io.StringIO()
    with new_run("train", planned().table(), tmp_path / "spoiled") as directory:
        work = begun(planned(), directory)
        spoiled = eqx.tree_at(lambda s: s.trajectory.inside.log_step, work.state, np.full(1, np.inf, np.float32))
        work.state = spoiled._replace(guard=spoiled.guard._replace(skipped=np.int32(3)))
        work._recent = {"gamma": np.ones(1), "acceptance": np.ones(1), "loss": np.zeros(1)}
        work.finish(Console(file=screen))
    assert all(np.isfinite(array).all() for array in arrays_of(directory.model).values())
    summary = json.loads(directory.summary.read_text())
    assert len(summary["warnings"]) == 2
    assert all(f"Warning: {warning}" in screen.getvalue() for warning in summary["warnings"])
    assert "3 of 12 updates were skipped" in screen.getvalue()
    quiet = json.loads((finished / "summary.json").read_text())
    assert (quiet["warnings"], quiet["nonfinite_fraction"]) == ([], 0)


def test_gradients_that_are_not_finite_end_the_run_with_everything_saved(tmp_path):
    path = tmp_path / "run"
    with pytest.raises(UserError, match=r"gradient was not finite again and again.*lower learning_rate"):
        planned(step_size=1e30).run(path, console())
    assert all(np.isfinite(array).all() for array in arrays_of(path / "model.safetensors").values())
    with pytest.raises(UserError, match="again and again"):  # its last checkpoint can be read
        TrainPlan.resume(path, console())


def test_curves_of_a_run_that_has_lost_its_last_checkpoint_are_not_shown(finished, tmp_path):
    copied = shutil.copytree(finished, tmp_path / "copied")
    (copied / "checkpoints" / "12.npz").unlink()
    with pytest.raises(UserError, match=r"the checkpoint of step 12 is missing.*dlhmc resume"):
        training_pictures([copied])


def final_state(path):
    directory = RunDirectory(path)
    arrays = eqx.filter(begun(planned(), directory).state, eqx.is_array)
    return Checkpoints(directory.checkpoints, run=directory.identity()).restore(lambda _: arrays)


class Interrupting(Training):
    """Stops as by Ctrl-C after half of the steps."""

    def verdict(self):
        return UserError("interrupted") if len(self._recent.get("loss", ())) >= 6 else None


class Crashing(Training):
    """Dies after half of the steps, before it has saved them."""

    def advance(self, step, count):
        if step == 6:
            raise RuntimeError("crash")
        super().advance(step, count)


@pytest.mark.slow
def test_half_resume_half_equals_the_whole(finished, tmp_path):
    stopped(Interrupting, planned(chunk=3), tmp_path / "half", UserError)
    assert TrainPlan.resume(tmp_path / "half", console(), QUIET) is ExitCode.OK
    whole, parts = (final_state(p) for p in (finished, tmp_path / "half"))
    assert whole[0] == parts[0] == 12
    for a, b in zip(jax.tree.leaves(whole[1]), jax.tree.leaves(parts[1]), strict=True):
        np.testing.assert_array_equal(a, b)


class StoppedAt(Training):
    """Dies before a step, which is set for each test."""

    last = 0

    def advance(self, step, count):
        if step == self.last:
            raise RuntimeError("crash")
        super().advance(step, count)


@pytest.mark.slow
def test_training_in_stages_goes_on_in_the_stage_where_it_was(tmp_path):
    """Stopped in the second stage; where its only checkpoint is damaged, the one before is of the first."""
    plan = planned(window=7, lattice=(8, 8), beta=0.5, steps=6, chunk=1)
    assert len(plan.stages()) == 2
    assert plan.run(tmp_path / "whole", console(), QUIET)[1] is ExitCode.OK
    expected = arrays_of(tmp_path / "whole" / "model.safetensors")
    StoppedAt.last = 3
    stopped(StoppedAt, plan, tmp_path / "second", RuntimeError)
    first = shutil.copytree(tmp_path / "second", tmp_path / "first")
    assert sorted(file.name for file in (first / "checkpoints").iterdir()) == ["2.npz", "3.npz"]
    (first / "checkpoints" / "3.npz").write_bytes(b"")
    for path in (tmp_path / "second", first):
        assert TrainPlan.resume(path, console(), QUIET) is ExitCode.OK
        found = arrays_of(path / "model.safetensors")
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)


def test_files_of_a_run(finished):
    directory = RunDirectory(finished)
    lines = [json.loads(line) for line in directory.metrics.read_text().splitlines()]
    assert lines[-1]["step"] == 12
    assert {"loss", "acceptance", "gamma", "tunnelling_rate", "skipped", "restored"} <= lines[-1].keys()
    description = Model.open(str(finished)).description
    assert description["target"] == {"name": "u1", "lattice": [4, 4], "beta": 2.0, "action": "wilson"}
    assert TrainPlan.from_table(read_table(directory.config)).table() == planned().table()
    assert not directory.tensorboard.exists()


def test_a_finished_run_can_be_resumed(finished):
    before = arrays_of(RunDirectory(finished).model)
    assert TrainPlan.resume(finished, console(), QUIET) is ExitCode.OK
    for name, array in arrays_of(RunDirectory(finished).model).items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.slow
def test_tensorboard_shows_the_metrics_also_after_a_crash(tmp_path):
    """As after a power cut: events are there of steps after the checkpoint that the run goes on from."""
    stopped(Crashing, planned(chunk=3, tensorboard=True), tmp_path / "run", RuntimeError)
    assert sorted(shown_by_tensorboard(tmp_path / "run")) == [3, 6]
    assert TrainPlan.resume(tmp_path / "run", console(), QUIET) is ExitCode.OK
    assert sorted(shown_by_tensorboard(tmp_path / "run")) == [3, 6, 9, 12]
    assert_tensorboard_shows_the_metrics(tmp_path / "run")


def test_tensorboard_must_be_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)  # as Python marks what cannot be imported
    with pytest.raises(UserError, match=re.escape("pip install 'dlhmc[tensorboard]'")):
        planned(tensorboard=True).run(tmp_path / "x", console(), QUIET)
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_sampling_with_a_model_at_another_coupling(finished, tmp_path):
    model = tmp_path / "model.safetensors"
    model.write_bytes(RunDirectory(finished).model.read_bytes())
    table = {"model": str(model), "lattice": (4, 4), "beta": 1.5, "chains": 64, "trajectories": 100, "warmup": 5}
    assert SamplePlan.from_table(table).run(tmp_path / "s", console(), QUIET)[1] is ExitCode.OK
    summary = json.loads((tmp_path / "s" / "summary.json").read_text())
    # Learned proposals in windows take turns with HMC.
    assert (summary["kernel"], summary["move"], summary["moves"]) == ("hmc", "dlhmc", 1)
    assert summary["leapfrog_steps"] == 20 + 2
    assert abs(summary["plaquette"]["z"]) < 5

    trained = planned(model=str(model), steps=1, learning_rate=1e-3, seed=2)
    assert trained.run(tmp_path / "other", console(), QUIET)[1] is ExitCode.OK
    model.write_bytes(find(str(tmp_path / "other")).read_bytes())
    with pytest.raises(UserError, match=r"is not the one that .* began with"):
        SamplePlan.resume(tmp_path / "s", console())


def test_a_model_is_found_from_another_directory(finished, tmp_path, monkeypatch):
    """Its path is kept as it is everywhere."""
    monkeypatch.chdir(finished.parent)
    table = {"model": finished.name, "lattice": (4, 4), "chains": 4, "trajectories": 4, "warmup": 2}
    assert SamplePlan.from_table(table).run(tmp_path / "s", console(), QUIET)[1] is ExitCode.OK
    monkeypatch.chdir(tmp_path)
    assert SamplePlan.resume(tmp_path / "s", console()) is ExitCode.OK


def test_what_has_no_model_is_told_apart(finished, tmp_path):
    compared = tmp_path / "compared"
    compared.mkdir()
    (compared / "results.json").touch()
    with pytest.raises(UserError, match="is a comparison and has no model: give the training run"):
        Model.open(str(compared))
    (tmp_path / "begun").mkdir()
    with pytest.raises(UserError, match="no trained model yet: go on with 'dlhmc resume"):
        Model.open(str(tmp_path / "begun"))


def test_a_model_brings_its_lattice_and_coupling(finished, capsys):
    assert cli.run(["sample", "--model", str(finished), "--chains", "6", "--beta", "3", "--dry-run"]) == ExitCode.OK
    shown = capsys.readouterr().out
    for line in ("kernel = dlhmc", "target = u1", "lattice = (4, 4)", "beta = 3.0", "chains = 6"):
        assert line in shown


def test_transfer_starts_from_the_parameters_of_a_run(finished, tmp_path):
    plan = planned(beta=2.5, steps=1, learning_rate=1e-12, model=str(finished))
    assert plan.run(tmp_path / "t", console(), QUIET)[1] is ExitCode.OK
    before, after = (arrays_of(RunDirectory(p).model) for p in (finished, tmp_path / "t"))
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "affine"}, "Affine is no bijection of this target's fields"),
        ({"model": "no/such/model"}, "There is no model or training run"),
        ({"hidden": (5,)}, "does not fit: it has hidden 8, not 5"),
        ({"rule": "shift"}, "does not fit: it has rule 'circle', not 'shift'"),
        ({"lattice": (6, 4)}, "does not fit: its layers are for lattice 4 4, not 6 4"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(settings, message, networks, tmp_path):
    plan = planned(network="dense", **{"model": str(networks), "hidden": (8,)} | settings)
    with pytest.raises(UserError, match=message):
        plan.run(tmp_path / "x", console(), QUIET)
    assert not (tmp_path / "x").exists()


def test_a_damaged_model_is_refused(finished, tmp_path):
    model = RunDirectory(finished).model
    data = bytearray(model.read_bytes())
    for cut in (0, 10, len(data) // 2):
        (tmp_path / "cut.safetensors").write_bytes(data[:cut])
        with pytest.raises(UserError, match="damaged"):
            Model.open(str(tmp_path / "cut.safetensors"))
    arrays = load_file(model)
    name = next(n for n in arrays if "log_step" in n)
    with safe_open(model, framework="numpy") as file:
        save_file(arrays | {name: arrays[name] * np.nan}, tmp_path / "changed.safetensors", file.metadata())
    with pytest.raises(UserError, match="not finite"):
        planned(model=str(tmp_path / "changed.safetensors")).run(tmp_path / "y", console(), QUIET)
    (tmp_path / "numbers.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(UserError, match="damaged"):
        Model.open(str(tmp_path / "numbers.npz"))


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
        planned(**settings)


@pytest.mark.parametrize(
    ("network", "settings"),
    [
        ("local", {"rule": "shift"}),
        ("local", {"mask": "checkerboard"}),
        ("dense", {"window": 3}),
        ("covariant", {"heads": "links"}),
    ],
)
def test_settings_that_would_be_ignored_are_refused(network, settings):
    with pytest.raises(
        UserError, match=f"^{next(iter(settings))} is for the networks? .*, not for this run: leave it out"
    ):
        TrainPlan.from_table({"network": network} | settings)


def test_a_configuration_survives_its_file(tmp_path):
    plan = planned(gamma_knots=(0.0, 0.5, 1.0, 1.0), beta_start=1.0, model="m")
    (tmp_path / "c.toml").write_text(to_toml(plan.table()))
    assert TrainPlan.from_table(read_table(tmp_path / "c.toml")).table() == plan.table()
