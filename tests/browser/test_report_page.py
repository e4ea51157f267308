"""The report's page in Chromium: `make test-browser` runs these, `make test` does not (see tests/conftest.py)."""

import os
import re

import pytest
import sample
from playwright.sync_api import expect, sync_playwright

from dlhmc.report.page import render

OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
FIGURES, PLOTS = 7, 2 + 3 + 4 + 2 + 1 + 1 + 2
expect.set_options(timeout=3000)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["DLHMC_CHROMIUM"], args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(render(sample.page()), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def visit(browser, address):
    """Opens the page; at the end nothing was complained about, nothing ran that should not, nothing came from afar."""
    complaints, requests, contexts = [], [], []

    def visit(width=1200, **settings):
        context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append("dialog"), dialog.dismiss()))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if url != address and not url.startswith("data:")] == []


@pytest.fixture
def page(visit):
    return visit()


def figure(page, name):
    return page.locator(f'figure[data-name="{name}"]')


def center(locator):
    locator.scroll_into_view_if_needed()
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_every_figure_is_alive_and_has_a_size(page):
    figures = page.locator("figure.chart, figure.film")
    assert figures.count() == FIGURES
    for number in range(FIGURES):
        box = figures.nth(number).bounding_box()
        assert box["width"] > 300
        assert box["height"] > 200
    expect(page.locator("figure.live")).to_have_count(FIGURES)
    plots = page.locator(".plot > svg:visible")
    assert plots.count() == PLOTS
    for number in range(PLOTS):
        assert plots.nth(number).bounding_box()["height"] > 150


def test_drawn_numbers_are_finite(page):
    for path in page.locator(".plot path[d]").all():
        assert "NaN" not in path.get_attribute("d")
        assert "Infinity" not in path.get_attribute("d")


def test_labels_have_scripts_and_plots_a_name(page):
    panel = figure(page, "costs").locator(".panel").first
    expect(panel.locator(".y-label sub")).to_have_text("int")
    expect(panel.get_by_role("img")).to_have_attribute(
        "aria-label",
        re.compile(
            r"^τ_int\(Q\) in trajectories, 1\.\d+ to .*, against β, 1.75 to 7.25. Shown: HMC, DLHMC, DLHMC, fit, "
        ),
    )


def test_every_kind_is_drawn(page):
    def drawn(name, series):
        return figure(page, name).locator(f'.plot [data-series="{series}"]')

    # Points, a line through them, error bars and arrows; a band; dashes; bars; a line that a gap divides.
    hmc = drawn("costs", 0)
    assert hmc.locator("use").count() >= 6
    assert hmc.locator("path").evaluate_all("all => all.some(path => path.getTotalLength() > 100)")
    assert drawn("costs", 2).locator("use").first.get_attribute("fill") == "#0072b2"
    assert "stroke-dasharray" in drawn("costs", 3).first.inner_html()
    assert figure(page, "histories").locator('.panel >> nth=1 >> [data-series="0"]').count() == 13
    assert drawn("histories", 2).locator("path").get_attribute("d").count("M") == 2


def test_ticks_are_written_as_in_papers(page):
    times = figure(page, "costs").locator(".panel").first
    assert times.locator("svg text").all_text_contents() == ["2", "3", "4", "5", "6", "7", "10", "100", "1000", "10⁴"]


def test_a_legend_hides_a_series_in_all_panels(page):
    costs = figure(page, "costs")
    shown = costs.locator('.plot [data-series="1"] use')
    expect(shown.locator("visible=true")).to_have_count(6 + 4)
    button = costs.get_by_role("button", name="DLHMC", exact=True)
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(shown.locator("visible=true")).to_have_count(0)
    expect(costs.locator('.plot [data-series="0"] use').locator("visible=true").first).to_be_visible()
    expect(figure(page, "histories").locator('.plot [data-series="0"] path').first).to_be_visible()
    button.press("Enter")
    expect(shown.locator("visible=true")).to_have_count(6 + 4)


