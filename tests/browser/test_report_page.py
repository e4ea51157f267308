"""The report's page in Chromium: `make test-browser` runs these, `make test` does not (see tests/conftest.py)."""

import os

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
FIGURES = len(sample.pictures())
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
    file.write_text(render(sample.page(), sample.pictures()), encoding="utf-8")
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


def tick_labels(panel):
    return panel.locator(".axes text").all_text_contents()


def test_every_figure_is_alive_and_has_a_size(page):
    figures = page.locator("figure.chart, figure.film")
    assert figures.count() == FIGURES
    for number in range(FIGURES):
        box = figures.nth(number).bounding_box()
        assert box["width"] > 300
        assert box["height"] > 200
    expect(page.locator("figure.live")).to_have_count(FIGURES)
    plots = page.locator(".plot > svg:visible, .plot > canvas:visible")
    assert plots.count() == 2 + 3 + 4 + 2 + 1 + 1 + 2
    for number in range(plots.count()):
        assert plots.nth(number).bounding_box()["height"] > 150
    expect(page.locator("img.picture:visible")).to_have_count(0)


def test_drawn_numbers_are_finite(page):
    for path in page.locator(".plot path").all():
        assert "NaN" not in path.get_attribute("d")
        assert "Infinity" not in path.get_attribute("d")


def test_labels_have_scripts_and_plots_a_name(page):
    panel = figure(page, "costs").locator(".panel").first
    expect(panel.locator(".y-label sub")).to_have_text("int")
    expect(panel.get_by_role("img")).to_have_attribute(
        "aria-label",
        "Autocorrelation time: τ_int(Q) in trajectories, 1.02 to 52\u202f200, against β, 1.85 to 7.15. "
        "Shown: HMC, DLHMC, DLHMC, fit, ∝ exp(1.7 β).",
    )


def test_every_kind_is_drawn(page):
    costs = figure(page, "costs").locator('.panel >> nth=0 >> [data-series="HMC"]')
    # Four points have error bars, each with two caps; two are limits, with arrows.
    assert costs.locator(".error").get_attribute("d").count("h6") == 8
    assert costs.locator(".error").get_attribute("d").count("v-22") == 2
    assert costs.locator(".mark").get_attribute("d").count("z") == 6
    assert costs.locator(".stroke").get_attribute("d").count("L") == 5
    assert figure(page, "costs").locator(".series .band").get_attribute("d").count("L") == 11
    assert figure(page, "costs").locator('[data-series="as good"] [stroke-dasharray]').count() == 1
    bars = figure(page, "histories").locator('[data-series="DLHMC"] .bar')
    assert bars.get_attribute("d").count("z") == 13
    # The gap of the loss divides its line.
    assert figure(page, "histories").locator('[data-series="training"] path').get_attribute("d").count("M") == 2


def test_axes_have_sensible_ticks(page):
    times, gains = figure(page, "costs").locator(".panel").all()
    assert tick_labels(times) == ["10", "100", "1000", "10\u202f000", "2", "3", "4", "5", "6", "7"]
    assert tick_labels(gains) == ["0.5", "1", "2", "5", "10", "20", "50", "100", "0.01", "0.1", "1", "10"]
    counts = figure(page, "histories").locator(".panel").nth(1)
    assert tick_labels(counts)[:3] == ["0", "0.5×106", "1.0×106"]
    expect(counts.locator(".axes tspan").first).to_have_text("6")


def test_a_legend_hides_a_series_in_all_panels(page):
    costs = figure(page, "costs")
    series = costs.locator('[data-series="DLHMC"]')
    expect(series).to_have_count(2)
    button = costs.get_by_role("button", name="DLHMC", exact=True)
    expect(button).to_have_attribute("aria-pressed", "true")
    before = tick_labels(costs)
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(series).to_have_count(0)
    expect(costs.locator('[data-series="HMC"]')).to_have_count(1)
    assert tick_labels(costs) == before
    expect(figure(page, "histories").locator('[data-series="DLHMC"]')).to_have_count(2)
    button.press("Enter")
    expect(series).to_have_count(2)


