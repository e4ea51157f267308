"""The study of U(2): what it does, and all of it on a tiny lattice."""

import json

import pytest

from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.studies.command import planned
from dlhmc.theories.gauge.study import U2Study


def test_local_layers_are_trained_on_a_small_lattice_and_serve_at_lower_couplings(tmp_path):
    found = {part.name: plan for part, plan in planned(U2Study(), tmp_path)}
    assert list(found) == ["train-b14", "compare-b10", "compare-b12", "compare-b14", "train-b16", "compare-b16"]
    assert found["compare-b12"].learned.model == (str(tmp_path / "train-b14"),)
    training, race = found["train-b16"], found["compare-b16"]
    assert training.architecture.name == "local"
    assert (training.target.lattice, training.target.beta) == ((6, 6), 16.0)
    assert (training.objective.anneal, training.objective.gamma_start) == (0.7, 0.4)
    assert race.target.lattice == (16, 16)
    assert race.learned.model == (str(tmp_path / "train-b16"),)
    assert race.rivals.overrelaxations == (0, 4)


def test_couplings_rise():
    with pytest.raises(UserError, match="rise"):
        U2Study(trained=(16.0, 14.0))


@pytest.mark.slow
def test_all_of_it(tmp_path, capsys):
    path = tmp_path / "study"
    words = "--lattice 4 4 --betas 3 --train-lattice 4 4 --train-chains 4 --steps 3 --chains 4 --budgets 1 --lengths 1"
    words = f"{words} --acceptances 0.8 --precision 0.5 --out {path} --quiet"
    assert cli.run(["reproduce", "--preset", "u2", *words.split()]) == ExitCode.OK
    assert (path / "report.html").exists()
    assert "| β " in (path / "tables" / "cost.md").read_text()
    capsys.readouterr()
    assert cli.run(["summary", str(path), "--json"]) == ExitCode.OK
    entries = json.loads(capsys.readouterr().out)["3"]["entries"]
    assert {entry["kind"] for entry in entries} == {"hmc", "move", "exact", "model"}
