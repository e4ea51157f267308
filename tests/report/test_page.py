"""The page as a file: whole, safe with any text, and without anything from elsewhere."""

import re
from html.parser import HTMLParser

import pytest
from drawn import legend

from dlhmc.report.command import _named_apart
from dlhmc.report.page import Code, Page, Picture, Section, Table, render, save
from dlhmc.report.plots import add_legend, draw_histories, mark, mathtext, panels
from dlhmc.statistics.quantity import Quantity

HOSTILE = "<img src=x onerror=alert(1)></script><svg onload=alert(1)>&amp;\"'--> $a_{b^{c}}$ _{x} \\frac{"
# What a browser would load by itself or on a click.
REFERENCES = {"src", "href", "srcset", "action", "formaction", "poster", "data", "background", "xlink:href"}


class Document(HTMLParser):
    """All elements, and the words between them."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, text):
        self.words.append(text)


def picture(name="costs", label="HMC", title="Costs"):
    figure, (axis,) = panels(1, 1, 4.0, 3.0)
    mark(axis, [(1.0, Quantity(2.0, 0.1)), (2.0, Quantity(lower=3.0))], label=mathtext(label))
    axis.plot([1.0, 2.0], [2.0, 2.0], label=mathtext(f"exact {label}"))
    axis.set_xlabel(mathtext(label))
    add_legend(figure)
    return Picture(name, title, f"caption of {title}", figure)


def page(text):
    table = Table(text, ["N_{LF} τ", text], [["first", text], ["second", "2.0(1)"]], marked=[1])
    section = Section(text, [picture(text, text, text), table, Code(text, text), text])
    return Page(text, [text], [section, Section("again", [picture("other")])])


@pytest.fixture(scope="module")
def document():
    return Document(render(page(HOSTILE)))


def test_hostile_texts_stay_text(document):
    tags = {tag for tag, _ in document.elements}
    assert tags.isdisjoint({"script", "img", "iframe", "object", "embed", "link", "base", "form", "foreignobject"})
    assert not [name for _, found in document.elements for name in found if name.startswith("on")]
    # A reader sees it as it was, but for scripts.
    seen = "".join(document.words)
    assert seen.count(HOSTILE.replace("_{x}", "x").replace("^{c}", "c")) >= 9


def test_nothing_comes_from_elsewhere(document):
    for _, found in document.elements:
        for name in REFERENCES & found.keys():
            assert found[name].startswith(("#", "data:image/png")), found[name]
    (policy,) = (found["content"] for _, found in document.elements if found.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "script" not in policy


def test_names_within_the_page_are_unique(document):
    names = [found["id"] for tag, found in document.elements if tag in ("section", "h2", "svg", "g") and "id" in found]
    assert len(names) == len(set(names))
    targets = {found["href"][1:] for tag, found in document.elements if tag == "a"}
    assert targets
    assert targets <= set(names)


def test_figures_and_tables_say_what_they_are(document):
    regions = [found for _, found in document.elements if found.get("role") in ("img", "region")]
    assert len(regions) == 3
    assert all(found["aria-label"] for found in regions)
    assert sum(tag == "svg" for tag, _ in document.elements) == 2
    assert [found["class"] for tag, found in document.elements if tag == "tr" and "class" in found] == ["marked"]


def test_scripts_become_elements():
    text = render(Page("τ_{int} and x^{2}", [], []))
    assert "<h1>τ<sub>int</sub> and x<sup>2</sup></h1>" in text
    assert "<title>τ_int and x^2</title>" in text


@pytest.mark.parametrize(
    "label", [HOSTILE, "$", "a$b$c", "x_{a_b}", "_{}", "^{", "\\", "_{a}_{b}", "$_{x}", "⟨Q_{ℤ}^{2}⟩"]
)
def test_any_name_can_be_drawn(label, tmp_path):
    found = picture(label="one " + label)
    assert save(found.figure, "any", tmp_path).stat().st_size > 0


def test_the_same_numbers_give_the_same_files(tmp_path):
    for folder in ("a", "b"):
        save(picture().figure, "costs", tmp_path / folder)
    first, second = ((tmp_path / folder / "costs.svg").read_bytes() for folder in ("a", "b"))
    assert first == second


def test_pictures_have_names_that_files_can_have_and_no_two_the_same():
    names = ["a/../b", "cost", "cost", "../cost", "x" * 300]
    (section,) = _named_apart([Section("", [*map(picture, names), "text"])])
    *found, text = section.blocks
    assert [one.name for one in found] == ["a-b", "cost", "cost-2", "-cost", "x" * 100]
    assert text == "text"


def test_limits_are_arrows_and_what_is_unknown_is_left_out():
    figure, (axis,) = panels(1, 1, 4.0, 3.0)
    mark(axis, [(1.0, Quantity(2.0, 0.5)), (2.0, Quantity()), (3.0, Quantity(lower=10.0))], in_rows=True)
    (container,) = axis.containers
    data, caps, (bars,) = container.lines
    assert data.get_xydata().tolist() == [[2.0, 1.0], [10.0, 3.0]]
    assert [[float(x) for x, _ in segment] for segment in bars.get_segments()] == [[1.5, 2.5], [10.0, 18.0]]
    assert any(">" in str(cap.get_marker()) or cap.get_marker() == 9 for cap in caps)
    assert not legend(figure)


def test_a_chain_in_whole_numbers_has_steps():
    figure = draw_histories({"one": [0, 1, 1], "two": [0.5, 1.0, 1.0]}, "Q_{ℤ}")
    styles = [line.get_drawstyle() for axis in figure.axes for line in axis.lines]
    assert styles == ["steps-mid", "default"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert not re.search(r"[{}]", figure.axes[0].get_ylabel().replace("$_{\\mathregular{ℤ}}$", ""))
