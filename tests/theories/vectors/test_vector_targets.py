"""Runs on targets in flat space; a trained sampler crosses between modes where HMC of as many steps does not."""

import io
import json

import jax
import numpy as np
import pytest
from rich.console import Console
from small_runs import histories

from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.models.dense import DenseArchitecture
from dlhmc.models.model import Model, describe, save
from dlhmc.run.driver import ExecutionOptions
from dlhmc.spec.sampling import SampleSpec
from dlhmc.spec.training import TrainSpec
from dlhmc.theories import registry

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

QUIET = ExecutionOptions(quiet=True)


def console():
    return Console(file=io.StringIO(), width=80)


def summary(path):
    return json.loads((path / "summary.json").read_text())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "mixture"
    assert TrainSpec.of(TRAINING).run(path, console(), QUIET)[1] is ExitCode.OK
    return path


def sampled(path, **changes):
    assert SampleSpec.of(SAMPLING | changes).run(path, console(), QUIET)[1] is ExitCode.OK
    mode = histories(path)["mode"]
    return np.mean(mode[1:] != mode[:-1]), summary(path)


@pytest.mark.statistical
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
    assert Model.open(str(trained)).description["target"] == {"name": "mixture"}


def standard(name):
    return registry.theory(name).settings().build()


@pytest.fixture
def untrained(tmp_path_factory):
    """A model file, as training would write it."""
    path = tmp_path_factory.mktemp("model") / "mixture.safetensors"
    architecture, target = DenseArchitecture(leapfrog_steps=2, hidden=(4,), rule="affine"), standard("mixture")
    save(
        path,
        architecture.build(target, jax.random.key(0)),
        describe(architecture, {"name": "mixture"}),
    )
    return path


def test_a_model_knows_its_target(untrained, tmp_path, capsys):
    assert cli.run(["sample", "mixture", "--model", str(untrained), "--dry-run"]) == ExitCode.OK
    assert 'name = "mixture"' in capsys.readouterr().out
    for other in ({"target": "funnel"}, {"target": "u1", "lattice": (4, 4)}):
        with pytest.raises(UserError, match=r"was trained for mixture, not for (funnel|u1)"):
            SampleSpec.of({"model": str(untrained)} | other).run(tmp_path / "s", console())
    with pytest.raises(UserError, match="trained for mixture, not for rough-well"):
        TrainSpec.of({"target": "rough-well", "network": "dense", "model": str(untrained), "steps": 1})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["funnel", "correlated-gaussian"])
def test_exact_draws_of_vector_targets(name, tmp_path):
    screen = console()
    plan = SampleSpec.of({"target": name, "kernel": "exact", "chains": 100, "trajectories": 100, "warmup": 0})
    assert plan.run(tmp_path / "run", screen)[1] is ExitCode.OK
    result, target = summary(tmp_path / "run"), standard(name)
    assert result["target"] == name
    assert not {"lattice", "beta"} & result.keys()
    for moment in target.known.moments:
        assert abs(result[moment]["z"]) < 4  # a new seed would fail with probability 3e-4
    for slow in target.known.slow(target):
        assert result[f"tau_int_{slow}"]["value"] == pytest.approx(0.5, abs=0.1)
    text = screen.file.getvalue()
    assert f"exact  {name}  100 chains" in text
    assert "charge" not in text


def test_the_circle_rule_is_refused_for_vectors(tmp_path):
    with pytest.raises(UserError, match=r"Circle is no bijection of this target's fields.*use rule affine or shift"):
        TrainSpec.of(TRAINING | {"rule": "circle"}).run(tmp_path / "x", console())
