"""Runs on targets in flat space; a trained sampler crosses between modes where HMC of as many steps does not."""

import dataclasses
import io
import json

import jax
import numpy as np
import pytest
from rich.console import Console
from small_runs import histories

from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.models import model as models
from dlhmc.runs.config import SampleConfig, TrainConfig
from dlhmc.runs.directory import RunDirectory
from dlhmc.runs.loop import Conditions
from dlhmc.runs.sampling import sample
from dlhmc.runs.training import train
from dlhmc.targets import standard

# The annealing begins so low that plain HMC crosses, and training keeps what it learns there.
TRAINING = {
    "target": "mixture",
    "leapfrog_steps": 4,
    "hidden": (16,),
    "steps": 800,
    "learning_rate": 0.01,
    "gamma_start": 0.03,
}
# All chains start in the left mode.
SAMPLING = {"target": "mixture", "leapfrog_steps": 4, "start": "cold", "trajectories": 400, "warmup": 100}

QUIET = Conditions(quiet=True)


def console():
    return Console(file=io.StringIO(), width=80)


def summary(path):
    return json.loads((path / "summary.json").read_text())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "mixture"
    assert train(TrainConfig(**TRAINING), path, console(), QUIET) is ExitCode.OK
    return path


def sampled(path, **changes):
    assert sample(SampleConfig(**SAMPLING | changes), path, console(), QUIET) is ExitCode.OK
    mode = histories(path)["mode"]
    return np.mean(mode[1:] != mode[:-1]), summary(path)


@pytest.mark.slow
def test_trained_chains_cross_between_modes_and_hmc_does_not(trained, tmp_path):
    learned, result = sampled(tmp_path / "dlhmc", model=str(trained))
    plain, _ = sampled(tmp_path / "hmc")
    assert learned > 0.1
    assert plain < 0.01 * learned
    assert result["leapfrog_steps"] == 4
    for name in ("mode", "x0", "x0_squared", "squared_norm"):
        assert abs(result[name]["z"]) < 4, (name, result[name])  # a new seed would fail with probability 3e-4
    assert result["tau_int_mode"]["value"] < 2
    assert not any("charge" in name for name in result)
    assert models.read_description(RunDirectory(trained).model)["target"] == {"name": "mixture"}


@pytest.fixture
def untrained(tmp_path_factory):
    """A model file, as training would write it."""
    path = tmp_path_factory.mktemp("model") / "mixture.npz"
    config = models.ModelConfig(leapfrog_steps=2, hidden=(4,), rule="affine")
    trajectory = models.build(config, standard["mixture"](), jax.random.key(0))
    settings = {"model": dataclasses.asdict(config), "target": {"name": "mixture"}, "symmetric": False}
    models.save(path, trajectory, settings)
    return path


def test_a_model_knows_its_target(untrained, tmp_path, capsys):
    assert cli.run(["sample", "--model", str(untrained), "--dry-run"]) == ExitCode.OK
    assert "target = mixture" in capsys.readouterr().out
    for other in ({"target": "funnel"}, {"lattice": (4, 4)}):
        with pytest.raises(UserError, match=r"trained for the target mixture, not (funnel|u1): give --target mixture"):
            sample(SampleConfig(model=str(untrained), **other), tmp_path / "s", console())
    with pytest.raises(UserError, match="trained for the target mixture, not rough-well"):
        train(TrainConfig(target="rough-well", model=str(untrained), steps=1), tmp_path / "t", console())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["funnel", "correlated-gaussian"])
def test_exact_draws_of_vector_targets(name, tmp_path):
    screen = console()
    config = SampleConfig(target=name, kernel="exact", chains=100, trajectories=100, warmup=0)
    assert sample(config, tmp_path / "run", screen) is ExitCode.OK
    result, target = summary(tmp_path / "run"), standard[name]()
    assert result["target"] == name
    assert not {"lattice", "beta"} & result.keys()
    for moment in target.moments:
        assert abs(result[moment]["z"]) < 4  # a new seed would fail with probability 3e-4
    for slow in target.slow:
        assert result[f"tau_int_{slow}"]["value"] == pytest.approx(0.5, abs=0.1)
    text = screen.file.getvalue()
    assert f"exact  {name}  100 chains" in text
    assert "charge" not in text


def test_the_circle_rule_is_refused_for_vectors(tmp_path):
    with pytest.raises(UserError, match="The circle rule is for angles"):
        train(TrainConfig(**TRAINING | {"rule": "circle"}), tmp_path / "x", console())
