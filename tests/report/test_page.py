"""The page as a file: whole, safe with any text, and without anything from elsewhere."""

import base64
import dataclasses
import hashlib
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import sample

from dlhmc.report.charts import Chart, Code, Film, HeatMap, Page, Panel, Section, Series, Table, Text
from dlhmc.report.contents import _drawable
from dlhmc.report.draw import draw
from dlhmc.report.page import data, numeric_columns, render, with_scripts

# What a browser would load by itself or on a click.
REFERENCES = {"src", "href", "srcset", "action", "formaction", "poster", "data", "background", "xlink:href"}


class Document(HTMLParser):
    """All elements, and the text inside of each script and style."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.enclosed = []
        self.words = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self.enclosed.append("")

    def handle_data(self, text):
        if self.cdata_elem:
            self.enclosed[-1] += text
        else:
            self.words.append(text)

    def all(self, tag, **attributes):
        return [found for name, found in self.elements if name == tag and attributes.items() <= dict(found).items()]


@pytest.fixture(scope="module")
def text():
    return render(sample.page())


@pytest.fixture(scope="module")
def document(text):
    return Document(text)


def figures(page):
    return [block for section in page.sections for block in section.blocks if isinstance(block, Chart | Film)]


def stored(document):
    """The figures' data as a script would read it."""
    style, *data, script = document.enclosed
    assert "--ground" in style
    assert "JSON.parse" in script
    return [json.loads(one) for one in data]


def test_hostile_texts_stay_text(text, document):
    for piece in ("<img src=x", "<svg onload", "</script><img", "alert(1)>"):
        assert piece not in text
    # These two end a line in JavaScript, and the others are how HTML begins.
    assert not re.search("[<>&\u2028\u2029]", "".join(document.enclosed[1:-1]))
    assert {tag for tag, _ in document.elements}.isdisjoint(
        {"iframe", "object", "embed", "link", "base", "form", "foreignobject"}
    )
    assert not [name for _, found in document.elements for name in found if name.startswith("on")]
    # One of each figure, the page's own, and nothing that a text has made.
    assert len(document.all("script")) == len(figures(sample.page())) + 1
    assert not document.all("img")
    # A reader sees it as it was.
    assert "".join(document.words).count(sample.HOSTILE) >= 12


@pytest.mark.parametrize("kind", [Page, Section, Chart, Film, Panel, Series, HeatMap, Table, Text, Code])
def test_every_field_with_text_is_attacked(kind):
    """The sample must keep up with the fields of charts."""
    found = []

    def visit(value):
        if isinstance(value, kind):
            fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
            found.append([sample.HOSTILE in field for field in fields if isinstance(field, str)])
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                visit(getattr(value, field.name))
        elif isinstance(value, list | tuple):
            for element in value:
                visit(element)

    visit(sample.page())
    assert found
    # Kind and marker are names from a list.
    most = max(sum(one) for one in found)
    assert most == len(found[0]) - (2 if kind is Series else 0)


def test_all_figures_are_there_and_drawn(document):
    names = [figure.name for figure in figures(sample.page())]
    assert [found["data-name"] for found in document.all("figure") if "data-name" in found] == names
    plots = [found for found in document.all("svg") if "data-box" in found]
    assert len(plots) == 2 + 3 + 4 + 2 + 1 + 1 + 2
    assert all(found["aria-label"] for found in plots)
    # Frames but the first one wait.
    frames = [found for _, found in document.elements if found.get("data-frame") == "1"]
    assert frames
    assert {found["display"] for found in frames} == {"none"}


def test_plots_have_no_style_of_their_own(document):
    """The policy forbids it, and a browser would complain."""
    assert not [found for _, found in document.elements if "style" in found]
    assert len(document.all("style")) == 1


def test_data_come_back(document):
    figures_of_page = figures(sample.page())
    for figure, found in zip(figures_of_page, stored(document), strict=True):
        assert found["name"] == figure.name
        assert found["caption"] == figure.caption
    costs = stored(document)[0]
    assert costs == json.loads(json.dumps(dataclasses.asdict(sample.costs())))
    (film,) = [found for found in stored(document) if found["name"] == "angles"]
    for frame, original in zip(film["frames"], sample.angles().frames, strict=True):
        for found, heat_map in zip(frame["maps"], original.maps, strict=True):
            np.testing.assert_allclose(found["values"], heat_map.values, rtol=1e-4)


