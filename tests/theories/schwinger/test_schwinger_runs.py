"""The Schwinger model on the command line: a model trained without fermions, with HMC in turn."""

import json

import numpy as np
import pytest
from drawn import lines, marks, spans

import dlhmc
from dlhmc import cli
from dlhmc.comparison.comparing import open_results
from dlhmc.errors import ExitCode
from dlhmc.report.plots import mathtext
from dlhmc.report.sampling import SampledRun, sampling_table
from dlhmc.run.describe import target_in_words
from dlhmc.theories.schwinger.figures import SchwingerFigures

SMALL = ("--lattice", "4", "4", "--leapfrog-steps", "2", "--chains", "4", "--warmup", "4", "--start", "cold", "--quiet")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run with all that can be asked for."""
    path = tmp_path_factory.mktemp("fermions") / "run"
    words = "sample schwinger --beta 2 --kappa 0.25 --model u1-b2 --alternate 2 --correlators --measure-every 2"
    assert cli.run([*words.split(), *SMALL, "--trajectories", "6", "--out", str(path)]) is ExitCode.OK
    return path


def test_learned_proposals_and_hmc_in_turn(run):
    summary = json.loads((run / "summary.json").read_text())
    assert summary["target"] == "schwinger"
    # Two steps of HMC and two trajectories of two layers.
    assert summary["leapfrog_steps"] == 6
    samples = dlhmc.load(run)
    moves = samples.data["moves"].values
    assert set(np.unique(moves)) <= {0.0, 0.5, 1.0}
    assert "moves" not in samples.observables
    # Three forces, each with a solver that takes two applications in each iteration.
    work = samples.data["dirac_applications"].values
    assert (work >= 9).all()
    figures = summary["kernel_figures"]
    expected = {"dirac_applications": work.mean(), "moves": moves.mean(), "solver_failures": 0}
    # Determinants of the configuration after HMC, and of two proposals.
    assert figures == pytest.approx(expected | {"lu_decompositions": 3})
    assert "solver" not in " ".join(summary["warnings"])
    # Settings that few people know are not in the title, unless somebody has set them.
    assert "residual" not in summary["title"]
    assert "residual = 0.001" in target_in_words({"target": "schwinger", "residual": 1e-3})


def test_correlators_are_measured_now_and_then(run):
    samples = dlhmc.load(run)
    pion = samples.data["pion"].values
    assert pion.shape == (4, 6, 3)
    np.testing.assert_array_equal(pion[:, ::2], pion[:, 1::2])
    assert (np.diff(pion[:, ::2], axis=1) != 0).any()
    susceptibility, charge = (samples.data[name].values for name in ("susceptibility", "charge"))
    np.testing.assert_allclose(susceptibility, charge**2 / 16)


def test_figures(run):
    found = SampledRun.open(run)
    masses = {"pion_mass": {"mean": 0.5, "error": 0.1}, "pion_fit_from": {"mean": 1.0, "error": 0.0}}
    pion = {"mean": [4.0, 2.0, 1.5], "error": [0.1, 0.1, None]}
    other = found._replace(summary=found.summary | {"derived": masses, "pion": pion | {"error": [0.1, 0.1, 0.1]}})
    (chart,) = SchwingerFigures().sampled(other)
    (axis,) = chart.figure.axes
    assert marks(axis)[mathtext(found.symbol("pion"))].tolist() == [[0, 4.0], [1, 2.0], [2, 1.5]]
    fit = lines(axis)[mathtext("M_{π} = 0.5(1)")]
    # A cosh(M(2 − t)) at t = 1 and 2.
    np.testing.assert_allclose(fit[0, 1] / fit[1, 1], np.cosh(0.5))
    (chart,) = SchwingerFigures().together([found, other])
    (axis,) = chart.figure.axes
    root = 2**0.5
    np.testing.assert_allclose(marks(axis)["measured"], [[0.1968 * root, 0.5 * root]])
    np.testing.assert_allclose(spans(axis, "measured"), [0.2 * root])
    line = lines(axis)[mathtext("2.008 m^{2/3}")]
    np.testing.assert_allclose(line[-1, 1], 2.008 * line[-1, 0] ** (2 / 3))
    # Without errors, and without masses.
    (chart,) = SchwingerFigures().sampled(found._replace(summary=found.summary | {"pion": pion}))
    assert len(marks(chart.figure.axes[0])[mathtext(found.symbol("pion"))]) == 3
    assert SchwingerFigures().together([found]) == []
    cells = {row[0]: row[1:4] for row in sampling_table(other.summary).rows}
    assert cells["pion mass"] == ("0.5(1)", "", "")
    assert [cells[name][1] for name in ("exp(-ΔH)", "A tanh(ΔH/2)")] == ["1", "0"]
    assert SchwingerFigures().sampled(found._replace(summary={})) == []


@pytest.mark.slow
def test_hmc_on_a_grid_of_heavier_masses(tmp_path):
    """With one, pseudofermions are drawn with a solution, and the heavier mass has a time scale of its own."""
    words = "compare schwinger --lattice 2 2 --beta 2 --mass 0.5 --hasenbusch-grid 0 0.4 --hits 0 --quiet"
    grid = "--integrators leapfrog --lengths 0.5 --acceptances 0.9 --inner-steps 2 --chains 4 --budget 0.5"
    assert cli.run([*words.split(), *grid.split(), "--out", str(tmp_path / "run")]) is ExitCode.OK
    plain, split = open_results(tmp_path / "run").entries
    assert [plain.kind, split.kind] == ["hmc", "hmc"]
    assert [entry.name.endswith(", μ = 0.4") for entry in (plain, split)] == [False, True]
    # Solutions for forces and an action; or beside them those of the heavier mass, which take fewer iterations.
    per_step = [entry.work["dirac_applications"] / entry.leapfrog_steps for entry in (plain, split)]
    assert per_step[0] < per_step[1] < 5 * per_step[0]


@pytest.mark.slow
def test_hmc_hits_and_learned_proposals_in_one_comparison(tmp_path):
    """Each in turn with HMC, which has a grid of inner steps as well."""
    words = "compare schwinger --lattice 4 4 --beta 2 --kappa 0.25 --model u1-b2 --alternate 2 --quiet"
    grid = "--integrators leapfrog --lengths 1 --acceptances 0.8 --inner-steps 1 2 --stirring-lengths 0.5"
    amounts = "--chains 8 --budget 5 --precision 0.5"
    code = cli.run([*words.split(), *grid.split(), *amounts.split(), "--out", str(tmp_path / "run")])
    assert code is ExitCode.OK
    entries = {entry.group: entry for entry in open_results(tmp_path / "run").entries}
    learned = "networks in windows, 2 layers, in turn with HMC"
    assert entries.keys() == {"HMC", "HMC and 1 instanton hit", learned}
    assert (entries[learned].kind, entries["HMC and 1 instanton hit"].kind) == ("model", "move")
    # Those of HMC, and two trajectories of two layers.
    assert entries[learned].leapfrog_steps == entries["HMC and 1 instanton hit"].leapfrog_steps + 4
