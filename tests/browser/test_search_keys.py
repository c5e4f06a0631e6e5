"""Search by keyboard alone: the words, the hits with j and k, Enter into a step, the proposals with the arrows."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.worlds.search_worlds import make_search_world

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def address(live_server: object) -> str:
    make_search_world()
    return f"{live_server.url}/search/"  # type: ignore[attr-defined]


def test_j_and_k_walk_the_hits_and_enter_opens_one_at_its_place(address: str, page: Page) -> None:
    page.goto(f"{address}?q=zebra")
    hits = page.locator("[data-hit]")
    assert hits.count() >= 3
    page.keyboard.press("j")
    expect(hits.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(hits.nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(hits.nth(0)).to_be_focused()
    page.keyboard.press("k")
    expect(hits.nth(0)).to_be_focused()
    wanted = hits.nth(0).get_attribute("href") or ""
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(re.escape(wanted.partition("#")[0])))


def test_the_words_are_reached_and_left_by_keys_and_j_is_a_letter_in_them(address: str, page: Page) -> None:
    page.goto(f"{address}?q=zebra")
    box = page.get_by_role("combobox")
    page.keyboard.press("/")
    expect(box).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.type(" j")
    expect(box).to_have_value("zebra j")
    expect(box).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(box).not_to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("[data-hit]").first).to_be_focused()


def test_a_proposal_is_taken_with_the_arrows_and_enter(address: str, page: Page) -> None:
    page.goto(address)
    box = page.get_by_role("combobox")
    expect(box).to_be_focused()
    page.keyboard.type("ro")
    expect(page.get_by_role("option").first).to_contain_text("role:")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(box).to_have_value("role:")
    expect(page.get_by_role("option").first).to_be_visible()


def test_a_proposal_for_older_words_is_never_taken_into_newer_ones(address: str, page: Page) -> None:
    page.goto(address)
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.type("r")
    expect(page.get_by_role("option").first).to_contain_text("role:")
    page.route("**/search/complete/**", lambda route: None)  # the reply to the next words never comes
    page.keyboard.type("o")
    expect(page.get_by_role("option").first).to_be_hidden()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"q=ro$"))
