"""Ratios with errors and limits; a stream of histories; results from files that may be a stranger's."""

import io
import math

import numpy as np
import pytest
from rich.console import Console

from dlhmc.comparison.results import NOTHING, Quantity, from_json, ratio, to_json
from dlhmc.comparison.streams import Streams
from dlhmc.comparison.table import markdown, sections, show
from dlhmc.errors import UserError


def test_a_ratio_of_values_has_the_error_of_both():
    gain = ratio(Quantity.measured(1000.0, 60.0), Quantity.measured(10.0, 0.8))
    assert gain.value == pytest.approx(100)
    assert gain.error == pytest.approx(100 * math.hypot(0.06, 0.08))
    assert gain.times(2.0, 0.24).error == pytest.approx(200 * math.hypot(0.1, 0.24))


def test_a_lower_bound_of_hmc_is_one_of_the_ratio():
    own = Quantity.measured(10.0, 1.0)
    gain = ratio(Quantity(lower=2000.0), own)
    assert gain.value is None
    assert gain.error is None
    assert gain.upper is None
    assert gain.lower == pytest.approx(2000 / (10 + 1.645), rel=1e-3)
    assert gain.times(3.0).lower == pytest.approx(3 * gain.lower)


def test_a_sampler_that_is_only_bounded_is_slower_than_so_much():
    gain = ratio(Quantity.measured(100.0, 10.0), Quantity(lower=1000.0))
    assert gain.value is None
    assert gain.lower is None
    assert gain.upper == pytest.approx(0.11645, rel=1e-3)
    assert ratio(Quantity(lower=1.0), Quantity(lower=1.0)) == NOTHING
    assert ratio(Quantity.measured(1.0, 0.1), Quantity.measured(0.0, 0.0)) == NOTHING  # N_LF = 0


def test_streams_grow_and_are_read_back(tmp_path):
    rng = np.random.default_rng(1)
    charges = rng.integers(-5, 6, (300, 3)).astype(np.float32)
    sines = rng.normal(size=(300, 3)).astype(np.float32)
    streams = Streams(("charge", "sine"), "charge", 3)
    for first, last in ((0, 1), (1, 63), (63, 65), (65, 65), (65, 300)):
        streams.extend({"charge": charges[first:last], "sine": sines[first:last], "other": charges[first:last]})
    assert streams.rows == 300
    streams.save(tmp_path / "a.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        assert archive.files == ["charge", "sine"]
        assert archive["charge"].dtype == np.int16
        assert archive["sine"].dtype == np.float32
        np.testing.assert_array_equal(archive["charge"], charges)
        np.testing.assert_array_equal(archive["sine"], sines)


def a_time(**changes):
    return {"value": 2.0, "error": 0.1, "window": 8, "frozen": False, "lower_bound": 1.8} | changes


def an_entry(**changes):
    moment = {"mean": 0.5, "error": 0.01, "exact": 0.5, "z": 0.0}
    entry = {
        "name": "leapfrog 1/5",
        "kind": "hmc",
        "status": "measured",
        "integrator": "leapfrog",
        "length": 1.0,
        "step_size": 0.2,
    }
    entry |= {
        "model": None,
        "leapfrog_steps": 5,
        "forces": 6,
        "network_flops": 0,
        "trajectories": 100,
        "seconds": 1.0,
        "acceptance": 0.9,
    }
    entry |= {
        "nonfinite_rejected": 0,
        "observables": {"energy": moment},
        "tau_int": {"energy": a_time()},
        "tau_int_others": {},
    }
    quantities = ("steps_tau", "seconds_per_trajectory", "seconds_per_independent", "gain_in_steps", "gain_in_time")
    entry |= {name: {"value": 1.0, "error": 0.1, "lower": 0.8, "upper": 1.2} for name in quantities}
    entry |= {"kernel_figures": {"moves": 0.5, "solutions": 20.0}}
    entry |= {"work_per_independent": {"solutions": {"value": 80.0, "error": 4.0, "lower": 73.0, "upper": 87.0}}}
    return entry | {"history": "histories/0.npz", "history_sha256": "0"} | changes


def a_table(*entries, **changes):
    table = {
        "target": {"target": "Own"},
        "chains": 4,
        "precision": 0.1,
        "seconds": 1.0,
        "finished": True,
        "interrupted": False,
    }
    table |= {"exact": {}, "best_in_steps": None, "best_in_time": None, "warnings": [], "entries": list(entries)}
    return table | changes


def test_results_are_read_back_as_they_were():
    table = a_table(an_entry(), an_entry(name="b", tau_int={"energy": a_time(value=None, error=None)}))
    assert to_json(from_json(table)) == table


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (a_table(an_entry(steps_tau={"value": 1.0, "error": -0.1})), "entries[0].steps_tau.error"),
        (a_table(an_entry(observables={"e": {"mean": 1.0, "error": -1, "exact": None, "z": None}})), "[...].error"),
        (a_table(an_entry(tau_int={"energy": a_time(error=-1.0)})), "tau_int[...].error"),
        (a_table(an_entry(), an_entry(tau_int={"x": a_time()})), "not judged by the same observables"),
        (a_table(an_entry(tau_int={})), "an autocorrelation time of leapfrog 1/5 is missing"),
        (
            a_table(an_entry(tau_int={"energy": a_time(error=None)})),
            "an autocorrelation time of leapfrog 1/5 is missing",
        ),
        (a_table(an_entry(tau_int={"energy": a_time(lower_bound=None)})), "tau_int[...].lower_bound"),
        (a_table(an_entry(acceptance=math.nan)), "entries[0].acceptance"),
        (a_table(an_entry(), exact={"energy": math.inf}), "exact[...]"),
        (a_table(an_entry(trajectories=-1)), "trajectories"),
        (a_table(an_entry(status="fine")), "status"),
        (a_table(an_entry(kind="hits")), "kind"),
        (a_table(chains=0), "chains"),
        (a_table(target={}), "its target has no name"),
        (a_table(entries={}), "entries"),
        ({}, "target"),
    ],
)
def test_what_makes_no_sense_is_refused_with_one_sentence(table, reason):
    with pytest.raises(UserError) as refused:
        from_json(table, "results.json")
    assert str(refused.value).startswith("results.json is damaged or of another version of dlhmc: ")
    assert reason in str(refused.value)


