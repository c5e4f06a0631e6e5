"""Blame in a real browser: the card beside the gutter, the keys, and a chosen line in both themes and on a phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browsing import LOOKS, inaccessible, open_in, settle
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def address(live_server: object) -> str:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, condition="no-skill", author_model="")
    run = make_learning_run(experiment)
    return f"{live_server.url}/runs/{run.public_id}/library/blame/"  # type: ignore[attr-defined]


def test_the_card_follows_the_pointer_and_the_keys_and_enter_asks_for_the_line(address: str, page: Page) -> None:
    page.goto(address)
    page.set_viewport_size({"width": 1440, "height": 900})
    who = page.locator(".blame .who a")
    who.first.hover()
    expect(page.locator(".line-card:visible")).to_have_count(1)
    expect(page.locator(".line-card:visible")).to_contain_text("decision 1")
    page.mouse.move(1300, 700)
    expect(page.locator(".line-card:visible")).to_have_count(0)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(who.nth(1)).to_be_focused()
    expect(page.locator(".line-card:visible")).to_contain_text("decision 2")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"line=3.*#L3"))
    expect(page.get_by_role("heading", name=re.compile("^Line 3"))).to_be_visible()
    page.get_by_role("link", name="all changes").click()
    expect(page.get_by_role("heading", name="Who wrote this file")).to_be_visible()


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_a_chosen_line_keeps_accessibility_and_fits(
    address: str, context: BrowserContext, theme: str, width: int
) -> None:
    page, errors = open_in(context, address, theme)
    page.set_viewport_size({"width": width, "height": 900})
    for query in ("", "?line=1"):
        page.goto(address + query)
        settle(page)
        assert page.evaluate("window.violations") == []
        assert inaccessible(page) == [], query
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert errors == []
