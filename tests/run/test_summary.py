"""What a run says about itself, from small histories made by hand."""

import dataclasses
import io
import json

import numpy as np
import pytest
from rich.console import Console

from dlhmc.errors import UserError
from dlhmc.report.sampling import sampling_table
from dlhmc.run.history import History
from dlhmc.run.samples import Samples
from dlhmc.run.show import show
from dlhmc.run.summary import Quantities
from dlhmc.targets.contract import Moment

ROWS, CHAINS = 400, 8
QUANTITIES = Quantities({"height_squared": Moment("height", 2)}, {"height": 0.0}, {}, {"height_squared": 1.0})
ARRAYS = Quantities(
    {"loop": Moment("loop"), "loop_squared": Moment("loop", 2)},
    {"loop": None},
    {},
    {"loop": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "loop_squared": 1.0},
)
LOOPS = (np.arange(6.0).reshape(2, 3, 1) + np.random.default_rng(1).normal(size=(ROWS, 2, 3, CHAINS))).astype(
    np.float32
)


def moving():
    return np.random.default_rng(0).normal(size=(ROWS, CHAINS)).astype(np.float32)


def frozen():
    return np.broadcast_to(np.arange(CHAINS, dtype=np.float32) - 3, (ROWS, CHAINS)).copy()


def steps(shift=0.0):
    """Sound accept/reject steps, ΔH ~ N(½, 1), unless they are shifted."""
    change = np.random.default_rng(2).normal(0.5, 1.0, size=(ROWS, CHAINS)) + shift
    flags = np.ones((ROWS, CHAINS), np.int8)
    return {"energy_change": change.astype(np.float32), "accepted": flags, "nonfinite": 0 * flags}


def about(quantities=QUANTITIES, **attributes):
    return {"kernel": "made up", "quantities": quantities.to_json(), "leapfrog_steps": 4} | attributes


def measured(records, attributes, path=None):
    rows = {name: np.zeros(values.shape[1:], values.dtype) for name, values in records.items()}
    made = History.create(path, ROWS, rows, [], np.zeros((2, CHAINS)), attributes)
    made.write(0, records, slice(None))
    return Samples(made.dataset(ROWS).assign_attrs(seconds=2.0))


@pytest.fixture
def summarised(tmp_path):
    """The summary of a history on disk, which is that of the same in memory, and what is shown."""

    def run(records, quantities=QUANTITIES, **attributes):
        if "energy_change" in records:
            attributes = {"diagnostics": '["accepted", "energy_change", "nonfinite"]'} | attributes
        attributes = about(quantities, **attributes)
        samples = measured(records, attributes, tmp_path / "history.zarr")
        summary = samples.summary()
        assert json.loads(json.dumps(summary, allow_nan=False)) == summary
        assert measured(records, attributes).summary() == summary
        screen = io.StringIO()
        console = Console(file=screen, width=100, force_terminal=True, color_system="standard")
        show(summary, console)
        return summary, samples, screen.getvalue()

    return run


# Error bars.


@pytest.mark.parametrize("start", [None, "hot", "cold", "near"])
def test_frozen_chains_have_no_error_and_say_why(start, summarised):
    attributes = {} if start is None else {"start": start}
    summary, samples, text = summarised({"height": frozen()} | steps(), **attributes)
    entry = summary["height_squared"]
    assert entry["mean"] == np.mean((np.arange(8.0) - 3) ** 2)
    assert [entry[name] for name in ("error", "z", "rhat")] == [None, None, None]
    assert entry["ess_bulk"] <= 2 * CHAINS
    (warning,) = summary["warnings"]
    assert warning.startswith("height_squared: no error is given, because the chains have not converged")
    for advice in ("another start", "more warm-up", "more trajectories", "hand-made move", "learned sampler"):
        assert advice in warning
    assert f"Warning: {warning}" in text
    assert "5.5 (not converged)" in text
    assert "∞" in text
    assert str(samples.mean("height_squared")) == "5.5 (not converged)"
    assert summary["start"] == start


def test_frozen_chains_from_exact_draws_have_the_error_of_their_spread(summarised):
    summary, _, text = summarised({"height": frozen()} | steps(), start="exact")
    entry = summary["height_squared"]
    means = (np.arange(8.0) - 3) ** 2
    assert entry["error"] == pytest.approx(means.std(ddof=1) / np.sqrt(8))
    assert entry["z"] == pytest.approx((means.mean() - 1) / entry["error"])
    assert entry["rhat"] is None
    assert summary["warnings"] == []
    assert "6(2)" in text
    assert "∞" in text


def test_moments_of_a_sector_without_enough_changes_say_how_many_there_were(summarised):
    """Seven chains start elsewhere than the one before ended."""
    quantities = dataclasses.replace(QUANTITIES, sector="height")
    summary, samples, text = summarised({"height": frozen()} | steps(), quantities, start="exact")
    entry = summary["height_squared"]
    assert [entry[name] for name in ("error", "z", "sector_changes")] == [None, None, 7]
    (warning,) = summary["warnings"]
    assert warning.startswith("height_squared: no error is given, because 7 independent changes of sector were seen")
    assert f"Warning: {warning}" in text
    assert str(samples.mean("height_squared")) == "5.5 (not converged)"


def test_moments_of_a_sector_that_changes_often_have_an_error(summarised):
    quantities = dataclasses.replace(QUANTITIES, sector="height")
    summary, samples, _ = summarised({"height": moving().round()} | steps(), quantities, start="exact")
    entry = summary["height_squared"]
    assert entry["error"] == samples.mean("height_squared").error < 0.1
    assert entry["sector_changes"] > 600
    assert summary["warnings"] == []


