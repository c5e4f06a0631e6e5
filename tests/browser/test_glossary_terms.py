"""A word of the glossary opens its meaning by the keyboard and by a click, and Escape closes it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.pages import address, make_world

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def base(live_server: object) -> str:
    make_world()
    return live_server.url  # type: ignore[attr-defined]


def test_the_meaning_opens_by_key_and_click_near_its_word(base: str, page: Page) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(base + address("findings"))
    word = page.get_by_role("button", name="finding", exact=True)
    meaning = page.locator(".term-meaning")
    expect(meaning).to_be_hidden()
    word.focus()
    page.keyboard.press("Enter")
    expect(meaning).to_be_visible()
    expect(meaning).to_contain_text("leak alarm")
    page.keyboard.press("Tab")
    expect(meaning.get_by_role("link", name="Glossary")).to_be_focused()
    page.keyboard.press("Escape")
    expect(meaning).to_be_hidden()
    word.click()
    expect(meaning).to_be_visible()
    place, box = word.bounding_box(), meaning.bounding_box()
    assert place is not None
    assert box is not None
    assert abs(box["y"] - place["y"] - place["height"]) < 40
    meaning.get_by_role("link").click()
    page.wait_for_url("**/docs/glossary/#what-was-learned")
    assert not said


@pytest.mark.parametrize("width", [390, 1440])
def test_the_meaning_stays_on_the_screen(base: str, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(base + address("findings"))
    page.get_by_role("button", name="finding", exact=True).click()
    box = page.locator(".term-meaning").bounding_box()
    assert box is not None
    assert box["width"] > 200
    assert 0 <= box["x"] <= width - box["width"]
