"""The strip in a real browser: clicks and keys swap the part below, no step is lost; the card, both themes, a phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from benchapp.models import Run
from tests.browsing import LOOKS, inaccessible, open_in, settle
from tests.worlds.copies import built_once
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@built_once
def make_three_runs() -> Run:
    experiment = make_experiment(suite=make_suite(environments=2, families=3))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=(False,) * 9)
    make_learning_run(experiment, condition="curated-always")
    return make_learning_run(experiment)


@pytest.fixture
def address(live_server: object) -> str:
    return f"{live_server.url}/runs/{make_three_runs().public_id}/"  # type: ignore[attr-defined]


def here(page: Page, key: str) -> None:
    expect(page.locator("[data-stop][aria-current]")).to_have_attribute("data-stop", key)


@pytest.mark.parametrize(("path", "said"), [("?at=d1", ".now"), ("library/?decision=1", ".lede")])
def test_keys_pressed_fast_lose_no_decision_and_load_no_page(address: str, page: Page, path: str, said: str) -> None:
    page.goto(address + path)
    page.evaluate("window.kept = true")
    for _ in range(4):
        page.keyboard.press("j")
    here(page, "d5")
    expect(page.locator(said)).to_contain_text("Decision 5")
    expect(page).to_have_url(re.compile(r"(at=d5|decision=5)"))
    page.keyboard.press("k")
    here(page, "d4")
    page.locator('[data-stop="d8"] .evo-area').click()
    here(page, "d8")
    assert page.evaluate("window.kept") is True
    page.go_back()
    here(page, "d4")


def test_a_square_of_another_episode_brings_its_strip(address: str, page: Page) -> None:
    page.goto(address)
    page.locator(".is-minor .evo-trial").nth(2).click()
    expect(page.locator(".now-pane h3").first).to_contain_text("Trial 3 of 27")
    expect(page.locator(".evo.is-full .evo-skill").first).to_contain_text("skill-e2")


def test_shift_and_a_click_make_a_range(address: str, page: Page) -> None:
    page.goto(f"{address}library/?decision=1")
    page.locator('[data-stop="d4"] .evo-area').click(modifiers=["Shift"])
    expect(page.get_by_role("heading", level=1)).to_contain_text("R0 → R3")
    expect(page.get_by_role("heading", name="Decisions of this range")).to_be_visible()
    expect(page.locator(".evo-band")).to_have_count(1)


def test_the_card_shows_what_lies_under_the_pointer_or_has_the_focus(address: str, page: Page) -> None:
    page.goto(f"{address}library/?decision=1")
    patch = page.locator('[data-stop="d2"]')
    patch.locator(".evo-area").hover()
    expect(page.locator(".evo-card")).to_contain_text("Decision 2: revised")
    page.mouse.move(700, 900)
    expect(page.locator(".evo-card")).to_have_count(0)
    expect(patch).to_have_accessible_name(re.compile("Decision 2: revised"))


def test_without_a_script_squares_and_patches_are_links(browser: object, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)  # type: ignore[attr-defined]
    page = context.new_page()
    page.goto(f"{address}?at=d1")
    page.goto(page.locator("a.evo-tick").nth(4).get_attribute("href").join([address.split("/runs")[0], ""]))
    expect(page.locator(".now")).to_contain_text("Decision 5")
    context.close()


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_pages_with_a_strip_keep_accessibility_and_fit(
    address: str, context: BrowserContext, theme: str, width: int
) -> None:
    page, errors = open_in(context, address, theme)
    page.set_viewport_size({"width": width, "height": 900})
    for path in ("", "library/", "library/?from=R0&to=R3", "library/beside/"):
        page.goto(address + path)
        settle(page)
        assert page.evaluate("window.violations") == []
        assert inaccessible(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert errors == []
