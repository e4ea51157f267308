"""A small comparison from start to end, and what stops one."""

import csv
import io
import json
import os
import signal
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console

from dlhmc import cli
from dlhmc.comparison import table
from dlhmc.comparison.command import show_results
from dlhmc.comparison.contestants import grid, settle
from dlhmc.comparison.results import from_json, to_json
from dlhmc.comparison.settings import CompareSettings
from dlhmc.errors import ExitCode
from dlhmc.models import model as models
from dlhmc.models.dense import DenseArchitecture
from dlhmc.run.directory import read_json
from dlhmc.run.driver import ExecutionOptions
from dlhmc.settings import read_table, to_toml
from dlhmc.spec.comparing import CompareSpec
from dlhmc.statistics import integrated_autocorrelation_time
from dlhmc.theories.gauge.field import U1
from unoptimised import unoptimised

pytestmark = pytest.mark.statistical

LATTICE, BETA = (8, 8), 2.0
SMALL = {"lattice": LATTICE, "beta": BETA, "integrators": ("leapfrog",), "lengths": (1.0,), "hit_lengths": (1.0,)}


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """A model whose networks give 0: HMC with 5 steps of 0.2."""
    path = tmp_path_factory.mktemp("model") / "untrained.safetensors"
    architecture = DenseArchitecture(leapfrog_steps=5, hidden=(4,), rule="shift", step_size=0.2)
    trajectory = unoptimised(architecture.build)(U1(LATTICE, BETA), jax.random.key(0))
    target = {"name": "u1", "lattice": list(LATTICE), "beta": BETA}
    models.save(path, trajectory, models.describe(architecture, target))
    return path


@pytest.fixture(scope="module")
def finished(untrained, tmp_path_factory):
    """Two good HMC, a bad one, hits, exact draws and the model."""
    path = tmp_path_factory.mktemp("comparison") / "run"
    table = SMALL | {"model": (str(untrained),), "step_sizes": (0.2, 0.25, 0.02), "chains": 64, "precision": 0.08}
    output = io.StringIO()
    plan = CompareSpec.of(table | {"budget": 3600.0})
    assert plan.run(path, Console(file=output, width=120))[1] == ExitCode.OK
    return path, read_json(path / "results.json"), output.getvalue()


def entries(results):
    return {entry["name"]: entry for entry in results["entries"]}


def test_every_sampler_is_measured_or_dropped(finished):
    _, results, output = finished
    found = entries(results)
    names = ["leapfrog 1/5", "leapfrog 1/4", "leapfrog 1/50", "leapfrog 1/5 + 1 hit", "exact draws", "model untrained"]
    assert list(found) == names
    assert results["finished"]
    # Ten times the steps for the same τ_int: dropped, unless a fast machine knows its τ_int before the first look.
    status = found.pop("leapfrog 1/50")["status"]
    assert status in ("dropped", "measured")
    for name, entry in found.items():
        assert entry["status"] == "measured"
        for tau in entry["tau_int"].values():
            assert tau["error"] <= 0.08 * tau["value"]
        assert name in output
    assert ("1 HMC dropped on the way" in output) == (status == "dropped")


def test_exact_draws_are_independent(finished):
    exact = entries(finished[1])["exact draws"]
    assert exact["acceptance"] == 1
    assert exact["forces"] == exact["leapfrog_steps"] == exact["network_flops"] == 0
    for tau in exact["tau_int"].values():
        assert abs(tau["value"] - 0.5) < 5 * tau["error"]  # 6e-7


def test_observables_agree_with_exact(finished):
    """18 deviations, each beyond 4.5 σ in 7e-6 of all seeds."""
    for entry in finished[1]["entries"]:
        for moment in entry["observables"].values():
            assert abs(moment["z"]) < 4.5
        assert entry["observables"]["charge_squared"]["sector_changes"] >= 60


def test_a_model_that_does_nothing_is_hmc_with_twice_the_forces(finished):
    found = entries(finished[1])
    model, hmc = found["model untrained"], found["leapfrog 1/5"]
    assert model["leapfrog_steps"] == 5
    assert (model["forces"], hmc["forces"]) == (10, 6)
    assert model["network_flops"] > 0
    assert abs(model["acceptance"] - hmc["acceptance"]) < 0.02
    a, b = (entry["tau_int"]["charge"] for entry in (model, hmc))
    assert abs(a["value"] - b["value"]) < 5 * np.hypot(a["error"], b["error"])


