"""Help: the tree keeps its place from page to page, and is a fold on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browsing import settle

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_tree_keeps_its_place_with_the_current_page_in_sight(live_server: object, page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 400})
    page.goto(f"{live_server.url}/docs/reference/search/")  # type: ignore[attr-defined]
    settle(page)
    place = page.evaluate("document.getElementById('doc-tree').scrollTop")
    assert place > 0
    page.locator("#doc-tree").get_by_role("link", name="Suggestions").click()
    settle(page)
    assert page.locator("h1").inner_text() == "Suggestions"
    assert page.evaluate("document.getElementById('doc-tree').scrollTop") == place
    groups = page.locator("#doc-tree details")
    assert [each.get_attribute("open") is not None for each in groups.all()] == [False, False, True, False]
    assert groups.last.locator("summary").inner_text().split() == ["Explanation:", "understand", "why", "14"]


def test_tree_and_contents_are_folds_on_a_phone(live_server: object, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{live_server.url}/docs/reference/suites/")  # type: ignore[attr-defined]
    tree = page.locator("#doc-tree")
    assert tree.is_hidden()
    page.get_by_role("button", name="All pages").click()
    assert tree.get_by_role("link", name="Charts").is_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="On this page").click()
    page.locator("#doc-contents a").first.click()
    assert "#" in page.url
    assert page.locator("#doc-contents").is_hidden()
