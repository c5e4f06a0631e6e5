"""Every page in both themes: no violation of the content policy, none of WCAG 2 A and AA, no error, no sideways scroll."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, ConsoleMessage, Page

from tests.pages import PAGES, address, make_world

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

AXE_RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}


# Going to the next page ends a poll of the last one, and htmx says so; that is no fault of either.
LEAVING = ("net::ERR_ABORTED",)


def _is_wrong(message: ConsoleMessage) -> bool:
    return message.type in {"error", "warning"} and "htmx:sendAbort" not in message.text


@pytest.fixture
def base(live_server: object) -> str:
    make_world()
    return live_server.url  # type: ignore[attr-defined]


def open_in(context: BrowserContext, base: str, theme: str) -> tuple[Page, list[str]]:
    """A new tab in this theme, with what goes wrong in it."""
    context.add_cookies([{"name": "theme", "value": theme, "url": base}])
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(f"error: {error}"))
    page.on("console", lambda message: errors.append(message.text) if _is_wrong(message) else None)
    page.on("requestfailed", lambda request: errors.append(request.url) if request.failure not in LEAVING else None)
    return page, errors


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_keeps_policy_and_accessibility(base: str, context: BrowserContext, theme: str) -> None:
    page, errors = open_in(context, base, theme)
    axe = Axe()
    for name in PAGES:
        page.goto(base + address(name))
        page.wait_for_load_state("networkidle")
        assert page.evaluate("window.violations") == [], name
        found = axe.run(page, options=AXE_RULES).response["violations"]
        assert not found, f"{name}: {[(rule['id'], rule['nodes'][0]['html'][:200]) for rule in found]}"
    assert errors == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_scrolls_sideways_on_a_phone(base: str, context: BrowserContext, theme: str) -> None:
    page, errors = open_in(context, base, theme)
    page.set_viewport_size({"width": 390, "height": 844})
    for name in PAGES:
        page.goto(base + address(name))
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
    assert errors == []


def test_the_policy_is_really_watched(base: str, page: Page) -> None:
    page.goto(base)
    page.evaluate("document.head.appendChild(document.createElement('style')).textContent = 'p{color:red}'")
    page.wait_for_function("window.violations.length > 0", timeout=5000)
    assert "style-src" in page.evaluate("window.violations[0]")