def test_black_is_the_colour_of_text(visit):
    colours = {}
    for scheme in ("light", "dark"):
        page = visit(color_scheme=scheme)
        line = figure(page, "training").locator('.plot [data-series="0"] path').first
        colours[scheme] = [
            page.evaluate("getComputedStyle(document.body).backgroundColor"),
            line.evaluate("element => getComputedStyle(element).stroke"),
        ]
        assert colours[scheme][1] == page.evaluate("getComputedStyle(document.body).color")
    light, dark = [[sum(map(int, colour[4:-1].split(","))) for colour in pair] for pair in colours.values()]
    assert light[0] > 700 > 120 > light[1]
    assert dark[0] < 120 < 600 < dark[1]


def test_pointing_reads_values(page):
    panel = figure(page, "costs").locator(".panel").first
    readout = panel.locator(".readout")
    expect(readout).to_have_attribute("aria-live", "polite")
    expect(readout).to_have_text("")
    panel.scroll_into_view_if_needed()
    marks = panel.locator('.plot [data-series="0"] use')
    boxes = [mark.bounding_box() for mark in marks.all()]
    first, last = min(boxes, key=lambda box: box["x"]), max(boxes, key=lambda box: (box["x"], box["y"]))
    page.mouse.move(first["x"] + 3, first["y"] + 3)
    expect(readout).to_have_text("HMC β: 2; τint(Q) in trajectories: 3.1 ± 0.2 — leapfrog 2/40")
    page.mouse.move(last["x"] + 3, last["y"] + 3)
    expect(readout).to_have_text("HMC β: 7; τint(Q) in trajectories: > 9000 — leapfrog 7/40")
    expect(panel.locator(".cursor")).to_have_count(1)
    page.mouse.move(2, 2)
    expect(readout).to_have_text("")


def test_keys_read_values(page):
    panel = figure(page, "costs").locator(".panel").first
    readout = panel.locator(".readout")
    figure(page, "costs").get_by_role("button", name="as good").focus()
    page.keyboard.press("Tab")
    expect(panel.locator(".plot")).to_be_focused()
    expect(readout).to_contain_text("HMC β: 2;")
    page.keyboard.press("ArrowRight")
    expect(readout).to_contain_text("HMC β: 3; τint(Q) in trajectories: 9.8 ± 0.6")
    page.keyboard.press("ArrowDown")
    expect(readout).to_contain_text("DLHMC β: 3;")
    page.keyboard.press("End")
    expect(readout).to_contain_text("DLHMC β: 7;")
    page.keyboard.press("ArrowRight")
    expect(readout).to_contain_text("DLHMC β: 7;")
    page.keyboard.press("Escape")
    expect(readout).to_have_text("")


def test_a_slider_moves_maps(page):
    film = figure(page, "angles")
    slider = film.get_by_role("slider", name="Frame")

    def shown():
        visible = film.locator("image[data-frame]").locator("visible=true")
        assert visible.count() == 2
        return visible.nth(1).get_attribute("href")

    first = shown()
    expect(film.locator("output")).to_have_text("layer 0 of 5")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(film.locator("output")).to_have_text("layer 1 of 5")
    expect(slider).to_have_attribute("aria-valuetext", "layer 1 of 5")
    second = shown()
    assert second != first
    film.get_by_role("button", name="Previous").click()
    assert shown() == first
    film.get_by_role("button", name="Previous").click()
    expect(film.locator("output")).to_have_text("layer 0 of 5")
    film.get_by_role("button", name="Next").click()
    assert shown() == second
    assert film.locator(".panel").first.locator("svg text").all_text_contents() == ["−π", "0", "π"]


def test_a_map_shows_the_lattice_from_below(page):
    film = page.locator("figure.film").last
    panel = film.locator(".panel").last
    panel.locator(".plot").focus()
    page.keyboard.press("ArrowUp")
    expect(panel.locator(".readout")).to_have_text("column: 0; row: 1 — 1")
    page.keyboard.press("ArrowRight")
    expect(panel.locator(".readout")).to_have_text("column: 1; row: 1 — 3")
    panel.locator(".readout").scroll_into_view_if_needed()
    box = panel.locator("image").first.bounding_box()
    page.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + 0.75 * box["height"])
    expect(panel.locator(".readout")).to_have_text("column: 1; row: 0 — 2")


