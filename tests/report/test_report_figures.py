"""What a page shows of comparisons, on targets of one's own and on those of a theory that has its own figures."""

import dataclasses
import re
from pathlib import Path

import hand_made
import pytest

from dlhmc.comparison.results import Quantity
from dlhmc.errors import UserError
from dlhmc.report.charts import GREY, Table, Text
from dlhmc.report.contents import build_page, drawn
from dlhmc.report.curves import Curve, read_curves
from dlhmc.report.page import render
from dlhmc.theories.u1 import exact

PAPER = Path(__file__).parents[2] / "docs" / "results" / "paper-curves.toml"
OWN_WORDS = re.compile(r"charge|plaquette|lattice|instanton|β|U\(1\)", re.IGNORECASE)


def own(path, dim=2, tau=3.0):
    """HMC and a sampler from Python on somebody's density."""
    slow = ("x0", "squared_norm")
    entries = [
        hand_made.entry("leapfrog 1/4", "hmc", 5 * tau, slow=slow),
        hand_made.entry("mine", "model", tau, steps=3, slow=slow),
    ]
    return hand_made.comparison(path, {"target": "Banana", "dim": dim}, entries)


def gauge(path, lattice, beta):
    """Two HMC, one of them frozen, hits, exact draws, and a sampler from Python."""
    quantities = {"slow": ("charge", "sine_charge"), "moments": ("plaquette", "charge_squared", "sine_charge_squared")}
    entries = [
        hand_made.entry("leapfrog 1/4", "hmc", 20.0 * beta, **quantities),
        hand_made.entry("leapfrog 2/8", "hmc", 900.0, steps=8, error=None, **quantities),
        hand_made.entry("leapfrog 1/4 + 1 hit", "move", 4.0, **quantities),
        hand_made.entry("exact draws", "exact", 0.5, steps=0, **quantities),
        hand_made.entry("mine", "model", 3.0, steps=2, **quantities),
    ]
    return hand_made.comparison(path, {"target": "u1", "lattice": list(lattice), "beta": beta}, entries, whole=True)


def by_name(page):
    return {chart.name: chart for chart in drawn(page)}


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (3.0, "For HMC these are lower limits at 95 %: in a race of 2 s it was not seen to forget its x0."),
        (0.3, "These are lower limits at 95 %: a race of 2 s was too short to tell which of the two is cheaper."),
    ],
)
def test_limits_of_hmc_say_who_is_ahead_only_if_they_can(gain, said, tmp_path):
    model = dataclasses.replace(hand_made.entry("mine", "model", 3.0), gain_in_time=Quantity(lower=gain))
    entries = [hand_made.entry("leapfrog 1/4", "hmc", 6.0, error=None), model]
    page = build_page([hand_made.comparison(tmp_path / "race", {"target": "Banana"}, entries)])
    assert said in page.answer


def test_a_target_of_ones_own_gets_a_page(tmp_path):
    page = build_page([own(tmp_path / "race")])
    assert page.title == "Banana: what an independent configuration costs"
    assert page.answer == (
        "On Banana, dim = 2 (race) an independent x0 costs mine 3 × 3.0(1) = 9.0(3) leapfrog steps and 18.0(6) ms. The "
        "best HMC (Leapfrog, length 1, 4 steps) takes more than 3 times as long and 5(1) times as many steps."
    )
    costs, chart = drawn(page)
    for panel in costs.panels:
        assert list(panel.rows) == ["★ mine", "★ Leapfrog, length 1, 4 steps"]
        assert [(series.name, list(series.y)) for series in panel.series] == [("HMC", [1]), ("trained", [0])]
    assert chart.name == "autocorrelation-race"
    assert [panel.y_label for panel in chart.panels] == ["ρ(t) of x0", "ρ(t) of squared norm"]
    assert {series.name for series in chart.panels[0].series} >= {"HMC (Leapfrog, length 1, 4 steps)", "mine"}
    headings = [section.heading for section in page.sections]
    assert headings == ["What it costs", "Comparison on Banana, dim = 2 (race)", "All samplers", "How to repeat it"]
    warning, *tables = page.sections[2].blocks
    assert warning == Text("Banana, dim = 2 (race): chains have not met")
    assert [type(table) for table in tables] == [Table] * 3
    assert tables[0].caption.startswith("Cost, Banana, dim = 2 (race). ")
    assert [tables[0].rows[number][0] for number in tables[0].marked] == ["mine"]
    # What is not about gauge theory is not in its words.
    body = render(page).partition("<body>")[2]
    assert not OWN_WORDS.search(re.sub(r"<script>.*?</script>", "", body, flags=re.DOTALL))


