"""The study of the Schwinger model: what it does, and all of it on a tiny lattice, stopped once on the way."""

import io
import os
import signal
import threading

import numpy as np
import pytest
from rich.console import Console

from dlhmc.comparison.comparing import open_results
from dlhmc.errors import ExitCode
from dlhmc.run.directory import RunDirectory
from dlhmc.spec.training import TrainSpec
from dlhmc.studies.command import reproduce, resume
from dlhmc.studies.study import StudySpec
from dlhmc.theories.schwinger.study import SchwingerStudy


def test_models_come_along_or_are_trained(tmp_path):
    parts = {part.name: part.table for part in SchwingerStudy().parts()}
    heavy, light = parts["compare-16x16-b7-m0"], parts["compare-16x16-b7-m-0.04"]
    assert heavy["model"] == ("u1-b7",)
    fermions = "train-fermions-16x16-b7-m-0.04"
    assert light["model"] == ("u1-b7", fermions)
    assert (light["alternate"], light["expected_charge_squared"]) == (2, 0.13)
    training = TrainSpec.of(parts[fermions])
    assert (training.theory.name, training.training.model, training.target.mass) == ("schwinger", "u1-b7", -0.04)
    # Its layers are those of the model.
    training.build()
    assert (parts["train-24x24-b7.2"]["target"], parts["train-24x24-b7.2"]["lattice"]) == ("u1", (24, 24))
    large = parts["compare-32x32-b12.8-m0.022"]
    assert large["model"] == ("train-32x32-b12.8",)
    assert [table["chains"] for table in (heavy, parts["compare-24x24-b7.2-m0.0145"], large)] == [16, 7, 4]
    assert list(parts)[-1] == "compare-16x16-b2-m-0.1884"
    assert parts["compare-16x16-b2-m-0.1884"]["model"] == ("u1-b2",)


@pytest.mark.slow
def test_stopped_and_resumed(tmp_path):
    """The Dirac operator and LU decompositions are counted for each sampler."""
    path, ended = tmp_path / "study", threading.Event()
    study = SchwingerStudy(
        sides=(4,),
        betas=(2.0,),
        masses=(0.1,),
        expected=(0.3,),
        fermion_steps=(2,),
        steps=3,
        train_chains=8,
        lengths=(0.5,),
        inner_steps=(2,),
        hasenbusch_grid=(0.0, 0.5),
        acceptances=(0.8,),
        chains=4,
        budgets=(1.0,),
        precision=0.5,
    )

    def interrupt_after_the_first_part():
        while not RunDirectory(path / "train-4x4-b2").summary.exists():
            if ended.wait(0.05):
                return
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt_after_the_first_part)
    thread.start()
    try:
        code = reproduce(StudySpec("schwinger", study), path, Console(quiet=True), quiet=True)
    finally:
        ended.set()
        thread.join()
    assert code is ExitCode.INTERRUPTED
    screen = io.StringIO()
    assert resume(path, Console(file=screen, width=200)) is ExitCode.OK
    assert "[1/3] train without fermions on 4×4 at β = 2: done before" in screen.getvalue()
    assert (path / "report.html").exists()
    results = open_results(path / "compare-4x4-b2-m0.1")
    entries = {entry.kind: entry for entry in results.entries}
    assert [entry.kind for entry in results.entries if entry.name.endswith(", μ = 0.5")] == ["hmc"]
    # HMC solves, hits compute the determinant before and after one move, learned proposals before and after two.
    decompositions = {kind: entry.work.get("lu_decompositions") for kind, entry in entries.items()}
    assert decompositions == {"hmc": None, "move": 2.0, "model": 3.0}
    for entry in entries.values():
        assert entry.work["dirac_applications"] > 3
        work = results.in_work("dirac_applications")(entry).figure
        seconds = results.in_time(entry).figure / np.median(entry.pace)
        assert work == pytest.approx(seconds * entry.work["dirac_applications"])
    assert "Dirac/traj." in (path / "compare-4x4-b2-m0.1" / "table.md").read_text()
