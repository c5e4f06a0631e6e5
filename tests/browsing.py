"""What tests in a real browser share: a tab that hears what goes wrong in it,
and the accessibility rules it is held to."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, ConsoleMessage, Page

from tests.conftest import IS_FULL

AXE_RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]},
    "resultTypes": ["violations"],
}
# (theme, width): each theme and each width once. FULL=1 crosses them: axe takes seconds for a page.
LOOKS = [("light", 1440), ("dark", 390)]
if IS_FULL:
    LOOKS += [("light", 390), ("dark", 1440)]
# Going to the next page ends a poll or a figure of the last one, and says so; that is no fault of either.
LEAVING = ("net::ERR_ABORTED",)
# Scripts ran and fonts are loaded; no part is being fetched, and no chart near enough to be fetched waits for its
# drawing.
SETTLED = """() => {
  const isNear = (element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return element.checkVisibility() && bottom > -200 && top < innerHeight + 200;
  };
  return document.readyState === "complete" && document.fonts.status === "loaded"
    && !document.querySelector(".htmx-request, [aria-busy=true]")
    && ![...document.querySelectorAll(".chart-wait")].some(isNear);
}"""


def open_in(context: BrowserContext, base: str, theme: str) -> tuple[Page, list[str]]:
    """A new tab in this theme, with what goes wrong in it."""
    context.add_cookies([{"name": "theme", "value": theme, "url": base}])
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(f"error: {error}"))
    page.on("console", lambda message: errors.append(message.text) if _is_wrong(message) else None)
    page.on("requestfailed", lambda request: errors.append(request.url) if request.failure not in LEAVING else None)
    return page, errors


def settle(page: Page) -> None:
    """Waits until the page shows what it will show without being touched: a condition of its own,
    no span of silence."""
    page.wait_for_function(SETTLED)


def inaccessible(page: Page) -> list[tuple[str, str]]:
    """(rule of WCAG 2.1 A or AA, the first element that breaks it)."""
    found = Axe().run(page, options=AXE_RULES).response["violations"]
    return [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found]


def _is_wrong(message: ConsoleMessage) -> bool:
    return message.type in {"error", "warning"} and "htmx:sendAbort" not in message.text
