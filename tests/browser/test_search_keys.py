"""Search by keyboard alone: the hits with j and k, Enter into a step."""

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