def test_costs_follow_from_autocorrelation_times(finished):
    _, results, _ = finished
    found = entries(results)
    for entry in found.values():
        tau = entry["tau_int"]["charge"]
        if entry["status"] == "measured":
            assert entry["steps_tau"]["value"] == pytest.approx(entry["leapfrog_steps"] * tau["value"])
            slowest = max(tau["value"] for tau in entry["tau_int"].values())
            per_independent = 2 * slowest * entry["seconds_per_trajectory"]["value"]
            assert entry["seconds_per_independent"]["value"] == pytest.approx(per_independent)
    best = found[results["best_in_steps"]]
    assert best["kind"] == "hmc"
    assert best["gain_in_steps"] == {"value": 1.0, "error": 0.0, "lower": 1.0, "upper": 1.0}
    hits = found["leapfrog 1/5 + 1 hit"]
    gain = best["steps_tau"]["value"] / hits["steps_tau"]["value"]
    assert hits["gain_in_steps"]["value"] == pytest.approx(gain)
    assert hits["gain_in_steps"]["error"] > 0
    assert found["exact draws"]["gain_in_steps"]["value"] is None
    assert found["exact draws"]["gain_in_time"]["value"] > 0


def test_tables_and_histories_are_files_that_others_read(finished):
    path, results, _ = finished
    assert CompareSpec.of({}, read_table(path / "config.toml")).compare.step_sizes == (0.2, 0.25, 0.02)
    with (path / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = entries(results)
    for row in rows:
        entry = found[row["name"]]
        assert float(row["acceptance"]) == entry["acceptance"]
        assert float(row["observables_plaquette_mean"]) == entry["observables"]["plaquette"]["mean"]
        assert row["gain_in_steps_value"] == str(entry["gain_in_steps"]["value"] or "")
        with np.load(path / entry["history"], allow_pickle=False) as archive:
            assert archive["charge"].shape == (entry["trajectories"], 64)
            assert archive["charge"].dtype == np.int16
            tau = integrated_autocorrelation_time(archive["charge"], 0.0)
            assert tau.value == pytest.approx(entry["tau_int"]["charge"]["value"] or tau.value)
            assert archive["plaquette"].mean() == pytest.approx(entry["observables"]["plaquette"]["mean"], rel=1e-5)
    lines = (path / "table.md").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("| exact draws |") for line in lines) == 3


