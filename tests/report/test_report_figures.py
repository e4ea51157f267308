"""What a page shows of comparisons, on targets of one's own and on those of a theory that has its own figures."""

import dataclasses
import re
from pathlib import Path

import hand_made
import numpy as np
import pytest
from drawn import legend, lines, marks, pictures, spans

from dlhmc.errors import UserError
from dlhmc.exact import characters
from dlhmc.report.command import build_page
from dlhmc.report.compared import ComparedRun, Family, cost_table
from dlhmc.report.curves import Curve, read_curves
from dlhmc.report.page import Table, render

PAPER = Path(__file__).parents[2] / "docs" / "results" / "paper-curves.toml"
OWN_WORDS = re.compile(r"charge|plaquette|lattice|instanton|β|U\(1\)", re.IGNORECASE)


def own(path, dim=2, tau=3.0):
    """HMC and a sampler from Python on somebody's density."""
    slow = ("x0", "squared_norm")
    entries = [
        hand_made.entry("HMC, 4 steps", "hmc", 5 * tau, slow=slow, exact=False),
        hand_made.entry("mine", "model", tau, steps=3, slow=slow, exact=False),
    ]
    return hand_made.comparison(path, {"target": "Banana", "dim": dim}, entries)


def gauge(path, lattice, beta):
    """Two HMC, one of them frozen, hits, exact draws, and a sampler from Python."""
    quantities = {"slow": ("charge", "sine_charge"), "moments": ("plaquette", "charge_squared", "sine_charge_squared")}
    entries = [
        hand_made.entry("HMC, 4 steps", "hmc", 20.0 * beta, **quantities),
        hand_made.entry("HMC, 8 steps", "hmc", 900.0, steps=8, error=None, **quantities),
        hand_made.entry("HMC and 1 hit, 4 steps", "move", 4.0, group="HMC and 1 hit", **quantities),
        hand_made.entry("exact draws", "exact", 0.5, steps=0, **quantities),
        hand_made.entry("mine", "model", 3.0, steps=2, **quantities),
    ]
    return hand_made.comparison(path, {"target": "u1", "lattice": list(lattice), "beta": beta}, entries, whole=True)


def texts(page):
    return [block for section in page.sections for block in section.blocks if isinstance(block, str)]


def tables(page):
    return [block for section in page.sections for block in section.blocks if isinstance(block, Table)]


@pytest.mark.parametrize(
    ("hmc", "trained", "verdict", "factor"),
    [
        (
            (6.0, 0.1),
            (1.2, 0.1),
            "won",
            "HMC takes 5.0(4) times as long. HMC takes 5.0(4) times as many leapfrog steps.",
        ),
        ((60.0, None), (1.2, 0.1), "won", "HMC takes more than 44 times as long."),
        ((6.0, 0.1), (30.0, 0.1), "lost", "It takes 5.00(8) times as long as HMC."),
        ((6.0, 0.1), (600.0, None), "lost", "It takes more than 97.3 times as long as HMC."),
        ((6.0, 0.1), (5.5, 0.5), "may have won or lost", "HMC takes 1.1(1) times as long."),
        ((1.0, None), (5.0, 0.1), "may have won or lost", "HMC takes more than 0.194 times as long."),
    ],
)
def test_the_first_sentence_says_who_won(hmc, trained, verdict, factor, tmp_path):
    entries = [
        hand_made.entry("HMC, 4 steps", "hmc", hmc[0], error=hmc[1]),
        hand_made.entry("mine", "model", trained[0], error=trained[1]),
    ]
    (answer,) = build_page([hand_made.comparison(tmp_path / "run", {"target": "Banana"}, entries)]).answers
    assert answer.startswith(f"The trained sampler {verdict}: on Banana, an independent x0 costs it ")
    assert factor in answer
    assert ("limits at 95 %" in answer) == ("than" in answer.replace("limits", ""))