def test_costs_are_shown_against_the_number_in_which_targets_differ(tmp_path):
    runs = [own(tmp_path / "large", 5, 7.0), own(tmp_path / "small", 2, 3.0)]
    curves = [
        Curve("elsewhere", "dim", (2.0, 9.0), (10.0, 20.0), {"target": "Banana"}),
        Curve("of another", "dim", (2.0, 9.0), (10.0, 20.0), {"target": "Apple"}),
        Curve("against another", "width", (2.0, 9.0), (10.0, 20.0)),
    ]
    page = build_page(runs, curves)
    steps, time = by_name(page)["cost"].panels
    assert steps.x_label == time.x_label == "dim"
    for panel, factor in ((steps, 1.0), (time, 2.0)):  # 2τ trajectories of a millisecond a step
        series = {series.name: series for series in panel.series}
        assert list(series["mine"].x) == [2.0, 5.0]
        assert list(series["mine"].y) == pytest.approx([factor * 9.0, factor * 21.0])
        assert list(series["best HMC"].y) == pytest.approx([factor * 60.0, factor * 140.0])
        assert not any("moves" in name for name in series)
    assert [series.name for series in steps.series if series.colour == GREY] == ["elsewhere"]
    assert not [series for series in time.series if series.colour == GREY]
    (table,) = (block for block in page.sections[0].blocks if isinstance(block, Table))
    assert table.header[:3] == ("dim", "HMC: N_{LF} τ", "trained: N_{LF} τ")
    assert [row[0] for row in table.rows] == ["2", "5"]
    assert page.answer.startswith("On Banana, dim = 5 (large) ")


