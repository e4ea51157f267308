"""A small comparison from start to end, and what stops one."""

import csv
import dataclasses
import io
import json
import os
import signal

import numpy as np
import pytest
from rich.console import Console

from dlhmc import cli
from dlhmc.comparison.comparing import compare, open_results
from dlhmc.comparison.lineup import Learned
from dlhmc.comparison.results import from_json, to_json
from dlhmc.comparison.settings import CompareSettings
from dlhmc.errors import ExitCode, UserError
from dlhmc.kernels import HMC
from dlhmc.run.directory import Place, read_json
from dlhmc.run.driver import ExecutionOptions
from dlhmc.settings import read_table
from dlhmc.spec.comparing import CompareSpec
from dlhmc.statistics import integrated_autocorrelation_time
from dlhmc.targets import Target
from dlhmc.theories.gauge.field import U1
from dlhmc.theories.vectors.toys import GaussianMixture

pytestmark = pytest.mark.statistical

LATTICE, BETA = (8, 8), 2.0
SMALL = {"lattice": LATTICE, "beta": BETA, "integrators": ("leapfrog",), "lengths": (1.0,), "acceptances": (0.8,)}
SMALL |= {"stirring_lengths": (1.0,), "chains": 64}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """HMC, hits, exact draws, and a model that does what HMC does with five steps of 0.2."""
    path = tmp_path_factory.mktemp("comparison") / "run"
    spec = CompareSpec.of(SMALL | {"precision": 0.08, "budget": 3600.0})
    target, output = spec.target.build(), io.StringIO()
    learned = [Learned("mine", HMC(target, 0.2, 5))]
    place, console = Place(path, spec.to_tables()), Console(file=output, width=120)
    results, code = compare(target, spec.compare, learned, place, console, described=spec.target.describe())
    assert code == ExitCode.OK
    return path, results


def test_every_sampler_is_measured(finished):
    _, results = finished
    groups = [entry.group for entry in results.entries]
    assert groups == ["exact draws", "mine", "HMC", "HMC and 1 instanton hit"]
    for entry in results.entries:
        assert entry.status == "measured"
        assert all(entry.taus[name].error <= 0.08 * entry.taus[name].value for name in results.slow)


def test_exact_draws_are_independent(finished):
    exact = finished[1].entries[0]
    assert exact.acceptance == 1
    assert exact.leapfrog_steps == 0
    for tau in exact.taus.values():
        assert abs(tau.value - 0.5) < 5 * tau.error  # 6e-7


def test_means_agree_with_exact_values(finished):
    """12 deviations, each beyond 4.5 σ in 7e-6 of all seeds."""
    for entry in finished[1].entries:
        assert entry.moments.keys() == {"plaquette", "charge_squared", "sine_charge_squared"}
        assert all(abs(moment.z) < 4.5 for moment in entry.moments.values())


def test_costs_follow_from_autocorrelation_times(finished):
    _, results = finished
    hmc, hits = results.entries[2:]
    pace = np.median(hits.pace)
    assert results.in_steps(hits).value == pytest.approx(hits.leapfrog_steps * hits.taus["charge"].value)
    slowest = max(hits.taus[name].value for name in results.slow)
    assert results.in_time(hits).value == pytest.approx(2 * slowest * pace)
    assert results.in_time_for_all(hits).value == pytest.approx(2 * max(t.value for t in hits.taus.values()) * pace)
    gain = results.in_steps(hmc).value / results.in_steps(hits).value
    assert results.gain_in_steps(hits).value == pytest.approx(gain)
    speed = np.median(np.array(hmc.pace) / np.array(hits.pace))
    taus = [max(entry.taus[name].value for name in results.slow) for entry in (hmc, hits)]
    assert results.gain_in_time(hits).value == pytest.approx(taus[0] / taus[1] * speed)
    assert results.gain_in_steps(hmc).value is None


