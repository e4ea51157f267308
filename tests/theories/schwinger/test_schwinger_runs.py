"""The Schwinger model on the command line: a model trained without fermions, with HMC in turn."""

import json

import numpy as np

import dlhmc
from dlhmc import cli
from dlhmc.errors import ExitCode

SMALL = ("--lattice", "4", "4", "--leapfrog-steps", "2", "--chains", "4", "--warmup", "4", "--start", "cold", "--quiet")


def test_learned_proposals_and_hmc_in_turn(tmp_path):
    words = [
        "sample",
        "--target",
        "schwinger",
        "--beta",
        "2",
        "--kappa",
        "0.25",
        "--model",
        "u1-b2",
        "--alternate",
        "2",
    ]
    assert cli.run([*words, *SMALL, "--trajectories", "6", "--out", str(tmp_path / "run")]) is ExitCode.OK
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["target"] == "schwinger"
    # Two steps of HMC and two trajectories of two layers.
    assert summary["leapfrog_steps"] == 6
    samples = dlhmc.load(tmp_path / "run")
    moves = samples.data["moves"].values
    assert set(np.unique(moves)) <= {0.0, 0.5, 1.0}
    assert "moves" not in samples.observables


def test_what_is_refused(capsys):
    for words, message in (
        ("--lattice 5 4", "--lattice is 5 4, but must be two even numbers"),
        ("--flavours 3", "--flavours is 3, but must be an even number"),
        ("--mass 0.1 --kappa 0.2", "Give --mass or --kappa, not both"),
        ("--alternate 2", "--alternate is for learned trajectories: give a --model"),
        ("--model u1-b2 --target su2", "was trained for the target u1, not su2"),
    ):
        assert cli.run(["sample", "--target", "schwinger", *words.split()]) is ExitCode.BAD_INPUT
        assert message in capsys.readouterr().err