def test_headers_are_those_of_the_theory():
    entry = an_entry(tau_int={"charge": a_time()}, observables={"charge_squared": an_entry()["observables"]["energy"]})
    results = from_json(a_table(entry, target={"target": "u1", "lattice": [8, 8], "beta": 2.0}))
    costs, _, observables, _ = sections(results)
    assert costs.header[1] == "τ(Q_{ℤ})"
    assert observables.header[-1] == "⟨Q_{ℤ}^{2}⟩"
    assert "8×8  β = 2  4 chains" in markdown(results)
    assert "| ⟨Q_ℤ^2⟩ |" in markdown(results)


def test_the_cheapest_stands_first_and_nothing_is_cut_off_at_80_columns():
    def costing(name, milliseconds, **more):
        cost = {"value": 1e-3 * milliseconds, "error": 0.0, "lower": None, "upper": None}
        steps = {"value": 123456.0, "error": 4000.0, "lower": None, "upper": None}
        pace = {"value": 5.7e-4, "error": 5e-5, "lower": None, "upper": None}
        costs = {"seconds_per_independent": cost, "steps_tau": steps, "seconds_per_trajectory": pace}
        return an_entry(name=name, **costs, **more)

    entries = [
        costing("omelyan 4/18", 30.0, gain_in_time={"value": None, "error": None, "lower": 54321.0, "upper": None}),
        costing("dropped early", 1.0, status="dropped"),
        costing("leapfrog 0.25/4 + 1 hit", 20.0, kind="move"),
        costing("model u1-b7", 5.0, kind="model", network_flops=108_000),
    ]
    results = from_json(a_table(*entries, best_in_time="omelyan 4/18"))
    costs, trajectories, _, told = sections(results)
    assert told.header == ("sampler", "moves", "solutions", "solutions/indep.")
    assert told.rows[0][1:] == ("0.5", "20", "80(4)")
    assert [row[0] for row in costs.rows] == [
        "model u1-b7",
        "leapfrog 0.25/4 + 1 hit",
        "omelyan 4/18",
        "dropped early",
    ]
    assert [costs.rows[number][0] for number in costs.marked] == ["model u1-b7", "omelyan 4/18"]
    assert "1.23(4)·10⁵" in costs.rows[0]
    written = io.StringIO()
    show(results, Console(file=written, width=80))
    assert "…" not in written.getvalue()
    lines = written.getvalue().splitlines()
    for row in (*costs.rows, *trajectories.rows):
        assert any(all(cell in line for cell in row) for line in lines), row


def test_names_of_targets_of_ones_own_are_shown_as_they_are():
    entry = an_entry(name="[/b]", tau_int={"mean_[/x]_field": a_time()})
    results = from_json(a_table(entry, target={"target": "[/own]", "mass": 0.5}, warnings=["[/z] beware"]))
    written = io.StringIO()
    show(results, Console(file=written, width=200))
    for text in ("[/own]  mass = 0.5", "τ(mean [/x] field)", "[/b]", "Warning: [/z] beware"):
        assert text in written.getvalue()
