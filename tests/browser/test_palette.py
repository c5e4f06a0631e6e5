"""The palette by keyboard and by touch: it opens, chooses, leads on, and gives the focus back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browsing import inaccessible
from tests.pages import address, make_world

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def base(live_server: object) -> str:
    make_world()
    return live_server.url  # type: ignore[attr-defined]


@pytest.mark.parametrize("key", ["/", "Control+k", "Meta+k"])
def test_a_key_opens_it_and_esc_gives_the_focus_back(base: str, page: Page, key: str) -> None:
    page.goto(base)
    page.get_by_role("link", name="Suites").focus()
    page.keyboard.press(key)
    field = page.get_by_role("combobox", name="Go to or search")
    expect(field).to_be_focused()
    page.keyboard.type("gj")
    expect(field).to_have_value("gj")
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Suites")).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs/")
    assert page.evaluate("window.violations") == []


def test_arrows_choose_and_enter_opens_also_before_the_answer(base: str, page: Page) -> None:
    page.goto(base)
    page.keyboard.press("/")
    page.keyboard.type("suites")
    rows = page.locator("#palette").get_by_role("option")
    expect(rows.first).to_have_attribute("aria-selected", "true")
    expect(page.locator("#palette mark").first).to_have_text(re.compile("suites", re.IGNORECASE))
    page.keyboard.press("ArrowUp")
    expect(rows.last).to_have_attribute("aria-selected", "true")
    expect(rows.last).to_have_text("Search all texts for “suites”")
    field = page.locator("#palette input")
    expect(field).to_have_attribute("aria-activedescendant", rows.last.get_attribute("id") or "")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=suites")
    page.keyboard.press("/")
    page.keyboard.type(">launch")
    page.keyboard.press("Enter")
    page.wait_for_url("**/launch/")


def test_ctrl_enter_opens_a_tab_and_tab_searches_all_texts(base: str, page: Page) -> None:
    page.goto(base)
    page.keyboard.press("/")
    page.keyboard.type("review")
    expect(page.locator("#palette").get_by_role("option", name="Review", exact=True)).to_be_visible()
    with page.context.expect_page() as opened:
        page.keyboard.press("Control+Enter")
    opened.value.close()
    assert page.url == f"{base}/"
    page.keyboard.press("/")
    page.keyboard.type("zebra tail")
    page.keyboard.press("Tab")
    page.wait_for_url("**/search/?q=zebra+tail")


def test_before_typing_it_has_the_last_five_pages_of_this_browser(base: str, page: Page) -> None:
    for name in ("index", "jobs", "suites", "review", "published", "activity", "search"):
        page.goto(base + address(name))
    page.goto(f"{base}/nowhere/")
    page.keyboard.press("/")
    expect(page.locator("#palette").get_by_role("option")).to_have_text(
        ["Search", "Activity", "SkillEvolBench as published", "Review", "Suites"]
    )


def test_a_server_that_does_not_answer_leaves_the_full_search(base: str, page: Page) -> None:
    page.goto(base)
    page.route("**/palette/**", lambda route: route.abort())
    page.keyboard.press("/")
    page.keyboard.type("zebra")
    expect(page.locator("#palette [role=status]")).to_have_text("The server did not answer")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=zebra")


def test_on_a_phone_it_takes_the_whole_width(base: str, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(base)
    page.get_by_role("button", name="Go to or search").click()
    page.keyboard.type("a")
    expect(page.locator("#palette").get_by_role("option").first).to_be_visible()
    assert page.locator("#palette").bounding_box()["width"] == 390  # type: ignore[index]
    assert page.locator("#palette").get_by_role("option").first.bounding_box()["height"] >= 44  # type: ignore[index]
    page.locator("#palette").get_by_role("button", name="Close").click()
    expect(page.locator("#palette")).to_be_hidden()


def test_without_scripts_the_field_searches(base: str, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(base)
    page.get_by_role("searchbox", name="Search").fill("zebra")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=zebra")
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_palette_and_the_share_menu_are_accessible(base: str, page: Page, theme: str) -> None:
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.goto(base + address("trial"))
    page.locator(".share > summary").click()
    assert inaccessible(page) == []
    page.get_by_role("button", name="Go to or search").click()
    expect(page.locator(".share > .sheet")).to_be_hidden()
    page.keyboard.type("re")
    expect(page.locator("#palette mark").first).to_be_visible()
    assert inaccessible(page) == []
