"""The study of U(2): what it does, and all of it on a tiny lattice."""

import json

import pytest

from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.spec.training import TrainSpec
from dlhmc.theories.gauge.study import U2Study


def test_networks_are_trained_at_each_coupling():
    found = {part.name: part.table for part in U2Study(betas=(14.0, 16.0), budgets=(5.0,)).parts()}
    assert list(found) == ["train-b14", "compare-b14", "train-b16", "compare-b16"]
    training = TrainSpec.of(found["train-b16"])
    assert training.settle(training.target.build()).network.heads == "phases"
    assert (training.target.lattice, training.target.beta) == ((16, 16), 16.0)
    assert found["compare-b16"]["model"] == ("train-b16",)


def test_couplings_rise():
    with pytest.raises(UserError, match="rise"):
        U2Study(betas=(16.0, 14.0), budgets=(5.0,))


@pytest.mark.slow
def test_all_of_it(tmp_path, capsys):
    path = tmp_path / "study"
    words = "--lattice 4 4 --betas 3 --chains 4 --budgets 1 --lengths 1"
    words = f"{words} --acceptances 0.8 --precision 0.5 --out {path} --quiet"
    assert cli.run(["reproduce", "u2", *words.split()]) == ExitCode.OK
    assert (path / "report.html").exists()
    assert "| β " in (path / "tables" / "cost.md").read_text()
    capsys.readouterr()
    assert cli.run(["summary", str(path), "--json"]) == ExitCode.OK
    entries = json.loads(capsys.readouterr().out)["3"]["entries"]
    assert {entry["kind"] for entry in entries} == {"hmc", "move", "exact", "model"}
