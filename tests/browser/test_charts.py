"""Every chart in a real browser: drawn within the content policy in both themes, walked by keys,
taken away as a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from inspector.charts import CHARTS
from tests.browsing import inaccessible, open_in
from tests.pages import make_world
from tests.worlds.factories import make_experiment, make_learning_run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAPERS = "?published=skillevolbench&published=skillflow&published=skilllearnbench&published=skillgenbench"
DRAWN = "figure.chart[data-drawn]"
# What stands in a figure besides its frame: points, bars, cells.
MARKS = ".main-svg .point, .main-svg .points path, .main-svg .hm image, .main-svg .js-line"


@pytest.fixture
def base(live_server: object) -> str:
    make_world()
    return live_server.url  # type: ignore[attr-defined]


def chart_is_shown(page: Page, theme: str) -> bool:
    """Waits until the chart is drawn in this theme; False where the page says in words that there is none."""
    if page.locator("p.chart-absent").count():
        assert len(page.locator("p.chart-absent").first.inner_text()) > 20
        return False
    if not is_plotted(page):
        assert page.locator(".chart-html :is(.bar, .heat td)").count() > 0
        return True
    expect(page.locator(f"figure.chart[data-drawn={theme}]")).to_be_visible(timeout=20_000)
    assert page.locator(MARKS).count() > 0
    return True


def is_plotted(page: Page) -> bool:
    """By plotly, in the browser; else the server drew it."""
    return page.locator(".chart-plot").count() > 0


# What the papers published is drawn in light by the walk below.
@pytest.mark.parametrize(
    ("query", "theme"),
    [
        ("", "dark"),
        pytest.param("", "light", marks=pytest.mark.full),
        pytest.param(PAPERS, "dark", marks=pytest.mark.full),
    ],
)
def test_it_draws_every_chart_within_the_policy(base: str, context: BrowserContext, theme: str, query: str) -> None:
    page, errors = open_in(context, base, theme)
    shown = []
    for key in CHARTS:
        page.goto(f"{base}/compare/charts/{key}/{query}")
        if chart_is_shown(page, theme):
            shown.append(key)
        assert page.evaluate("window.violations") == [], key
        assert errors == [], key
    assert len(shown) >= len(CHARTS) / 2


def test_it_walks_exports_and_explains_every_chart(base: str, context: BrowserContext) -> None:
    page, errors = open_in(context, base, "light")
    for key in CHARTS:  # in one world: making one for each would take longer than all the walks
        page.goto(f"{base}/compare/charts/{key}/{PAPERS}")
        if chart_is_shown(page, "light"):  # where nothing can be drawn, the page that says so is held to the rest
            if is_plotted(page):
                walk(page)
            take_away(page)
        assert not inaccessible(page), key
        assert page.evaluate("window.violations") == [], key
        assert errors == [], key


def walk(page: Page) -> None:
    """Each arrow reaches another point or stays at the end, and every point says something."""
    page.locator(".chart-plot").focus()
    said = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "End", "Home"):
        page.keyboard.press(key)
        page.wait_for_timeout(120)  # plotly lets hovers settle
        said.append(page.locator(".chart-say").inner_text())
    assert all(said)
    assert said[0] == said[-1]
    assert len(set(said)) > 1 or page.evaluate("document.querySelectorAll('.main-svg .point').length") <= 1


def take_away(page: Page) -> None:
    for name, magic in (("PNG", b"\x89PNG\r\n\x1a\n"), ("SVG", b"<svg")):
        with page.expect_download() as download:
            page.get_by_role("button", name=name, exact=True).click()
        content = Path(download.value.path()).read_bytes()
        assert content.startswith(magic)
        assert len(content) > 2_000


def test_a_picture_can_be_read_without_its_page(base: str, page: Page) -> None:
    """Nothing in it is measured with letters that it does not carry."""
    page.goto(f"{base}/compare/charts/forest/?metric=ESR")
    chart_is_shown(page, "light")
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG", exact=True).click()
    said = Path(download.value.path()).read_text()
    assert "Deployment success: differences to the baseline" in said
    assert "these numbers say nothing about any LLM" in said
    assert "Inter" not in said


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_a_phone_the_forest_and_the_bar_of_sections_are_whole(browser: Browser, base: str, theme: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    context.add_cookies([{"name": "theme", "value": theme, "url": base}])
    page = context.new_page()
    page.goto(f"{base}/compare/charts/forest/?metric=ESR")
    chart_is_shown(page, theme)
    hidden = "(box => box.scrollWidth - box.clientWidth)(document.querySelector('{}'))"
    assert page.evaluate(hidden.format(".chart-scroll")) <= 0
    assert page.evaluate(hidden.format(".top nav")) <= 0
    assert page.evaluate("document.querySelector('.top').offsetHeight") < 100  # two rows of 44 px, for fingers
    context.close()


def test_it_changes_its_colours_with_the_theme(base: str, page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(f"{base}/compare/charts/forest/")
    chart_is_shown(page, "light")
    tick = "getComputedStyle(document.querySelector('.ytick text')).fill"
    light = page.evaluate(tick)
    page.get_by_role("button", name="Switch between light and dark").click()
    chart_is_shown(page, "dark")
    page.wait_for_function(f"{tick} !== {light!r}")
    assert (light, page.evaluate(tick)) == ("rgb(87, 96, 106)", "rgb(154, 164, 174)")
    assert page.evaluate("window.violations") == []


def test_enter_and_a_click_lead_to_the_trials_of_a_point(base: str, page: Page) -> None:
    page.goto(f"{base}/compare/charts/forest/")
    chart_is_shown(page, "light")
    page.locator(".chart-plot").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".chart-say")).to_contain_text("selfgen-always")
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare/trials/?**condition=selfgen-always**")
    page.go_back()
    chart_is_shown(page, "light")
    box = page.locator(".scatterlayer .point").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url("**/compare/trials/?**condition=selfgen-always**")


def test_it_says_what_went_wrong_and_tries_again(base: str, page: Page) -> None:
    page.route("**/compare/charts/forest.json*", lambda route: route.fulfill(status=503, body="no"))
    page.goto(f"{base}/compare/charts/forest/")
    expect(page.get_by_role("alert")).to_contain_text("the server answered 503")
    page.unroute("**/compare/charts/forest.json*")
    page.get_by_role("button", name="Try again").click()
    assert chart_is_shown(page, "light")


def test_it_stays_inside_its_box_on_a_phone(base: str, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for key in CHARTS:
        page.goto(f"{base}/compare/charts/{key}/{PAPERS}")
        if chart_is_shown(page, "light"):
            assert page.locator("figure.chart").evaluate("each => each.getBoundingClientRect().right") <= 390, key


def test_a_permalink_shows_the_same_picture_in_a_second_browser(base: str, page: Page, browser: Browser) -> None:
    page.goto(f"{base}/compare/charts/forest/?metric=LSR&option=metrics:all")
    chart_is_shown(page, "light")
    marks = "[...document.querySelectorAll('.scatterlayer .point, .ytick text, .xtick text')].map("
    marks += "mark => [mark.getAttribute('transform'), mark.getAttribute('d'), mark.textContent])"
    first = page.evaluate(marks)
    address = page.locator(".chart-notes a").last.get_attribute("href")
    assert address is not None
    make_learning_run(make_experiment(name="later"), condition="later", scripted=True)
    second = browser.new_context(viewport={"width": 1440, "height": 900})
    other = second.new_page()
    other.goto(address)
    chart_is_shown(other, "light")
    assert other.evaluate(marks) == first
    expect(other.locator(".pin")).to_contain_text("1 run was added since")
    second.close()