def test_black_is_the_colour_of_text(visit):
    colours = {}
    for scheme in ("light", "dark"):
        page = visit(color_scheme=scheme)
        line = figure(page, "training").locator('[data-series="target"]')
        colours[scheme] = [
            page.evaluate("getComputedStyle(document.body).backgroundColor"),
            line.evaluate("element => getComputedStyle(element).color"),
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
    marks = panel.locator('[data-series="HMC"] .mark')
    marks.scroll_into_view_if_needed()
    box = marks.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + box["height"] - 5)
    expect(readout).to_have_text("HMC β: 2; τint(Q) in trajectories: 3.1 ± 0.2 — leapfrog 2/40")
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + 4)
    expect(readout).to_have_text("HMC β: 7; τint(Q) in trajectories: > 9000 — leapfrog 7/40")
    expect(panel.locator(".cursor")).to_have_count(1)
    page.mouse.move(2, 2)
    expect(readout).to_have_text("")


def test_keys_read_values(page):
    panel = figure(page, "costs").locator(".panel").first
    readout = panel.locator(".readout")
    panel.get_by_role("button", name="Reset zoom").focus()
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


def test_dragging_zooms_and_reset_comes_back(page):
    panel = figure(page, "costs").locator(".panel").first
    before = tick_labels(panel)
    x, y = center(panel.locator(".plot"))
    page.mouse.move(x - 60, y - 50)
    page.mouse.down()
    page.mouse.move(x + 60, y + 50, steps=3)
    expect(panel.locator(".selection")).to_have_count(1)
    page.mouse.up()
    expect(panel.locator(".selection")).to_have_count(0)
    assert tick_labels(panel) != before
    assert "2" not in tick_labels(panel)[-3:]
    panel.get_by_role("button", name="Reset zoom").click()
    assert tick_labels(panel) == before


def test_zoom_by_buttons_and_keys(page):
    panel = figure(page, "training").locator(".panel")
    full = tick_labels(panel)
    panel.get_by_role("button", name="Zoom in").press("Enter")
    near = tick_labels(panel)
    assert near != full
    panel.get_by_role("button", name="Zoom out").press("Enter")
    assert tick_labels(panel) == full
    panel.get_by_role("button", name="Zoom out").press("Enter")
    assert tick_labels(panel) == full
    plot = panel.locator(".plot")
    plot.focus()
    page.keyboard.press("Escape")
    page.keyboard.press("+")
    assert tick_labels(panel) == near
    page.keyboard.press("Shift+ArrowRight")
    assert tick_labels(panel) != near
    page.keyboard.press("0")
    assert tick_labels(panel) == full


def test_a_slider_moves_maps(page):
    film = figure(page, "angles")
    slider = film.get_by_role("slider", name="Frame")
    canvas = film.locator("canvas[role=img]").nth(1)

    def shown():
        return canvas.evaluate("element => element.toDataURL()"), film.locator(".summary").nth(1).text_content()

    first = shown()
    expect(film.locator("output")).to_have_text("layer 0 of 5")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(film.locator("output")).to_have_text("layer 1 of 5")
    expect(slider).to_have_attribute("aria-valuetext", "layer 1 of 5")
    second = shown()
    assert second[0] != first[0]
    assert second[1] != first[1]
    film.get_by_role("button", name="Previous").click()
    assert shown() == first
    film.get_by_role("button", name="Previous").click()
    expect(film.locator("output")).to_have_text("layer 0 of 5")
    film.get_by_role("button", name="Next").click()
    assert shown() == second
    assert film.locator(".marks span").all_text_contents() == ["−π", "0", "π"]


