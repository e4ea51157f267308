"""The paper's results from start to end on a tiny lattice, stopped once on the way, and the report about them."""

import csv
import dataclasses
import io
import json
import os
import re
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from dlhmc.report.charts import Chart, Film
from dlhmc.report.comparisons import ComparedRun
from dlhmc.report.contents import build_page, drawn
from rich.console import Console

from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.report.command import report
from dlhmc.runs.directory import RunDirectory, read_json, write_json
from dlhmc.settings import read_table
from dlhmc.studies.command import planned, reproduce, resume
from dlhmc.studies.study import StudyPlan
from dlhmc.theories.u1 import exact as u1_exact
from dlhmc.theories.u1.figures import U1Figures
from dlhmc.theories.u1.study import U1Study

# Training, comparing and reporting, which it puts together, have tests of their own; this takes longest to set up.
pytestmark = pytest.mark.slow

PAPER = Path(__file__).parents[3] / "docs" / "results" / "paper-curves.toml"
STUDY = U1Study(
    lattice=(4, 4),
    betas=(2.0,),
    leapfrog_steps=(2,),
    train_chains=16,
    steps=40,
    beside_steps=20,
    dense_steps=4,
    lengths=(1.0,),
    acceptances=(0.8,),
    chains=16,
    budgets=(1.5,),
    precision=0.3,
    curves=str(PAPER),
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Stopped by Ctrl-C while it works, then resumed; with what was printed after that."""
    path = tmp_path_factory.mktemp("reproduction") / "all"
    silent = Console(quiet=True)

    def interrupt_after_the_first_part():
        while not RunDirectory(path / "train-b2-n2").summary.exists():
            if finished_early.wait(0.05):
                return
        os.kill(os.getpid(), signal.SIGINT)

    finished_early = threading.Event()
    thread = threading.Thread(target=interrupt_after_the_first_part)
    thread.start()
    try:
        code = reproduce(StudyPlan("cpu", STUDY), path, silent, quiet=True)
    finally:
        finished_early.set()
        thread.join()
    assert code is ExitCode.INTERRUPTED
    assert not (path / "report.html").exists()
    recorded = Console(record=True, width=200, file=io.StringIO())
    first = (path / "train-b2-n2" / "model.npz").read_bytes()
    assert resume(path, recorded) is ExitCode.OK
    assert (path / "train-b2-n2" / "model.npz").read_bytes() == first
    return path, recorded.export_text()


def test_what_was_done_is_not_done_again(finished):
    _, printed = finished
    assert "[1/5] train 2 layers at β = 2: done before" in printed
    assert "[4/5] train dense layers at β = 2 " in printed
    assert "[5/5] compare at β = 2 " in printed
    assert "an independent topological charge costs the trained sampler " in printed


def test_everything_is_there(finished):
    path, _ = finished
    for name in ("report.html", "tables/cost.md", "tables/cost.csv", "compare-b2/table.md", "train-b2-n2/model.npz"):
        assert (path / name).stat().st_size > 0, name
    figures = {file.name for file in (path / "figures").iterdir()}
    names = {"cost", "charge-history", "charge-distribution", "autocorrelation", "observables", "layers", "tunnelling"}
    assert {f"{name}.{suffix}" for name in names for suffix in ("png", "svg")} <= figures
    assert read_json(path / "manifest.json")["kind"] == "reproduce"


def test_results_are_those_of_the_comparisons(finished, capsys):
    assert cli.run(["summary", str(finished[0]), "--json"]) == ExitCode.OK
    for results in json.loads(capsys.readouterr().out).values():
        assert results["entries"]


def test_tables_agree_with_the_comparisons(finished):
    path, _ = finished
    rows = list(csv.DictReader((path / "tables" / "cost.csv").read_text().splitlines()))
    assert [row["β"] for row in rows] == ["2"]
    results = json.loads((path / "compare-b2" / "results.json").read_text())
    models = [entry for entry in results["entries"] if entry["kind"] == "model"]
    assert {entry["network"] for entry in models} == {"defect", "local", "dense"}
    shown = float(re.match(r"[\d.]+", rows[0]["trained: N_LF τ"])[0])
    times = [entry["tau_int"]["charge"]["value"] for entry in models]
    found = [entry["leapfrog_steps"] * time for entry, time in zip(models, times, strict=True) if time is not None]
    assert shown == pytest.approx(min(found), rel=0.1)


def charts(path):
    return {block.name: block for block in drawn(build_page([path]))}


@pytest.fixture(scope="module")
def shown(finished):
    return charts(finished[0])


def test_the_cost_has_all_samplers(shown):
    for panel in shown["cost"].panels:
        found = {series.name.removesuffix(", dropped"): series for series in panel.series}
        assert found.keys() >= {"HMC", "HMC + instanton hits", "trained"}
        assert all(value > 0 for series in panel.series for value in series.x)
        assert sum(row.endswith(" layers") for row in panel.rows) == 3
        best = [row for row in panel.rows if row.startswith("★ ")]
        assert sum("length" in row and "hit" not in row for row in best) == 1
    # The paper's curves are for its own lattice.
    assert not any("paper" in series.name for panel in shown["cost"].panels for series in panel.series)


def test_frequencies_add_up_and_stand_beside_the_exact_ones(shown):
    exact, *sampled = shown["charge-distribution"].panels[0].series
    assert sum(exact.y) == pytest.approx(1, abs=1e-3)
    centre = exact.y[len(exact.y) // 2]
    assert centre == pytest.approx(float(u1_exact.charge_distribution(2.0, 16, [0])[0]))
    for series in sampled:
        assert sum(value or 0 for value in series.y) == pytest.approx(1)


def test_the_layers_begin_where_the_trajectory_does_and_conserve_energy_in_hmc(shown):
    trained, hmc = shown["layers"].panels[:3], shown["layers"].panels[3:6]
    for panel in (*trained[1:], *hmc[1:]):
        line = panel.series[1]
        assert line.y[0] == 0
    assert len(trained[0].series[1].x) == 11  # the start and ten layers
    energy = np.array(hmc[1].series[1].y)
    assert np.abs(energy).max() < 1
    film = shown["layers-film"]
    assert isinstance(film, Film)
    assert len(film.frames) == 11
    for frame in film.frames:
        for panel in frame.panels:
            assert sum(panel.series[0].y) == pytest.approx(1)
    assert np.shape(shown["tunnelling"].frames[0].maps[0].values) == (4, 4)


def test_training_curves(shown):
    chart = shown["training-defect-2-4x4"]
    assert isinstance(chart, Chart)
    labels = [panel.y_label for panel in chart.panels]
    # γ is not among them: defects are not annealed, and what does not change is not drawn.
    assert labels == ["loss L", "acceptance A", "tunnelling rate", "learning rate"]
    assert [series.name for series in chart.panels[0].series] == ["β = 2"]
    assert chart.panels[0].series[0].x[-1] == 40


def test_the_page_says_how_to_repeat_it(finished):
    text = (finished[0] / "report.html").read_text()
    assert "dlhmc reproduce --config config.toml" in text
    assert "transfer_steps = 1000" in text
    assert "jaxlib" in text


def test_a_report_of_training_alone(finished, tmp_path):
    report([finished[0] / "train-b2-n2"], tmp_path / "page.html", Console(quiet=True))
    assert "Training of 2 defect layers" in (tmp_path / "page.html").read_text()


def test_the_headline_names_limits_as_limits(finished):
    text = U1Figures().headline(ComparedRun.open(finished[0] / "compare-b2"))
    assert text.startswith("On 4×4 at β = 2 ")
    assert ">" not in text


def test_reports_of_nothing_are_refused(tmp_path, capsys):
    assert cli.run(["report"]) == ExitCode.BAD_INPUT
    assert "give at least one directory" in capsys.readouterr().err
    assert cli.run(["report", str(tmp_path / "nowhere")]) == ExitCode.BAD_INPUT
    assert "There is no run directory" in capsys.readouterr().err


def test_damaged_results_are_named(finished, tmp_path, capsys):
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("config.toml", "manifest.json"):
        (broken / name).write_bytes((finished[0] / "compare-b2" / name).read_bytes())
    write_json(broken / "results.json", {"lattice": [4, 4], "entries": [{"name": 3}]}, RunDirectory(broken).identity())
    for command in ("report", "summary"):
        assert cli.run([command, str(broken)]) == ExitCode.BAD_INPUT
        assert "results.json is damaged or of another version" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"betas": (3.0, 2.0)}, "--betas"),
        ({"betas": (1.0, 2.0, 3.0), "budgets": (1.0, 2.0)}, "--budgets"),
        ({"leapfrog_steps": (2, 2)}, "--leapfrog-steps"),
        ({"lengths": (-1.0,)}, "--lengths"),
        ({"steps": 0}, "--steps"),
        ({"beside": ("local", "local")}, "--beside"),
    ],
)
def test_settings_that_cannot_run_are_refused_at_once(settings, complaint):
    with pytest.raises(UserError) as found:
        U1Study(**{"betas": (2.0, 3.0), "budgets": (1.0,), **settings})
    assert found.value.on_command_line().startswith(f"{complaint} is ")


def test_what_cannot_run_leaves_no_directory_behind(tmp_path):
    """Neither may it be found out after the first hour."""
    study = dataclasses.replace(STUDY, curves=str(tmp_path / "nowhere.toml"))
    with pytest.raises(UserError, match=r"nowhere\.toml"):
        reproduce(StudyPlan("cpu", study), tmp_path / "run", Console(quiet=True))
    assert not (tmp_path / "run").exists()


def plans(path, **settings):
    return {part.name: plan for part, plan in planned(U1Study(budgets=(1.0,), **settings), path)}


def test_each_coupling_begins_with_the_parameters_of_the_one_before(tmp_path):
    found = plans(tmp_path, betas=(2.0, 3.0), leapfrog_steps=(2,), beside=())
    assert list(found) == ["train-b2-n2", "compare-b2", "train-b3-n2", "compare-b3"]
    first, second = found["train-b2-n2"], found["train-b3-n2"]
    assert first.objective.model is None
    assert second.objective.model == str(tmp_path / "train-b2-n2")
    assert [plan.target.beta for plan in (first, second)] == [2.0, 3.0]
    assert [plan.amounts.steps for plan in (first, second)] == [2000, 1000]
    # Parameters are values at radii: those of the last coupling serve for all.
    assert first.architecture.radii == second.architecture.radii
    assert first.architecture.radii[-1] == pytest.approx(3 * 3.0**0.5)


def test_samplers_beside(tmp_path):
    """Dense networks start from layers that act in one place where the charge is frozen, and from uniform ones else."""
    found = plans(tmp_path, betas=(2.0, 7.0), leapfrog_steps=(2,))
    assert list(found)[:5] == ["train-b2-n2", "train-local-b2", "train-uniform-b2", "train-dense-b2", "compare-b2"]
    assert list(found)[5:9] == ["train-b7-n2", "train-local-b7", "train-weighted-b7", "train-dense-b7"]
    dense = found["train-dense-b7"]
    assert dense.objective.model == str(tmp_path / "train-weighted-b7")
    assert dense.objective.symmetric
    assert not found["train-dense-b2"].objective.symmetric
    names = ("train-b7-n2", "train-local-b7", "train-dense-b7")
    assert found["compare-b7"].learned.model == tuple(str(tmp_path / name) for name in names)


def test_the_sizes_of_the_paper(tmp_path):
    study = StudyPlan.from_table({"preset": "paper", "betas": [2.0, 3.0]}).study
    first, compared, second, _ = (plan for _, plan in planned(study, tmp_path))
    assert first.target.lattice == (16, 16)
    assert (first.schedules.beta_start, second.schedules.beta_start) == (None, 2.0)
    assert compared.settings.chains == 512


def test_settings_come_back_from_a_file(finished):
    table = read_table(finished[0] / "config.toml")
    assert StudyPlan.from_table(table).study == STUDY
    with pytest.raises(UserError, match="did you mean 'betas'"):
        StudyPlan.from_table(table | {"beta": 2.0})