def test_a_target_of_ones_own_gets_a_page(tmp_path):
    page = build_page([own(tmp_path / "race")])
    costs, chart = page.pictures
    for axis in costs.figure.axes:
        rows = [label.get_text() for label in costs.figure.axes[0].get_yticklabels()]
        assert rows == ["mine", "HMC, 4 steps"]
        assert {name: found[:, 1].tolist() for name, found in marks(axis).items()} == {"HMC": [1], "mine": [0]}
        assert axis.get_xscale() == "log"
    assert chart.name == "autocorrelation"
    assert [axis.get_ylabel() for axis in chart.figure.axes] == ["ρ(t) of x0", "ρ(t) of squared norm"]
    assert legend(chart.figure) == ["HMC", "mine"]
    headings = [section.heading for section in page.sections]
    assert headings == ["Comparison on Banana, dim = 2", "All samplers", "How to repeat it"]
    assert "Banana, dim = 2: chains have not met" in texts(page)
    assert "No exact results are known for this target." in texts(page)
    assert tables(page)[0].caption.startswith("Cost, Banana, dim = 2. ")
    assert [tables(page)[0].rows[number][0] for number in tables(page)[0].marked] == ["mine", "HMC, 4 steps"]
    # What is not about gauge theory is not in its words.
    assert not OWN_WORDS.search(render(page).partition("<body>")[2])


def test_costs_are_shown_against_the_number_in_which_targets_differ(tmp_path):
    runs = [own(tmp_path / "large", 5, 7.0), own(tmp_path / "small", 2, 3.0)]
    curves = [
        Curve("elsewhere", "dim", (2.0, 9.0), (10.0, 20.0), {"target": "Banana"}),
        Curve("of another", "dim", (2.0, 9.0), (10.0, 20.0), {"target": "Apple"}),
        Curve("against another", "width", (2.0, 9.0), (10.0, 20.0)),
    ]
    page = build_page(runs, curves)
    steps, time, _ = pictures(page)["cost"].figure.axes
    assert steps.get_xlabel() == time.get_xlabel() == "dim"
    for axis, factor in ((steps, 1.0), (time, 2.0)):  # 2τ trajectories of a millisecond a step
        np.testing.assert_allclose(marks(axis)["mine"], [[2.0, factor * 9.0], [5.0, factor * 21.0]])
        np.testing.assert_allclose(marks(axis)["HMC"], [[2.0, factor * 60.0], [5.0, factor * 140.0]])
    assert lines(steps)["elsewhere"].tolist() == [[2.0, 10.0], [9.0, 20.0]]
    assert {"of another", "against another"}.isdisjoint(lines(steps))
    assert "elsewhere" not in lines(time)
    assert [text for text in texts(page) if "not drawn" in text] == [
        "of another: not drawn, as it is of no target here.",
        "against another: not drawn, as it is of no target here.",
    ]
    table = tables(page)[0]
    assert table.header[:3] == ["dim", "HMC: N_{LF} τ_{int}(x0)", "trained: N_{LF} τ_{int}(x0)"]
    assert [row[:3] for row in table.rows] == [["2", "60.0(4)", "9.0(3)"], ["5", "140.0(4)", "21.0(3)"]]
    assert page.answers[0].startswith("The trained sampler won: on Banana, dim = 5, an independent ")


def test_gains_are_those_of_the_best_in_steps_and_of_the_best_in_time(tmp_path):
    few = dataclasses.replace(hand_made.entry("few", "model", 1.0, steps=2), pace=(1.0,) * 4)
    quick = dataclasses.replace(hand_made.entry("quick", "model", 2.0), pace=(1e-4,) * 4)
    hmc = hand_made.entry("HMC, 4 steps", "hmc", 6.0)
    path = hand_made.comparison(tmp_path / "run", {"target": "Banana"}, [hmc, few, quick])
    assert cost_table(Family([ComparedRun.open(path)])).rows[0][-3:-1] == ["12(1)", "120(6)"]


def test_gauge_theory_has_its_own_figures(tmp_path):
    page = build_page([gauge(tmp_path / "b", (4, 4), 3.0), gauge(tmp_path / "a", (4, 4), 2.0)])
    assert page.answers[0].startswith(
        "The trained sampler won: on U(1) gauge theory, 4×4, β = 3, an independent charge "
    )
    assert "For comparison: HMC and 1 hit 32.0(8) ms, exact draws " in page.answers[0]
    found = pictures(page)
    assert list(found) == ["cost", "observables", "autocorrelation", "charge-history", "charge-distribution"]
    steps, time, _ = found["cost"].figure.axes
    assert steps.get_xlabel() == "β"
    # The frozen HMC has the larger limit.
    np.testing.assert_allclose(marks(steps)["HMC"], [[2.0, 160.0], [3.0, 240.0]])
    assert marks(time)["exact draws"][:, 0].tolist() == [2.0, 3.0]
    assert all(
        line.get_drawstyle() == "steps-mid" for axis in found["charge-history"].figure.axes for line in axis.lines
    )
    (axis,) = found["charge-distribution"].figure.axes
    bars = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in axis.patches}
    assert bars[0] == pytest.approx(float(characters.charge_distribution(1, 3.0, 16, [0])[0]))
    assert [found[:, 1].sum() for found in marks(axis).values()] == pytest.approx([1, 1])
    for axis in found["observables"].figure.axes:
        # One σ off, as was made by hand.
        assert {tuple(found[:, 1]) for found in marks(axis).values()} == {(1.0, 1.0)}