def test_a_map_shows_the_lattice_from_below(page):
    """Values at corners, by the colours there and by keys."""
    film = page.locator("figure.film").last
    canvas = film.locator("canvas[role=img]")
    colours = canvas.evaluate(
        """element => {
            const {width, height} = element;
            const {data} = element.getContext("2d").getImageData(0, 0, width, height);
            const at = (x, y) => 4 * (Math.floor(y * height) * width + Math.floor(x * width));
            return [at(0.25, 0.75), at(0.25, 0.25), at(0.75, 0.75), at(0.75, 0.25)].map(i => [...data.slice(i, i + 3)]);
        }"""
    )
    assert len(set(map(tuple, colours))) == 4
    assert colours[0] == [0xE2, 0xD9, 0xE2]  # an angle of zero
    film.locator(".map .plot").focus()
    page.keyboard.press("ArrowUp")
    expect(film.locator(".map .readout")).to_have_text("column 0, row 1: 1")
    page.keyboard.press("ArrowRight")
    expect(film.locator(".map .readout")).to_have_text("column 1, row 1: 3")
    x, y = center(canvas)
    page.mouse.move(x + 20, y + 20)
    expect(film.locator(".map .readout")).to_have_text("column 1, row 0: 2")


def test_frames_share_their_axes(page):
    film = figure(page, "training")
    before = tick_labels(film), film.locator('[data-series="target"] path').get_attribute("d")
    proposal = film.locator('[data-series="proposal"] path').get_attribute("d")
    assert "4" in before[0]  # there is room for the last frame, the highest
    film.get_by_role("button", name="proposal").click()
    film.get_by_role("slider").fill("3")
    expect(film.locator("output")).to_have_text("step 300")
    assert (tick_labels(film), film.locator('[data-series="target"] path').get_attribute("d")) == before
    # What is hidden stays hidden.
    expect(film.locator('[data-series="proposal"]')).to_have_count(0)
    film.get_by_role("button", name="proposal").click()
    assert film.locator('[data-series="proposal"] path').get_attribute("d") != proposal


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
    assert row.locator("th, td").all_text_contents() == ["HMC", "6", "> 2100", "–", "", "leapfrog 6/40"]
    film = figure(page, "training")
    film.get_by_text("Data as table").click()
    before = film.get_by_role("table").text_content()
    film.get_by_role("button", name="Next").click()
    assert film.get_by_role("table").text_content() != before


def test_the_picture_can_be_had(page):
    link = figure(page, "costs").get_by_role("link", name="Picture (PNG)")
    with page.expect_download() as download:
        link.click()
    assert download.value.suggested_filename == "costs.png"
    assert download.value.path().read_bytes() == sample.pictures()["costs"]


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
    page.set_viewport_size({"width": 600, "height": 900})
    expect(plot).not_to_have_attribute("width", str(round(before)))
    assert page.evaluate("document.documentElement.scrollWidth") <= 600


def test_pictures_without_javascript(visit):
    page = visit(java_script_enabled=False)
    expect(page.locator("img.picture:visible")).to_have_count(FIGURES)
    for picture in page.locator("img.picture").all():
        assert picture.bounding_box()["width"] >= 60
    expect(page.locator(".interactive")).to_have_count(0)


def test_paper_shows_pictures(page):
    page.emulate_media(media="print", color_scheme="dark")
    expect(page.locator("img.picture:visible")).to_have_count(FIGURES)
    expect(page.locator(".interactive:visible")).to_have_count(0)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_hostile_texts_are_shown_as_they_are(page):
    hostile = page.locator("figure.film").last
    hostile.locator(".panel .plot").focus()
    page.keyboard.press("ArrowRight")
    attack = "</script><img src=x onerror=alert(1)>"
    for place in ("h3", ".y-label", ".panel .x-label", ".legend span", "output", ".map h4", ".panel .readout"):
        expect(hostile.locator(place).first).to_contain_text(attack)
    hostile.locator("details summary").click()
    expect(hostile.locator("thead th").nth(1)).to_contain_text(attack)
    expect(hostile.locator("tbody td").nth(2)).to_contain_text(attack)
    expect(page.locator("img:not(.picture)")).to_have_count(0)