def test_gauge_theory_has_its_own_figures(tmp_path):
    page = build_page([gauge(tmp_path / "b", (4, 4), 3.0), gauge(tmp_path / "a", (4, 4), 2.0)])
    assert page.answer.startswith("On 4×4 at β = 3 an independent topological charge costs mine 2 × 3.0(1) = 6.0(2) ")
    headings = [section.heading for section in page.sections]
    assert headings == ["What it costs", "Topology thaws", "Held to exact results", "All samplers", "How to repeat it"]
    charts = by_name(page)
    assert list(charts) == ["cost", "charge-history", "charge-distribution", "autocorrelation", "observables"]
    steps, time = ({series.name: series for series in panel.series} for panel in charts["cost"].panels)
    assert charts["cost"].panels[0].x_label == "β"
    assert list(steps["best HMC"].x) == list(steps["HMC + instanton hits"].x) == [2.0, 3.0]
    assert list(steps["HMC, all of the grid"].is_limit) == [False, True, False, True]
    assert list(time["exact draws"].x) == [2.0, 3.0]
    assert all(series.kind == "steps" for panel in charts["charge-history"].panels for series in panel.series)
    bars, *sampled = charts["charge-distribution"].panels[0].series
    assert bars.y[len(bars.y) // 2] == pytest.approx(float(exact.charge_distribution(3.0, 16, [0])[0]))
    assert all(sum(value or 0 for value in series.y) == pytest.approx(1) for series in sampled)
    plaquette, *_ = charts["observables"].panels
    assert (plaquette.x_label, plaquette.y_label) == ("β", "⟨cos x_{P}⟩")
    curve = plaquette.series[0]
    assert list(curve.y) == pytest.approx([exact.plaquette(beta, 16) for beta in curve.x])


def test_a_single_comparison_has_a_row_for_each_sampler(tmp_path):
    page = build_page([gauge(tmp_path / "one", (4, 4), 3.0)])
    charts = by_name(page)
    time, steps = charts["cost"].panels
    assert time.x_log
    assert steps.x_log
    # The cheapest first; what is drawn exactly takes no leapfrog steps.
    assert list(steps.rows) == [
        "★ mine",
        "★ Leapfrog, length 1, 4 steps, 1 hit",
        "★ Leapfrog, length 1, 4 steps",
        "Leapfrog, length 1, 8 steps",
    ]
    assert {series.name for series in time.series} >= {"HMC", "HMC + instanton hits", "trained"}
    (hmc,) = (series for series in steps.series if series.name == "HMC")
    assert list(hmc.is_limit) == [False, True]
    assert list(hmc.x) == pytest.approx([4 * 60.0, 8 * 900.0])
    plaquette, _ = charts["observables"].panels
    exact_line, measured = plaquette.series
    assert list(exact_line.x) == pytest.approx([exact.plaquette(3.0, 16)] * 2)
    assert len(plaquette.rows) == len(measured.x) == 5
    # No plane with a single point.
    assert not [panel for chart in charts.values() for panel in chart.panels if panel.x_label == "β"]
    assert "HMC + instanton hits (Leapfrog, length 1, 4 steps, 1 hit) takes 2.7(1) times as long." in page.answer


def test_targets_of_two_sizes_are_two_families(tmp_path):
    """The paper's curves are for its own lattice."""
    runs = [gauge(tmp_path / "small", (4, 4), 2.0), gauge(tmp_path / "large", (16, 16), 2.0), own(tmp_path / "own")]
    page = build_page(runs, read_curves(PAPER))
    headings = [section.heading for section in page.sections]
    assert headings[:2] == ["What it costs, 4×4 at β = 2", "Topology thaws, 4×4 at β = 2"]
    assert headings[3:5] == ["What it costs, 16×16 at β = 2", "Topology thaws, 16×16 at β = 2"]
    assert headings[6:8] == ["What it costs, Banana, dim = 2 (own)", "Comparison on Banana, dim = 2 (own)"]
    charts = by_name(page)
    assert not [series for series in charts["cost"].panels[1].series if series.colour == GREY]
    # At one β, rows of their own.
    panel = charts["cost-2"].panels[1]
    grey = [series for series in panel.series if series.colour == GREY]
    assert [list(series.x) for series in grey] == [[62.0], [21.0]]
    assert [panel.rows[series.y[0]] for series in grey] == [series.name for series in grey]
    assert page.question == "What did these runs do?"
    answers = page.answer.splitlines()
    said = "The best HMC (Leapfrog, length 1, 4 steps) takes more than 3 times as long"
    assert [said in one for one in answers] == [True] * 3


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ({}, "it has no beta"),
        ({"beta": -2.0}, "beta is -2.0, but must be"),
        ({"beta": 2.0}, "it has no charge_squared"),
    ],
)
def test_results_that_figures_cannot_be_made_of_are_refused(target, complaint, tmp_path):
    entries = [hand_made.entry("leapfrog 1/4", "hmc", 5.0)]
    path = hand_made.comparison(tmp_path / "run", {"target": "u1", "lattice": [4, 4]} | target, entries)
    with pytest.raises(UserError, match=f"results.json is damaged or of another version of dlhmc: {complaint}"):
        build_page([path])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[curve]\n", "cannot be read"),
        ("[[curves]]\n", "did you mean 'curve'"),
        ("[[curve]]\nname = 'a'\n", "missing required field"),
        ("[[curve]]\nname = 'a'\nagainst = 'b'\nx = [1.0]\ny = [1.0]\ndash = true\n", "did you mean 'dashed'"),
        ("[[curve]]\nname = 'a'\nagainst = 'b'\nx = [1.0]\ny = [1.0, 2.0]\n", "as many numbers x as y"),
        ("[[curve]]\nname = 'a'\nagainst = 'b'\nx = [1.0]\ny = [nan]\n", "all of them finite"),
    ],
)
def test_curves_that_make_no_sense_are_refused(text, complaint, tmp_path):
    file = tmp_path / "curves.toml"
    file.write_text(text)
    with pytest.raises(UserError, match=complaint):
        read_curves(file)