def test_a_single_comparison_has_a_row_for_each_sampler(tmp_path):
    page = build_page([gauge(tmp_path / "one", (4, 4), 3.0)])
    steps, *_ = pictures(page)["cost"].figure.axes
    # The cheapest first; what is drawn exactly takes no leapfrog steps.
    assert [label.get_text() for label in steps.get_yticklabels()] == [
        "exact draws",
        "mine",
        "HMC and 1 hit, 4 steps",
        "HMC, 4 steps",
        "HMC, 8 steps",
    ]
    np.testing.assert_allclose(marks(steps)["HMC"], [[4 * 60.0, 3], [8 * 900.0, 4]])
    assert spans(steps, "HMC")[1] == pytest.approx(0.8 * 8 * 900.0)  # the arrow
    assert legend(pictures(page)["cost"].figure) == ["HMC", "mine", "HMC and 1 hit", "exact draws"]
    assert len(tables(page)) == 3


def test_curves_from_elsewhere_are_marks_beside_a_single_comparison(tmp_path):
    """The paper's curves are for its own lattice."""
    runs = [gauge(tmp_path / "small", (4, 4), 2.0), gauge(tmp_path / "large", (16, 16), 2.0), own(tmp_path / "own")]
    page = build_page(runs, read_curves(PAPER))
    headings = [section.heading for section in page.sections]
    where = ["U(1) gauge theory, 4×4, β = 2", "U(1) gauge theory, 16×16, β = 2", "Banana, dim = 2"]
    assert headings[:3] == [f"Comparison on {place}" for place in where]
    assert [where[n] in answer for n, answer in enumerate(page.answers)] == [True] * 3
    small, large = (pictures(page)[name].figure.axes[0] for name in ("cost", "cost-2"))
    assert not [line for line in small.lines if line.get_marker() == "s" and len(line.get_xdata())]
    (grey,) = (line.get_xydata() for line in large.lines if line.get_marker() == "s")
    assert grey.tolist() == [[62.0, 5], [21.0, 6]]
    rows = [label.get_text() for label in large.get_yticklabels()]
    assert rows[5:] == ["HMC, paper's figure (digitised)", "trained, paper's figure (digitised)"]


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ({}, "is damaged or of another version of dlhmc: KeyError"),
        ({"beta": -2.0}, "beta is -2.0, but must be"),
    ],
)
def test_results_that_figures_cannot_be_made_of_are_refused(target, complaint, tmp_path):
    entries = [hand_made.entry("leapfrog 1/4", "hmc", 5.0)]
    path = hand_made.comparison(tmp_path / "run", {"target": "u1", "lattice": [4, 4]} | target, entries)
    with pytest.raises(UserError, match=complaint):
        build_page([path])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[curve]\n", "cannot be read"),
        ("[[curves]]\n", "curve"),
        ("[[curve]]\nname = 'a'\n", "missing required field"),
        ("[[curve]]\nname = 'a'\nagainst = 'b'\nx = [1.0]\ny = [1.0]\ndash = true\n", "unknown field `dash`"),
        ("[[curve]]\nname = 'a'\nagainst = 'b'\nx = [1.0]\ny = [1.0, 2.0]\n", "as many numbers x as y"),
        ("[[curve]]\nname = 'a'\nagainst = 'b'\nx = [1.0]\ny = [nan]\n", "all of them finite"),
    ],
)
def test_curves_that_make_no_sense_are_refused(text, complaint, tmp_path):
    file = tmp_path / "curves.toml"
    file.write_text(text)
    with pytest.raises(UserError, match=complaint):
        read_curves(file)