def test_what_json_cannot_say():
    values = [1.5, math.nan, math.inf, None, np.float32(0.5), np.int64(3)]
    chart = Chart("", "", "", [Panel("", "", [Series("", np.arange(6), values, is_limit=np.arange(6) > 3)])])
    (panel,) = json.loads(data(chart))["panels"]
    assert panel["series"][0]["y"] == [1.5, None, None, None, 0.5, 3]
    assert panel["series"][0]["x"] == [0, 1, 2, 3, 4, 5]
    assert panel["series"][0]["is_limit"] == [False] * 4 + [True] * 2
    film = Film("", "", "", [frame_with(HeatMap("", [[math.nan, 0.1234567]]))])
    assert json.loads(data(film))["frames"][0]["maps"][0]["values"] == [[None, 0.12346]]


def frame_with(heat_map):
    return dataclasses.replace(sample.angles().frames[0], maps=[heat_map])


def test_nothing_comes_from_elsewhere(document):
    for _, attributes in document.elements:
        for name in REFERENCES & attributes.keys():
            assert attributes[name].startswith(("#", "data:image/png;base64,"))
    style, script = document.enclosed[0], document.enclosed[-1]
    assert not re.search(r"url\(|@import", style)
    assert not re.search(r"https?://", script)
    assert not re.search(r"fetch\(|XMLHttpRequest|WebSocket|import\(|innerHTML|insertAdjacentHTML|\beval\b", script)


def test_the_policy_allows_only_the_pages_own_script_and_style(document):
    (meta,) = document.all("meta", **{"http-equiv": "Content-Security-Policy"})
    policy = dict(part.strip().split(" ", 1) for part in meta["content"].split(";"))

    def hashed(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert policy == {
        "default-src": "'none'",
        "script-src": hashed(document.enclosed[-1]),
        "style-src": hashed(document.enclosed[0]),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_links_lead_to_sections(document):
    targets = {found["id"] for _, found in document.elements if "id" in found}
    links = [found["href"] for found in document.all("a")]
    assert len(links) == 1 + len(sample.page().sections)
    assert {link.removeprefix("#") for link in links} <= targets
    identifiers = [found["id"] for _, found in document.elements if "id" in found]
    assert len(set(identifiers)) == len(identifiers)
    for _, found in document.elements:
        assert found.get("aria-labelledby", "content") in targets


def test_tables_say_what_heads_a_row_and_what_a_column(document):
    tables = [block for section in sample.page().sections for block in section.blocks if isinstance(block, Table)]
    assert len(document.all("caption")) == len(tables)
    assert len(document.all("th", scope="col")) == sum(len(table.header) for table in tables)
    assert len(document.all("th", scope="row")) == sum(len(table.rows) for table in tables)


def test_columns_of_numbers():
    rows = [["a", "1.5", "> 3", "12(3)", "—", "x 1", ""], ["b", "−2", "", "0.1", "—", "2", ""]]
    numeric = numeric_columns(Table("", [""] * 7, rows))
    assert numeric == [False, True, True, True, False, False, False]
    assert numeric_columns(Table("", ["a", "b"], [])) == [False, False]


def test_scripts_of_labels():
    assert with_scripts("τ_{int} ∝ L^{z}, x_1") == "τ<sub>int</sub> ∝ L<sup>z</sup>, x_1"
    assert with_scripts("<b>_{<i>}&") == "&lt;b&gt;<sub>&lt;i&gt;</sub>&amp;"
    assert with_scripts("at 95 % of 3 runs") == "at 95\u00a0% of 3 runs"


def test_nothing_to_report():
    empty = Page("", "", "", [Section("", [Film("f", "", "", []), Chart("c", "", "", []), Table("", [], [])])])
    assert [found["name"] for found in stored(Document(render(empty)))] == ["f", "c"]
    assert "<main" in render(Page("", "", "", []))


def test_a_short_row_is_no_error():
    table = Table("", ["a", "b"], [["only"], ["one", "two", "three"]])
    assert "three" in render(Page("", "", "", [Section("", [table])]))


@pytest.mark.parametrize("name", ["x_{_}", r"a_{\foo}", "Q^{^}", "5 $ and _{", "N_{LF}"])
def test_names_of_ones_own_can_be_drawn(name):
    panel = Panel(name, name, [Series(name, [0, 1], [0.0, 1.0], "line", "#000000")] * 2)
    draw(Chart("chart", name, "", [panel])).canvas.draw()


def test_charts_have_names_that_files_can_have_and_something_to_show():
    panel = Panel("x", "y", [Series("s", [0, 1], [0.0, 1.0], "line", "#000000")])
    names = ["/../../escaped", "a\0b", "same", "same", "x" * 300, "..."]
    charts = [Chart(name, "title", "", [panel]) for name in names]
    (section,) = _drawable([Section("heading", [*charts, Chart("empty", "Nothing", "", [])])])
    found = [block.name for block in section.blocks[:-1]]
    assert found == ["escaped", "a-b", "same", "same-2", "x" * 100, "chart"]
    assert section.blocks[-1] == Text("Nothing: there is nothing to draw yet.")
