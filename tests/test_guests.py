"""Theories that others bring: registered, they go through everything that those of the package go through."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import dlhmc
from dlhmc import cli
from dlhmc.errors import ExitCode
from dlhmc.layers import Local
from dlhmc.testing import check_stationarity
from dlhmc.testing.trajectory import with_random_weights
from dlhmc.theories import registry
from guest_theories import RING, VILLAIN, Ring, Villain
from unoptimised import shaken, unoptimised

AMOUNT = ("--chains", "8", "--trajectories", "24", "--warmup", "10", "--quiet")
RACE = ("--lengths", "0.5", "--acceptances", "0.8", "--integrators", "leapfrog", "--chains", "8", "--budget", "0.5")


@pytest.fixture(autouse=True)
def guests():
    """Known to this process for the time of a test."""
    for theory in (VILLAIN, RING):
        registry.register(theory)
    yield
    for name in ("villain", "ring"):
        registry.unregister(name)


def dlhmc_command(*words, code=ExitCode.OK):
    assert cli.run([str(word) for word in words]) == code


def summary(path):
    return json.loads((path / "summary.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings", "training"),
    [
        ("villain", ("--lattice", "2", "2"), ("--leapfrog-steps", "1", "--hidden", "4")),
        ("ring", (), ("--hidden", "4", "--leapfrog-steps", "1")),
    ],
)
def test_on_the_command_line(name, settings, training, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    target, network = (name, *settings), "local" if name == "villain" else "dense"
    dlhmc_command("sample", *target, *AMOUNT, "--out", "s")
    assert summary(tmp_path / "s")["target"] == name
    dlhmc_command(
        "train",
        name,
        network,
        *settings,
        *training,
        "--steps",
        "6",
        "--chains",
        "8",
        "--burn-in",
        "1",
        "--quiet",
        "--out",
        "t",
    )
    dlhmc_command("sample", name, "--model", "t", *AMOUNT, "--out", "m")
    assert summary(tmp_path / "m")["kernel"] == "dlhmc"
    # What was done after the first checkpoint is done again, and is the same.
    before = {file.name: file.read_bytes() for file in (tmp_path / "m" / "checkpoints").glob("34.npz")}
    (tmp_path / "m" / "checkpoints" / "34.npz").unlink()
    dlhmc_command("resume", "m", "--quiet")
    arrays = np.load(tmp_path / "m" / "checkpoints" / "34.npz")
    (tmp_path / "before.npz").write_bytes(before["34.npz"])
    np.testing.assert_array_equal(arrays[".state.x"], np.load(tmp_path / "before.npz")[".state.x"])
    dlhmc_command("compare", *target, "--model", "t", *RACE, "--quiet", "--out", "c")
    results = json.loads((tmp_path / "c" / "results.json").read_text())
    kinds = {entry["kind"] for entry in results["entries"]}
    assert kinds == ({"hmc", "move", "model"} if name == "villain" else {"hmc", "exact", "model"})
    capsys.readouterr()
    for run in ("s", "t", "c"):
        dlhmc_command("summary", run)
    assert name in capsys.readouterr().out
    dlhmc_command("report", "s", "t", "c", "--out", "page.html")
    assert name in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_hits_and_windows_work_for_any_action_of_plaquettes():
    target = Villain((4, 4), 1.5)
    amount = {"chains": 8, "trajectories": 20, "warmup": 10, "progress": False}
    samples = dlhmc.sample(dlhmc.InstantonHits(dlhmc.HMC(target, 0.2, 4), 2), **amount)
    assert samples.data["hits"].dims == ("chain", "trajectory")
    assert "hits" not in samples.observables
    trained = dlhmc.train(target, hidden=(4,), steps=5, chains=8, burn_in=1, progress=False)
    assert isinstance(trained.trajectory, Local)
    moved = dlhmc.sample(trained.kernel, **amount)
    assert moved.acceptance > 0.1


@pytest.mark.slow
@pytest.mark.statistical
def test_windows_are_exact_in_villains_theory():
    """No exact draws there: two samplers must agree, from starts that have been forgotten."""
    target = Villain((4, 4), 1.5)
    amount = {"chains": 128, "trajectories": 1000, "warmup": 100, "start": "cold", "progress": False}
    layers = shaken(dlhmc.build_trajectory(target, hidden=(4,), window=3, step_size=0.5), 0.2, 4)
    # Of HMC, a length that turns no mode by about π: plaquettes are nearly harmonic, and would not forget their start.
    samplers = (dlhmc.DLHMC(target, layers), dlhmc.InstantonHits(dlhmc.HMC(target, 0.25, 3), 1))
    learned, reference = (dlhmc.sample(kernel, **amount) for kernel in samplers)
    for name in ("plaquette", "charge_squared"):
        one, other = learned.mean(name), reference.mean(name)
        error = np.hypot(one.error, other.error)
        # An error that is not known is infinite.
        assert error < 0.01, (name, str(one), str(other))
        # Two means of thousands of numbers: 4 σ is exceeded with probability 6e-5 each at a new seed.
        assert abs(one.value - other.value) < 4 * error, (name, str(one), str(other))


@pytest.mark.slow
@pytest.mark.statistical
def test_learned_layers_move_by_the_group():
    """They are exact there, with weights that are not zero; they were not while they added."""
    target = Ring(3, 2.0)
    new = unoptimised(dlhmc.build_trajectory)(target, "dense", layers=2, hidden=(8,), step_size=0.6)
    layers = unoptimised(with_random_weights)(new, 0.3)

    @unoptimised
    def end(key):
        x = target.exact_draws().draw(key, 4, jax.numpy.float32)
        return layers.forward(target, x, target.geometry.momentum(jax.random.key(1), x)).x

    np.testing.assert_allclose(np.sum(np.asarray(end(jax.random.key(0))) ** 2, axis=0), 1, rtol=1e-5)
    result = check_stationarity(dlhmc.DLHMC(target, layers), seed=3)
    # An exact kernel fails at a new seed with probability 1e-3; layers that add have p = 2e-43.
    assert result.p_value > 1e-3, result
    assert 0.1 < result.acceptance < 0.9, result


def test_observables_that_are_arrays(tmp_path):
    samples = dlhmc.sample(
        dlhmc.HMC(Ring(3, 2.0), 0.3, 4), chains=8, trajectories=30, warmup=5, progress=False, out=tmp_path / "run"
    )
    assert samples.series("bonds").shape[-2:] == (30, 8) or samples.data["bonds"].sizes["trajectory"] == 30
    np.testing.assert_allclose(
        samples.data["bonds"].mean(dim=[d for d in samples.data["bonds"].dims if d.startswith("bonds")]),
        samples.data["bond"],
        rtol=1e-5,
    )
    assert dlhmc.load(tmp_path / "run").data["bonds"].equals(samples.data["bonds"])


def test_a_package_offers_its_theory_by_an_entry_point(tmp_path):
    package = tmp_path / "guests-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: guests\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[dlhmc.theories]\nvillain = guest_theories:VILLAIN\n")
    paths = [str(tmp_path), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    command = [sys.executable, "-c", "from dlhmc.cli import main; main()"]
    words = ["sample", "villain", "--lattice", "6", "4", "--hits", "1", "--dry-run"]
    done = subprocess.run(
        [*command, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == ExitCode.OK, done.stderr
    assert "would run in runs/hmc-hits1-villain-6x4-b2-seed1" in done.stdout
    unknown = subprocess.run([*command, "sample", "ring"], env=environment, capture_output=True, text=True, check=False)
    assert unknown.returncode == ExitCode.BAD_INPUT
    assert "villain" in unknown.stderr
