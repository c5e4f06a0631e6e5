"""A real Chromium against a real server with real rows."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from tests.conftest import chromium

PLAIN = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
# Heard before any script of the page runs; the policy reports to the document it protects.
HEAR_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});
"""

_network_changes: list[str] = []


class NetworkChanged(Exception):
    """A test failed while the machine's networks changed, as they do when a container starts. Chromium then stops
    loading pages, even from this machine. Such a test runs again."""


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.flaky(reruns=3, only_rerun=NetworkChanged.__name__))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    _network_changes.clear()
    try:
        yield
    except Exception as error:
        if _network_changes:
            raise NetworkChanged(", ".join(_network_changes)) from error
        raise


def _hear_failed(request: Request) -> None:
    if request.failure == "net::ERR_NETWORK_CHANGED":
        _network_changes.append(request.url)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    # Playwright's loop lives in this thread, and Django would take every query in it for one in a coroutine.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        new_context = running.new_context

        def new_heard_context(**options: Any) -> BrowserContext:
            opened = new_context(**options)
            opened.on("requestfailed", _hear_failed)
            return opened

        running.new_context = new_heard_context  # type: ignore[method-assign]
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
