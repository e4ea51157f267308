"""What a report shows of a run with a flow."""

import io
import json

import numpy as np
import pytest
from drawn import lines, marks
from rich.console import Console

from dlhmc.errors import ExitCode, UserError
from dlhmc.report.command import build_page, intact
from dlhmc.report.plots import mathtext
from dlhmc.report.sampling import SampledRun, sampling_table
from dlhmc.spec.sampling import SampleSpec
from dlhmc.theories.gauge.figures import GaugeFigures


@pytest.fixture(scope="module")
def flowed(tmp_path_factory):
    path = tmp_path_factory.mktemp("flow") / "run"
    settings = {"target": "su2", "lattice": (2, 2, 2, 2), "beta": 2.0, "kernel": "heatbath", "start": "cold"}
    amounts = {"chains": 2, "trajectories": 6, "warmup": 1, "measure_every": 2, "flow_time": 0.4, "flow_points": 4}
    plan = SampleSpec.of(settings | amounts)
    assert plan.run(path, Console(file=io.StringIO()))[1] is ExitCode.OK
    return path


def test_the_flow(flowed):
    chart, history = build_page([flowed]).pictures
    assert (chart.name, history.name) == ("flow-run", "history-run")
    energy, charge = chart.figure.axes
    summary = json.loads((flowed / "summary.json").read_text())
    for label, name in (("clover", "flow_energy"), ("plaquette", "flow_energy_plaquette")):
        np.testing.assert_allclose(marks(energy)[label], np.transpose([[0.1, 0.2, 0.3, 0.4], summary[name]["mean"]]))
    assert lines(energy)[mathtext("t^{2}E = 0.3")][:, 1].tolist() == [0.3, 0.3]
    # Measured after every second trajectory.
    (values,) = (line.get_ydata() for line in charge.lines)
    assert values[0] == values[1] != values[2] == values[3] != values[4] == values[5]
    assert charge.get_ylabel() == mathtext("Q at t/a^{2} = 0.4")


def test_t0_is_marked_where_it_is_known(flowed):
    run = SampledRun.open(flowed)
    derived = {"derived": {"t0": {"mean": 0.25, "error": 0.01}}}
    (chart,) = GaugeFigures().sampled(run._replace(summary=run.summary | derived))
    assert lines(chart.figure.axes[0])[mathtext("t_{0}/a^{2} = 0.25(1)")][:, 0].tolist() == [0.25, 0.25]
    assert ("t0", "0.25(1)", "", "", "", "") in sampling_table(run.summary | derived).rows
    assert GaugeFigures().sampled(run._replace(summary={})) == []


def test_results_that_make_no_sense_are_damaged_files(flowed):
    run = SampledRun.open(flowed)
    broken = {name: entry for name, entry in run.summary.items() if name != "flow_energy_plaquette"}
    with pytest.raises(UserError, match="a file is damaged"), intact([flowed]):
        GaugeFigures().sampled(run._replace(summary=broken))
