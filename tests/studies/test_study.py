"""Studies as the command line and files spell them, and what is made of parts that are done."""

import csv
import io
import json

import hand_made
import pytest
from drawn import marks, pictures, spans
from rich.console import Console

from dlhmc import cli
from dlhmc.errors import ExitCode
from dlhmc.models.files import shipped
from dlhmc.report.command import build_page
from dlhmc.report.compared import ComparedRun
from dlhmc.report.figures import grouped
from dlhmc.run.directory import RunDirectory, new_run
from dlhmc.settings import read_table, to_toml
from dlhmc.studies.command import resume, spec_of
from dlhmc.studies.study import StudySpec, studies

LINE = {"name": "schwinger", "sides": (4, 6), "betas": (4.0, 9.0), "masses": (0.0, 0.0186)}
LINE |= {"expected": (0.0, 0.0), "fermion_steps": (0, 3), "budgets": (1.0,), "steps": 5}


@pytest.mark.parametrize("name", studies())
def test_studies_can_run(name, tmp_path):
    """All parts can be made at once: what cannot run is known before the first hour is spent."""
    study = StudySpec.of({"name": name}).study
    parts = list(study.parts())
    assert sum(part.kind == "compare" for part in parts) == study.number
    assert len({part.name for part in parts}) == len(parts)
    found = set()
    for part in parts:
        spec_of(part, tmp_path, alone=True)
        models = part.table["model"] if part.kind == "compare" else [part.table.get("model")]
        # Models come along, or have been trained by then.
        assert all(model is None or model in found or model in shipped() for model in models)
        found.add(part.name)


@pytest.mark.parametrize("name", studies())
def test_studies_come_back_from_a_file(name, tmp_path):
    spec = StudySpec.of({"name": name, "seed": 5})
    (tmp_path / "c.toml").write_text(to_toml(spec.to_tables()))
    assert StudySpec.of({}, read_table(tmp_path / "c.toml")) == spec
    assert spec.default_directory.name.endswith("-seed5")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("nothing", "There is no study 'nothing' for 'dlhmc reproduce': there are u1, u1-paper, u2, schwinger"),
        ("u2 --masses 1", "no option '--masses'"),
        ("u2 --betas 12 10 --budgets 1", "--betas is 12.0 10.0, but must be numbers that rise"),
        ("u2 --budgets 1 2", "--budgets is 1.0 2.0, but must be one number, or one for each of 4 comparisons"),
        ("schwinger --masses 0.1", "--masses is 0.1, but must be 6 numbers, one for each point"),
        ("schwinger --sides 16 16 16 24 32 15", "--sides is 16 16 16 24 32 15, but must be even numbers"),
    ],
)
def test_wrong_options_are_one_sentence(words, complaint, tmp_path, capsys):
    assert cli.run(["reproduce", *words.split(), "--out", str(tmp_path / "run")]) == ExitCode.BAD_INPUT
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def compared(path, table):
    """A comparison as one of the study would be: HMC that is frozen, hits, and a learned sampler."""
    names = ("lattice", "beta", "mass")
    target = {"target": "schwinger", **{name: table[name] for name in names}, "kappa": None, "flavours": 2}
    target |= {"residual": 1e-6, "force_residual": 1e-5, "most_iterations": 100, "hasenbusch": [], "ratio_masses": 0}
    target |= {"expected_charge_squared": None, "lattice": list(table["lattice"])}

    def work(dirac, lu=0.0):
        return {"work": {"dirac_applications": dirac, "lu_decompositions": lu}}

    slow = {"slow": ("charge",)}
    entries = [
        hand_made.entry("HMC, 4 steps", "hmc", 900.0, error=None, **work(5000.0), **slow),
        hand_made.entry("HMC and 1 hit", "move", 6.0, **work(600.0, 24.0), **slow),
        hand_made.entry("mine, in turn with HMC", "model", 3.0, **work(300.0, 18.0), **slow),
    ]
    hand_made.comparison(path, target, entries, whole=True)


@pytest.fixture
def begun(tmp_path):
    """The directory of a study on which nothing has been done yet."""
    plan = StudySpec.of(LINE)
    with new_run("reproduce", plan.to_tables(), tmp_path / "study"):
        return tmp_path / "study", list(plan.study.parts())


def test_what_is_done_becomes_tables_and_one_page(begun, capsys):
    path, parts = begun
    for part in parts:
        if part.kind == "compare":
            compared(path / part.name, part.table)
        else:
            RunDirectory(path / part.name).path.mkdir()
            RunDirectory(path / part.name).summary.write_text("{}")
    screen = io.StringIO()
    assert resume(path, Console(file=screen, width=300)) is ExitCode.OK
    said = screen.getvalue()
    assert "[1/5] train without fermions on 4×4 at β = 4: done before" in said
    # Both points are on a line of constant physics, and the last of it is the answer.
    assert said.count("an independent charge costs") == 1
    assert "won: on Schwinger model, 6×6, β = 9, m = 0.0186" in said
    rows = list(csv.DictReader((path / "tables" / "cost.csv").read_text().splitlines()))
    assert [row["target"] for row in rows] == ["4×4, β = 4, m = 0", "6×6, β = 9, m = 0.0186"]
    assert rows[0]["trained: LU"] == "108(4)"
    assert rows[0]["HMC: LU"] == ""
    assert rows[0]["moves: Dirac"] == "7200(100)"
    assert (path / "figures" / "cost.png").exists()
    assert "Cost of an independent configuration" in (path / "report.html").read_text()
    assert cli.run(["summary", str(path), "--json"]) == ExitCode.OK
    assert list(json.loads(capsys.readouterr().out)) == [row["target"] for row in rows]


def test_the_line_of_constant_physics(begun):
    path, parts = begun
    compared(path / "a", parts[1].table)
    compared(path / "b", parts[4].table)
    compared(path / "c", {**parts[4].table, "mass": 0.3})
    runs = [ComparedRun.open(path / name) for name in "bca"]
    line, other = (family for _, family in grouped(runs))
    assert [run.path.name for run in line.runs] == ["a", "b"]
    assert [run.path.name for run in other.runs] == ["c"]
    steps, time, _, dirac, lu = pictures(build_page([path / name for name in "ab"]))["cost"].figure.axes
    learned, hits = "mine, in turn with HMC", "HMC and 1 hit"
    assert {name for name, found in marks(lu).items() if len(found)} == {hits, learned}
    assert marks(steps)["HMC"].tolist() == [[4.0, 3600.0], [9.0, 3600.0]]
    assert spans(steps, "HMC") == pytest.approx([0.8 * 3600.0] * 2)  # arrows
    assert time.get_ylabel() == "milliseconds"
    assert marks(dirac)[learned][:, 1].tolist() == [1800.0, 1800.0]  # of 2τ = 6 trajectories


def test_what_a_study_cannot_do_is_refused(begun, capsys):
    path, _ = begun
    for options in (["--devices", "2"], ["--time-limit", "5m"]):
        assert cli.run(["resume", str(path), *options]) == ExitCode.BAD_INPUT
        assert "one process on one device" in capsys.readouterr().err
    assert cli.run(["summary", str(path)]) == ExitCode.BAD_INPUT
    assert "no results yet: go on with 'dlhmc resume" in capsys.readouterr().err
