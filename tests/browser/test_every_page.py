"""Every page: no violation of the content policy, none of WCAG 2 A and AA, no error, no sideways scroll."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.browsing import inaccessible, open_in, settle
from tests.conftest import IS_FULL
from tests.pages import PAGES, address, make_world

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture
def base(live_server: object) -> str:
    make_world()
    return live_server.url  # type: ignore[attr-defined]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_keeps_policy_and_accessibility_and_fits_a_phone(
    base: str, context: BrowserContext, theme: str
) -> None:
    """Each page in one theme, by turns; in both with FULL=1."""
    page, errors = open_in(context, base, theme)
    faults = {}
    chosen = sorted(PAGES)
    if not IS_FULL:
        chosen = chosen[theme == "dark" :: 2]
    for name in chosen:
        page.set_viewport_size(DESK)
        page.goto(base + address(name))
        settle(page)
        assert page.evaluate("window.violations") == [], name
        faults[name] = inaccessible(page)
        page.set_viewport_size(PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
    assert not any(faults.values()), {name: found for name, found in faults.items() if found}
    assert errors == []


def test_the_policy_is_really_watched(base: str, page: Page) -> None:
    page.goto(base)
    page.evaluate("document.head.appendChild(document.createElement('style')).textContent = 'p{color:red}'")
    page.wait_for_function("window.violations.length > 0", timeout=5000)
    assert "style-src" in page.evaluate("window.violations[0]")
