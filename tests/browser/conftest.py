"""A real Chromium against a real server with real rows."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.conftest import chromium

PLAIN = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
# Heard before any script of the page runs; the policy reports to the document it protects.
HEAR_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});
"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    # Playwright's loop lives in this thread, and Django would take every query in it for one in a coroutine.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield running
        running.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(autouse=True)
def plain_static_files(settings: pytest.FixtureRequest) -> None:
    settings.STORAGES = {**settings.STORAGES, "staticfiles": PLAIN}  # type: ignore[attr-defined]


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    opened = browser.new_context(viewport={"width": 1440, "height": 900})
    opened.add_init_script(HEAR_VIOLATIONS)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()
