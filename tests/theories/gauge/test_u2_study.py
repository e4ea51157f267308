"""The study of U(2): what it does, and all of it on a tiny lattice."""

import json

import pytest

from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.studies.command import planned
from dlhmc.theories.gauge.study import U2Study


def test_networks_are_trained_at_each_coupling(tmp_path):
    found = {part.name: plan for part, plan in planned(U2Study(betas=(14.0, 16.0), budgets=(5.0,)), tmp_path)}
    assert list(found) == ["train-b14", "compare-b14", "train-b16", "compare-b16"]
    training, compared = found["train-b16"], found["compare-b16"]
    assert training.settled().architecture.heads == "phases"
    assert (training.target.lattice, training.target.beta) == ((16, 16), 16.0)
    assert compared.learned.model == (str(tmp_path / "train-b16"),)
    assert compared.rivals.overrelaxations == (0, 4)


def test_couplings_rise():
    with pytest.raises(UserError, match="rise"):
        U2Study(betas=(16.0, 14.0), budgets=(5.0,))


@pytest.mark.slow
def test_all_of_it(tmp_path, capsys):
    path = tmp_path / "study"
    words = "--lattice 4 4 --betas 3 --chains 4 --budgets 1 --lengths 1"
    words = f"{words} --acceptances 0.8 --precision 0.5 --out {path} --quiet"
    assert cli.run(["reproduce", "--preset", "u2", *words.split()]) == ExitCode.OK
    assert (path / "report.html").exists()
    assert "| β " in (path / "tables" / "cost.md").read_text()
    capsys.readouterr()
    assert cli.run(["summary", str(path), "--json"]) == ExitCode.OK
    entries = json.loads(capsys.readouterr().out)["3"]["entries"]
    assert {entry["kind"] for entry in entries} == {"hmc", "move", "exact", "model"}
