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
from small_runs import assert_tensorboard_shows_the_metrics, shown_by_tensorboard

from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.machine.devices import Devices
from dlhmc.models import model as models
from dlhmc.report.training import training_charts
from dlhmc.runs.checkpoint import Checkpoints
from dlhmc.runs.config import SampleConfig, TrainConfig, load, save
from dlhmc.runs.directory import RunDirectory, new_run
from dlhmc.runs.loop import Conditions, execute
from dlhmc.runs.sampling import resume as resume_sampling
from dlhmc.runs.sampling import sample, show_results
from dlhmc.runs.training import Training, begin_state, describe_model, plan, prepare, resume, train

SMALL = {
    "network": "dense",
    "lattice": (4, 4),
    "beta": 2.0,
    "hidden": (8,),
    "leapfrog_steps": 2,
    "chains": 16,
    "steps": 12,
    "burn_in": 3,
    "rate_warmup": 2,
}

QUIET = Conditions(quiet=True)


def console():
    return Console(file=io.StringIO())


def arrays_of(model):
    with np.load(model, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files if name != "description"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "run"
    assert train(TrainConfig(**SMALL), path, console(), QUIET) is ExitCode.OK
    return path


def test_updates_that_are_skipped_and_parameters_that_are_not_finite_are_warned_of(finished, tmp_path):
    """A finished run whose last state is spoiled by hand: the model must be of good parameters, and say so."""
    config = TrainConfig(**SMALL)
    algorithm, draws = plan(config)
    state = begin_state(config, algorithm, draws)
    spoiled = eqx.tree_at(lambda s: s.trajectory.layers.log_step_x, state, np.full(2, np.inf, np.float32))
    spoiled = spoiled._replace(guard=spoiled.guard._replace(skipped=np.int32(3)))
    screen = io.StringIO()
    with new_run("train", config, tmp_path / "spoiled") as directory:
        work = Training(config, directory, algorithm, Devices(), spoiled, describe_model(config))
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
    with pytest.raises(UserError, match=r"gradient was not finite again and again.*lower --learning-rate"):
        train(TrainConfig(**SMALL | {"step_size": 1e30}), path, console())
    assert all(np.isfinite(array).all() for array in arrays_of(path / "model.npz").values())
    with pytest.raises(UserError, match="again and again"):  # its last checkpoint can be read
        resume(path, console())


def test_curves_of_a_run_that_has_lost_its_last_checkpoint_are_not_shown(finished, tmp_path):
    copied = shutil.copytree(finished, tmp_path / "copied")
    (copied / "checkpoints" / "12.npz").unlink()
    with pytest.raises(UserError, match=r"the checkpoint of step 12 is missing.*dlhmc resume"):
        training_charts([copied])


def final_state(path, config):
    algorithm, draws = plan(config)
    arrays = eqx.filter(begin_state(config, algorithm, draws), eqx.is_array)
    directory = RunDirectory(path)
    return Checkpoints(directory.checkpoints, run=directory.identity()).restore(arrays)


class Interrupting(Training):
    """Stops as by Ctrl-C after half of the steps."""

    def verdict(self):
        return "interrupted" if len(self._recent.get("loss", ())) >= 6 else None


class Crashing(Training):
    """Dies after half of the steps, before it has saved them."""

    def advance(self, step, count):
        if step == 6:
            raise RuntimeError("crash")
        super().advance(step, count)


@pytest.mark.slow
def test_half_resume_half_equals_the_whole(finished, tmp_path):
    config = TrainConfig(**SMALL, chunk=3)
    prepared = prepare(config, QUIET)
    with new_run("train", config, tmp_path / "half") as directory:
        work = Interrupting(config, directory, *prepared, describe_model(config))
        with pytest.raises(UserError, match="interrupted"):
            execute(work, directory, console(), QUIET, resuming=False, chunk=3)
    assert resume(tmp_path / "half", console(), QUIET) is ExitCode.OK
    whole, parts = (final_state(p, TrainConfig(**SMALL)) for p in (finished, tmp_path / "half"))
    assert whole[0] == parts[0] == 12
    for a, b in zip(jax.tree.leaves(whole[1]), jax.tree.leaves(parts[1]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_files_of_a_run(finished):
    directory = RunDirectory(finished)
    lines = [json.loads(line) for line in directory.metrics.read_text().splitlines()]
    assert lines[-1]["step"] == 12
    assert {"loss", "acceptance", "gamma", "tunnelling_rate", "skipped", "restored"} <= lines[-1].keys()
    description = models.read_description(directory.model)
    assert description["target"] == {"name": "u1", "lattice": [4, 4], "beta": 2.0}
    assert load(TrainConfig, directory.config) == TrainConfig(**SMALL)
    assert not directory.tensorboard.exists()


def test_a_finished_run_can_be_resumed(finished):
    before = arrays_of(RunDirectory(finished).model)
    assert resume(finished, console(), QUIET) is ExitCode.OK
    for name, array in arrays_of(RunDirectory(finished).model).items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.slow
def test_tensorboard_shows_the_metrics_also_after_a_crash(tmp_path):
    """As after a power cut: events are there of steps after the checkpoint that the run goes on from."""
    config = TrainConfig(**SMALL, chunk=3, tensorboard=True)
    prepared = prepare(config, QUIET)
    with new_run("train", config, tmp_path / "run") as directory:
        work = Crashing(config, directory, *prepared, describe_model(config))
        with pytest.raises(RuntimeError, match="crash"):
            execute(work, directory, console(), QUIET, resuming=False, chunk=3)
    assert sorted(shown_by_tensorboard(tmp_path / "run")) == [3, 6]
    assert resume(tmp_path / "run", console(), QUIET) is ExitCode.OK
    assert sorted(shown_by_tensorboard(tmp_path / "run")) == [3, 6, 9, 12]
    assert_tensorboard_shows_the_metrics(tmp_path / "run")


def test_tensorboard_must_be_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)  # as Python marks what cannot be imported
    with pytest.raises(UserError, match=re.escape("pip install 'dlhmc[tensorboard]'")):
        train(TrainConfig(**SMALL, tensorboard=True), tmp_path / "x", console(), QUIET)
    assert not (tmp_path / "x").exists()


def test_sampling_with_a_model_at_another_coupling(finished, tmp_path):
    model = tmp_path / "model.npz"
    model.write_bytes(RunDirectory(finished).model.read_bytes())
    config = SampleConfig(model=str(model), lattice=(4, 4), beta=1.5, chains=64, trajectories=100, warmup=5)
    assert sample(config, tmp_path / "s", console(), QUIET) is ExitCode.OK
    summary = json.loads((tmp_path / "s" / "summary.json").read_text())
    assert summary["kernel"] == "dlhmc"
    assert summary["leapfrog_steps"] == 2
    assert abs(summary["plaquette"]["z"]) < 5

    model.write_bytes((models.SHIPPED / "u1-b2.npz").read_bytes())
    for command in (show_results, resume_sampling):
        with pytest.raises(UserError, match=r"is not the one that .* began with"):
            command(tmp_path / "s", console())


def test_a_model_brings_its_lattice_and_coupling(finished, capsys):
    assert cli.run(["sample", "--model", str(finished), "--chains", "6", "--beta", "3", "--dry-run"]) == ExitCode.OK
    shown = capsys.readouterr().out
    for line in ("kernel = dlhmc", "target = u1", "lattice = (4, 4)", "beta = 3.0", "chains = 6"):
        assert line in shown


def test_transfer_starts_from_the_parameters_of_a_run(finished, tmp_path):
    config = TrainConfig(**SMALL | {"beta": 2.5, "steps": 1, "learning_rate": 1e-12}, model=str(finished))
    assert train(config, tmp_path / "t", console(), QUIET) is ExitCode.OK
    before, after = (arrays_of(RunDirectory(p).model) for p in (finished, tmp_path / "t"))
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "affine"}, "no bijection of angles"),
        ({"model": "no/such/model"}, "There is no model or training run"),
        ({"hidden": (5,)}, "does not fit: it has --hidden 8, not 5"),
        ({"rule": "shift"}, "does not fit: it has --rule circle, not shift"),
        ({"lattice": (6, 4)}, "does not fit: its dense networks are for the lattice 4 4, not 6 4"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(settings, message, finished, tmp_path):
    config = TrainConfig(**SMALL | {"model": str(finished)} | settings)
    with pytest.raises(UserError, match=message):
        train(config, tmp_path / "x", console(), QUIET)
    assert not (tmp_path / "x").exists()


def test_a_damaged_model_is_refused(finished, tmp_path):
    model = RunDirectory(finished).model
    data = bytearray(model.read_bytes())
    for cut in (0, 10, len(data) // 2):
        (tmp_path / "cut.npz").write_bytes(data[:cut])
        with pytest.raises(UserError, match="damaged"):
            models.read_description(tmp_path / "cut.npz")
    archive = dict(np.load(model, allow_pickle=False))
    name = next(n for n in archive if "log_step_v" in n)
    for value, message in ((archive[name] + 1, "not what was saved"), (archive[name] * np.nan, "not finite")):
        np.savez(tmp_path / "changed.npz", **archive | {name: value})
        config = TrainConfig(**SMALL, model=str(tmp_path / "changed.npz"))
        with pytest.raises(UserError, match=message):
            train(config, tmp_path / "y", console(), QUIET)


@pytest.mark.parametrize(
    "settings",
    [{"gamma_start": 0.0}, {"anneal": 2.0}, {"hidden": ()}, {"gamma_knots": (0.0, 0.5, 1.0, 0.9)}, {"clip": 0.0}],
)
def test_bad_settings(settings):
    with pytest.raises(UserError, match="must be"):
        TrainConfig(**SMALL | settings)


@pytest.mark.parametrize(
    ("network", "settings"),
    [
        ("defect", {"rule": "shift"}),
        ("defect", {"hidden": (3,)}),
        ("patch", {"mask": "checkerboard"}),
        ("dense", {"radii": (0.0, 1.0)}),
    ],
)
def test_settings_that_would_be_ignored_are_refused(network, settings):
    with pytest.raises(UserError, match=f"--{next(iter(settings))} means nothing to --network {network}: leave it out"):
        TrainConfig(network=network, **settings)


def test_a_configuration_survives_its_file(tmp_path):
    config = TrainConfig(**SMALL, gamma_knots=(0.0, 0.5, 1.0, 1.0), beta_start=1.0, model="m")
    save(config, tmp_path / "c.toml")
    assert load(TrainConfig, tmp_path / "c.toml") == config
