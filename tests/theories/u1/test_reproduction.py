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

import pytest
from rich.console import Console

from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.report.compared import ComparedRun, headline
from dlhmc.run.directory import RunDirectory, read_json, write_json
from dlhmc.settings import read_table
from dlhmc.studies.command import reproduce, resume
from dlhmc.studies.study import StudySpec
from dlhmc.theories.u1.study import PaperStudy, U1Study

# Training, comparing and reporting, which it puts together, have tests of their own; this takes longest to set up.
pytestmark = pytest.mark.slow

PAPER = Path(__file__).parents[3] / "docs" / "results" / "paper-curves.toml"
STUDY = U1Study(
    lattice=(4, 4),
    betas=(2.0,),
    heads=("plaquettes",),
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
        while not RunDirectory(path / "train-plaquettes-b2").summary.exists():
            if finished_early.wait(0.05):
                return
        os.kill(os.getpid(), signal.SIGINT)

    finished_early = threading.Event()
    thread = threading.Thread(target=interrupt_after_the_first_part)
    thread.start()
    try:
        code = reproduce(StudySpec("u1", STUDY), path, silent, quiet=True)
    finally:
        finished_early.set()
        thread.join()
    assert code is ExitCode.INTERRUPTED
    assert not (path / "report.html").exists()
    recorded = Console(record=True, width=200, file=io.StringIO())
    first = (path / "train-plaquettes-b2" / "model.safetensors").read_bytes()
    assert resume(path, recorded) is ExitCode.OK
    assert (path / "train-plaquettes-b2" / "model.safetensors").read_bytes() == first
    return path, recorded.export_text()


def test_what_was_done_is_not_done_again(finished):
    _, printed = finished
    assert "[1/2] train networks with heads of plaquettes at β = 2: done before" in printed
    assert "[2/2] compare at β = 2 " in printed
    assert "an independent charge costs it " in printed


def test_everything_is_there(finished):
    path, _ = finished
    for name in (
        "report.html",
        "tables/cost.md",
        "tables/cost.csv",
        "compare-b2/table.md",
        "train-plaquettes-b2/model.safetensors",
    ):
        assert (path / name).stat().st_size > 0, name
    figures = {file.name for file in (path / "figures").iterdir()}
    names = {"cost", "charge-history", "charge-distribution", "autocorrelation", "observables", "layers", "tunnelling"}
    assert {f"{name}.png" for name in names} <= figures
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
    assert models[0]["group"] == "networks in windows, 2 layers"
    shown = float(re.match(r"[\d.]+", rows[0]["trained: N_LF τ_int(Q_ℤ)"])[0])
    times = [entry["taus"]["charge"]["value"] for entry in models]
    found = [entry["leapfrog_steps"] * time for entry, time in zip(models, times, strict=True) if time is not None]
    assert shown == pytest.approx(min(found), rel=0.1)


def test_the_page_says_how_to_repeat_it(finished):
    text = (finished[0] / "report.html").read_text()
    assert "dlhmc reproduce --config config.toml" in text
    assert "jaxlib" in text


def test_the_headline_names_limits_as_limits(finished):
    text = headline(ComparedRun.open(finished[0] / "compare-b2"))
    assert "U(1) gauge theory, 4×4, β = 2, an independent charge" in text
    assert ">" not in text


def test_reports_of_nothing_are_refused(tmp_path, capsys):
    assert cli.run(["report"]) == ExitCode.BAD_INPUT
    assert "needs DIRECTORIES" in capsys.readouterr().err
    assert cli.run(["report", str(tmp_path / "nowhere")]) == ExitCode.BAD_INPUT
    assert "There is no run directory" in capsys.readouterr().err


def test_damaged_results_are_named(finished, tmp_path, capsys):
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("config.toml", "manifest.json"):
        (broken / name).write_bytes((finished[0] / "compare-b2" / name).read_bytes())
    write_json(broken / "results.json", {"lattice": [4, 4], "entries": [{"name": 3}]})
    for command in ("report", "summary"):
        assert cli.run([command, str(broken)]) == ExitCode.BAD_INPUT
        assert "results.json is damaged or of another version" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"betas": (3.0, 2.0)}, "--betas"),
        ({"betas": (1.0, 2.0, 3.0), "budgets": (1.0, 2.0)}, "--budgets"),
        ({"heads": ("links", "links")}, "--heads"),
        ({"lengths": (-1.0,)}, "--lengths"),
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
        reproduce(StudySpec("u1", study), tmp_path / "run", Console(quiet=True))
    assert not (tmp_path / "run").exists()


def test_each_coupling_is_trained_anew_and_compared():
    found = {part.name: part.table for part in U1Study(budgets=(1.0,), betas=(2.0, 3.0)).parts()}
    of_two = ["train-plaquettes-b2", "train-links-b2", "compare-b2"]
    of_three = [name.replace("b2", "b3") for name in of_two]
    assert list(found) == [*of_two, *of_three]
    assert all("model" not in found[name] for name in found if name.startswith("train"))
    assert [found[name]["beta"] for name in ("train-links-b2", "train-links-b3")] == [2.0, 3.0]
    assert found["compare-b3"]["model"] == tuple(of_three[:2])


def test_the_sizes_of_the_paper():
    first, compared, second, _ = (part.table for part in PaperStudy(betas=(2.0, 3.0)).parts())
    assert first["lattice"] == (16, 16)
    assert (first["gamma_start"], second["gamma_start"]) == (None, 2 / 3)
    assert compared["chains"] == 512


def test_settings_come_back_from_a_file(finished):
    table = read_table(finished[0] / "config.toml")
    assert StudySpec.of({}, table).study == STUDY
    with pytest.raises(UserError, match="did you mean 'betas'"):
        StudySpec.of({"beta": 2.0}, table)