def test_chains_that_differ_have_no_error(summarised):
    offsets = np.linspace(0, 2, CHAINS, dtype=np.float32)
    summary, _, text = summarised({"height": moving() + offsets} | steps(), start="hot")
    assert summary["height_squared"]["error"] is None
    assert summary["height_squared"]["rhat"] > 1.05
    assert f"{summary['height_squared']['rhat']:.3f}" in text


def test_chains_that_move_have_an_error_wherever_they_started(summarised):
    summary, samples, text = summarised({"height": moving()} | steps(), start="hot")
    assert abs(summary["height_squared"]["z"]) < 4
    assert summary["height_squared"]["rhat"] < 1.05
    assert summary["height_squared"]["ess_bulk"] == pytest.approx(samples.mean("height_squared").ess_bulk)
    assert summary["warnings"] == []
    assert "R̂" in text
    apart = 2 * summary["tau_int_height"]["value"]
    assert summary["microseconds_per_independent"] == pytest.approx(apart * summary["microseconds_per_trajectory"])


# Alarms.


def test_energies_that_are_off_are_an_alarm_in_red(summarised):
    summary, _, text = summarised({"height": moving()} | steps(-2.0))
    weight, balance = summary["alarms"]
    assert weight.startswith("⟨e^{−ΔH}⟩ = ")
    assert balance.startswith("⟨A tanh(ΔH/2)⟩ = ")
    for alarm in summary["alarms"]:
        assert f"\x1b[1;31mAlarm: {alarm}" in text
    (row,) = (line for line in text.splitlines() if "exp(-ΔH)" in line)
    assert "\x1b[1;31m" in row


def test_sound_energies_are_none(summarised):
    summary, _, text = summarised({"height": moving()} | steps())
    assert summary["alarms"] == []
    assert "Alarm" not in text
    assert "31m" not in text


# Arrays.


def test_arrays_are_summarised_element_by_element(summarised):
    summary, samples, text = summarised({"loop": LOOPS} | steps(), ARRAYS)
    for i, j in np.ndindex(2, 3):
        series = LOOPS[:, i, j].astype(float)
        for name, values in (("loop", series), ("loop_squared", series**2)):
            assert summary[name]["mean"][i][j] == pytest.approx(values.mean())
            assert summary[name]["error"][i][j] == pytest.approx(values.std() / np.sqrt(values.size), rel=0.2)
            assert summary[name]["rhat"][i][j] < 1.05
        assert summary["loop"]["exact"][i][j] == 3 * i + j
        assert summary["tau_int_loop"]["value"][i][j] == pytest.approx(0.5, abs=0.1)
    shown = [f"loop[{i}]" in text for i in ("0,0", "0,1", "0,2", "1,0", "1,1", "1,2")]
    assert shown == [True] * 4 + [False] * 2
    assert text.count("…") == 3
    assert samples.mean("loop").shape == samples.tau_int("loop").shape == (2, 3)
    assert samples.mean("loop")[1, 2].value == pytest.approx(5, abs=0.1)
    assert samples.series("loop").shape == (ROWS, 2, 3, CHAINS)
    numbers = samples.effective_sample_size("loop")
    assert (numbers.shape, numbers.dtype) == ((2, 3), np.float64)
    assert np.abs(summary["loop"]["z"]).max() < 4.5
    assert samples.data["loop"].dims == ("chain", "trajectory", "loop_0", "loop_1")
    rows = sampling_table(summary).rows
    assert [row[0] for row in rows[:5]] == ["loop[0,0]", "loop[0,1]", "loop[0,2]", "loop[1,0]", "…"]
    assert "…" in repr(samples)


def test_one_frozen_element_is_enough_for_a_warning(summarised):
    loops = LOOPS.copy()
    loops[:, 0, 1] = frozen()
    summary, _, _ = summarised({"loop": loops} | steps(), ARRAYS)
    assert summary["loop"]["error"][0][1] is None
    assert None not in (summary["loop"]["error"][0][0], *summary["loop"]["error"][1])
    assert summary["warnings"][0].startswith("loop, loop_squared: ")
    assert summary["microseconds_per_independent"] is None


# What the kernel recorded, and what ran.


def test_records_of_the_kernel_are_those_that_the_history_names(summarised):
    records = {"height": moving(), "tree_depth": np.full((ROWS, CHAINS), -3, np.int32)}
    summary, samples, text = summarised(records, diagnostics='["tree_depth"]')
    assert samples.observables == ("height",)
    assert summary["acceptance"] is None
    assert "exp_minus_dh" not in summary
    assert summary["alarms"] == []
    assert "acceptance" not in text


def test_the_title_is_made_of_what_there_is():
    what = {"kernel": "hmc", "target": "Gas", "sides": [16, 16, 8], "mass": 0.5, "widths": [0.1, 2.0], "moves": 3}
    summary = measured({"height": moving()}, about(**what)).summary()
    assert summary["title"] == (
        "hmc  Gas  16×16×8  mass = 0.5  widths = 0.1, 2  moves = 3  8 chains × 400 trajectories"
    )


def test_speed_is_that_of_effective_samples(summarised):
    summary, _, text = summarised({"height": moving()} | steps())
    entry = summary["height_squared"]
    assert entry["ess_per_second"] == pytest.approx(entry["ess_bulk"] / 2.0)
    assert f"{entry['ess_per_second']:.3g}" in text


def test_a_history_without_what_it_promises_is_refused():
    with pytest.raises(UserError, match="has no 'height'"):
        measured({"width": moving()}, about()).summary()