def test_tables_and_histories_are_files_that_others_read(finished):
    path, results = finished
    assert CompareSpec.of({}, read_table(path / "config.toml")).compare.acceptances == (0.8,)
    with (path / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, entry in zip(rows, results.entries, strict=True):
        assert (row["sampler"], float(row["acceptance"])) == (entry.name, entry.acceptance)
        assert float(row["tau_charge_value"]) == entry.taus["charge"].value
        with np.load(path / entry.history, allow_pickle=False) as archive:
            assert archive["charge"].shape == (entry.trajectories, 64)
            tau = integrated_autocorrelation_time(archive["charge"], 0.0)
            assert tau.value == pytest.approx(entry.taus["charge"].value)
            assert archive["plaquette"].mean() == pytest.approx(entry.moments["plaquette"].mean, rel=1e-5)
    lines = (path / "table.md").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("| exact draws |") for line in lines) == 3


def test_results_are_read_back(finished, capsys):
    path, results = finished
    assert from_json(json.loads(to_json(results)), "a table") == results == open_results(path)
    assert cli.run(["summary", str(path)]) == ExitCode.OK
    assert "gain" in capsys.readouterr().out
    assert cli.run(["summary", str(path), "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == read_json(path / "results.json")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"slow": []}, "slow"),
        ({"slow": ["nothing"]}, "does not say how fast"),
        ({"chains": -1}, "chains"),
        ({"entries": [{}]}, "entries"),
    ],
)
def test_damaged_results_are_refused(finished, change, reason):
    with pytest.raises(UserError, match=reason):
        from_json(json.loads(to_json(finished[1])) | change, "a table")


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


@pytest.mark.parametrize(("line", "samplers"), [("seconds: ", 3), ("samplers prepared: ", 0)])
def test_ctrl_c_reports_what_there_is(line, samplers, tmp_path):
    spec = CompareSpec.of(SMALL | {"precision": 1e-6, "budget": 600.0})
    console = Console(file=StopsAtFirstLine(line), width=120)
    assert spec.run(tmp_path / "run", console)[1] == ExitCode.INTERRUPTED
    results = open_results(tmp_path / "run")
    assert results.interrupted
    assert len(results.entries) == samplers
    assert {entry.status for entry in results.entries} <= {"less precise", "lower limit"}


SHORT = CompareSettings(
    integrators=("leapfrog",), lengths=(1.0,), acceptances=(0.8,), chains=16, budget=0.5, exact=False
)


def outcome(target, kernels=None):
    learned = [Learned(name, kernel) for name, kernel in (kernels or {}).items()]
    return compare(target, SHORT, learned, None, Console(file=io.StringIO()), ExecutionOptions(quiet=True))[0]


def WithoutDraws(**settings):  # noqa: N802
    """As if nobody could draw from it."""
    target = GaussianMixture(**settings)
    known = dataclasses.replace(target.known, exact_draws=lambda target: None)
    return Target(target.geometry, target.actions, target.observables, known)


def test_chains_that_freeze_where_a_hot_start_left_them_get_a_warning():
    results = outcome(WithoutDraws(separation=8.0, weights=(1, 9)))
    assert results.entries[0].taus["mode"].value is None
    (warning,) = results.warnings
    assert "no exact draws" in warning
    assert "(inf)" in warning


def test_chains_that_forget_a_hot_start_are_said_to():
    (warning,) = outcome(WithoutDraws(separation=0.5, variance=1.0)).warnings
    assert "is at most 1.0" in warning
    assert outcome(GaussianMixture(separation=0.5, variance=1.0)).warnings == ()


def test_a_target_without_a_slow_observable_is_refused():
    target = U1((4, 4), 2.0)
    known = dataclasses.replace(target.known, slow=lambda target: {})
    with pytest.raises(UserError, match="does not say which observable is slow"):
        outcome(Target(target.geometry, target.actions, target.observables, known))


def test_a_frozen_sampler_gives_limits(tmp_path):
    """Next to nothing tunnels at β = 12 in a moment; exact draws do."""
    spec = CompareSpec.of(SMALL | {"beta": 12.0, "hits": 0, "budget": 0.5, "chains": 4})
    results = spec.run(tmp_path / "run", Console(file=io.StringIO()), ExecutionOptions(quiet=True))[0]
    exact, hmc = results.entries
    assert hmc.status == "lower limit"
    assert hmc.taus["charge"].lower > 1
    gain = results.gain_in_time(exact)
    assert gain.value is None
    assert gain.lower > 0