def test_frames_share_their_axes(page):
    film = figure(page, "training")

    def path(series):
        return film.locator(f'.plot [data-series="{series}"] path').locator("visible=true")

    target, proposal = path(0).get_attribute("d"), path(1).get_attribute("d")
    assert "4.0" in film.locator("svg text").all_text_contents()  # there is room for the last frame, the highest
    film.get_by_role("button", name="proposal").click()
    film.get_by_role("slider").fill("3")
    expect(film.locator("output")).to_have_text("step 300")
    assert path(0).get_attribute("d") == target
    # What is hidden stays hidden.
    expect(path(1)).to_have_count(0)
    film.get_by_role("button", name="proposal").click()
    assert path(1).get_attribute("d") != proposal


def test_the_contents_stay_in_view_on_a_wide_screen(visit):
    page = visit(1400)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_role("navigation").get_by_role("link", name="Cost")).to_be_in_viewport()


def test_a_film_plays_to_its_end(visit):
    page = visit()
    film = figure(page, "training")
    film.get_by_role("button", name="Play").click()
    expect(film.get_by_role("button", name="Pause")).to_be_visible()
    expect(film.locator("output")).to_have_text("step 300", timeout=8000)
    expect(film.get_by_role("button", name="Play")).to_be_visible()


def test_no_film_plays_for_who_wants_no_motion(visit):
    film = figure(visit(reduced_motion="reduce"), "training")
    expect(film.get_by_role("button", name="Play")).to_have_count(0)
    film.get_by_role("button", name="Next").click()
    expect(film.locator("output")).to_have_text("step 100")


def test_data_as_table(page):
    costs = figure(page, "costs")
    costs.get_by_text("Data as table").click()
    tables = costs.get_by_role("table")
    expect(tables).to_have_count(2)
    row = tables.first.get_by_role("row").nth(5)
    assert row.locator("th, td").all_text_contents() == ["HMC", "6", "> 2100", "", "", "leapfrog 6/40"]
    film = figure(page, "training")
    film.get_by_text("Data as table").click()
    before = film.get_by_role("table").text_content()
    film.get_by_role("button", name="Next").click()
    assert film.get_by_role("table").text_content() != before


def test_code_can_be_copied(visit):
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "[target]\nlattice = [16, 16]\nbeta = 6.0\n"


def test_links_go_to_sections(page):
    page.get_by_role("navigation").get_by_role("link", name="Training").click()
    expect(page.get_by_role("heading", name="Training", exact=True)).to_be_in_viewport()


@pytest.mark.parametrize("width", [320, 380, 800])
def test_only_tables_scroll_sideways(visit, width):
    page = visit(width)
    for summary in page.locator("details summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    table = page.locator("div.table").first
    if width < 400:
        assert table.evaluate("element => element.scrollWidth > element.clientWidth")
        plots = figure(page, "costs").locator(".plot")
        assert plots.nth(0).bounding_box()["x"] == plots.nth(1).bounding_box()["x"]


def test_plots_follow_the_width_of_the_window(page):
    plot = figure(page, "costs").locator(".plot > svg").first
    before = plot.bounding_box()["width"]
    page.set_viewport_size({"width": 400, "height": 900})
    page.wait_for_function("width => document.querySelector('.plot > svg').clientWidth !== width", arg=before)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_plots_without_javascript(visit):
    page = visit(java_script_enabled=False)
    expect(page.locator(".plot > svg:visible")).to_have_count(PLOTS)
    expect(figure(page, "angles").locator("image[data-frame]").locator("visible=true")).to_have_count(2)
    expect(page.locator(".film-controls:visible, details:visible")).to_have_count(0)


def test_paper_shows_plots(page):
    page.emulate_media(media="print", color_scheme="dark")
    expect(page.locator(".plot > svg:visible")).to_have_count(PLOTS)
    expect(page.locator(".film-controls:visible, details:visible, nav:visible")).to_have_count(0)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_hostile_texts_are_shown_as_they_are(page):
    hostile = page.locator("figure.film").last
    hostile.locator(".panel .plot").first.focus()
    page.keyboard.press("ArrowRight")
    attack = "</script><img src=x onerror=alert(1)>"
    for place in ("h3", ".y-label", ".panel .x-label", ".legend span", "output", ".panel h4", ".panel .readout"):
        expect(hostile.locator(place).first).to_contain_text(attack)
    hostile.locator("details summary").click()
    expect(hostile.locator("thead th").nth(1)).to_contain_text(attack)
    expect(hostile.locator("tbody td").nth(2)).to_contain_text(attack)
    expect(page.locator("img")).to_have_count(0)