def test_results_are_read_back(finished, capsys):
    path, results, _ = finished
    assert to_json(from_json(results)) == results
    assert cli.run(["summary", str(path)]) == ExitCode.OK
    assert "best HMC: " in capsys.readouterr().out
    assert cli.run(["summary", str(path), "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == results


def test_limits_are_shown_as_limits(finished):
    results = json.loads(json.dumps(finished[1]))
    model = entries(results)["model untrained"]
    model["gain_in_time"] = {"value": None, "error": None, "lower": 123.4, "upper": None}
    model["tau_int"]["charge"] |= {"value": None, "error": None, "lower_bound": 2345.6}
    row = next(line for line in table.markdown(from_json(results)).splitlines() if line.startswith("| **model"))
    assert row.endswith("| > 123 |")
    assert row.startswith("| **model untrained** | > 2350 |")


class StopsAtFirstLine(io.StringIO):
    """A terminal at which someone presses Ctrl-C when a line begins so."""

    def __init__(self, beginning: str) -> None:
        super().__init__()
        self._beginning = beginning
        self._pressed = False

    def write(self, text: str) -> int:
        if self._beginning in text and not self._pressed:
            self._pressed = True
            os.kill(os.getpid(), signal.SIGINT)
        return super().write(text)


@pytest.mark.parametrize(("line", "samplers"), [("seconds: ", 3), ("preparing: ", 0)])
def test_ctrl_c_reports_what_there_is(line, samplers, tmp_path):
    output = StopsAtFirstLine(line)
    plan = CompareSpec.of(SMALL | {"step_sizes": (0.2,), "chains": 64, "precision": 1e-6, "budget": 600.0})
    assert plan.run(tmp_path / "run", Console(file=output, width=120))[1] == ExitCode.INTERRUPTED
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert not results["finished"]
    assert len(results["entries"]) == samplers
    assert {entry["status"] for entry in results["entries"]} <= {"less precise", "lower bound"}
    assert "not all autocorrelation times" in output.getvalue()
    assert len(show_results(tmp_path / "run", Console(file=io.StringIO()))["entries"]) == samplers


@pytest.mark.slow
def test_frozen_hmc_is_a_lower_bound_and_so_is_the_ratio(tmp_path):
    """Next to nothing tunnels at β = 12 in a moment; hits do."""
    plan = CompareSpec.of(SMALL | {"beta": 12.0, "step_sizes": (0.1,), "budget": 4.0, "exact": False})
    assert plan.run(tmp_path / "run", Console(file=io.StringIO()), ExecutionOptions(quiet=True))[1] == ExitCode.OK
    found = entries(json.loads((tmp_path / "run" / "results.json").read_text()))
    hmc, hits = found["leapfrog 1/10"], found["leapfrog 1/10 + 1 hit"]
    assert hmc["status"] == "lower bound"
    assert hmc["tau_int"]["charge"]["value"] is None
    assert hmc["tau_int"]["charge"]["lower_bound"] > 1
    assert hmc["steps_tau"]["lower"] == pytest.approx(10 * hmc["tau_int"]["charge"]["lower_bound"])
    for gain in (hits["gain_in_steps"], hits["gain_in_time"]):
        assert gain["value"] is None
        assert gain["lower"] > 0


def test_step_sizes_are_tuned_at_fixed_length():
    target = U1(LATTICE, BETA)
    x = target.start(jax.random.key(0), "cold", 64, np.float32)
    settings = CompareSettings(integrators=("leapfrog",), lengths=(3.0,), acceptances=(0.6, 0.95))
    few, many = (settle(point, target, x, 1) for point in grid(settings))
    assert few.leapfrog_steps < many.leapfrog_steps
    for contestant in (few, many):
        assert contestant.leapfrog_steps * contestant.step_size == pytest.approx(3.0)
        assert contestant.forces == contestant.leapfrog_steps + 1
        assert 0.1 < contestant.step_size < 0.5


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--beta 0", "--beta is 0"),
        ("--lattice 1 4", "--lattice is 1 4"),
        ("--chains 1", "--chains is 1"),
        ("--lengths 0", "--lengths is 0"),
        ("--acceptances 0.5 1.5", "--acceptances is 0.5 1.5"),
        ("--step-sizes -1", "--step-sizes is -1"),
        ("--precision 0", "--precision is 0"),
        ("--budget 0", "--budget is 0"),
        ("--model nowhere", "There is no model or training run nowhere"),
        ("--lattice 4 4 --model MODEL", "does not fit"),
        ("--config bad.toml", "--integrators is 'euler', but must be a list of leapfrog or omelyan"),
        ("--out taken", "taken already holds a run"),
        ("--out full", "full is not empty"),
        ("--out full --dry-run", "full is not empty"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(arguments, reason, untrained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text("[compare]\nintegrators = ['euler']")
    for name in ("taken/config.toml", "full/other"):
        Path(name).parent.mkdir()
        Path(name).touch()
    before = sorted(Path().rglob("*"))
    assert cli.run(["compare", "u1", *arguments.replace("MODEL", str(untrained)).split()]) == ExitCode.BAD_INPUT
    output = capsys.readouterr()
    assert output.out == ""
    assert reason in output.err
    assert output.err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before


def test_a_configuration_is_read_back(tmp_path):
    table = {"model": ("u1-b2", "u1-b3"), "integrators": ("omelyan",), "lengths": (1.0, 3.5), "exact": False, "hits": 2}
    plan = CompareSpec.of(table)
    (tmp_path / "c.toml").write_text(to_toml(plan.to_tables()))
    again = CompareSpec.of({}, read_table(tmp_path / "c.toml"))
    assert again == plan
    assert again.learned.model == ("u1-b2", "u1-b3")
    assert again.default_directory == Path("runs/compare-16x16-b2-seed1")


def test_models_have_the_same_name_in_every_directory(untrained, tmp_path, monkeypatch):
    monkeypatch.chdir(untrained.parent)
    plan = CompareSpec.of({"model": [untrained.name]})
    monkeypatch.chdir(tmp_path)
    assert plan.learned.model == (str(untrained.resolve()),)
