"""The work of an author that is an agent, as a person reads it: both themes, wide and narrow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browsing import LOOKS, inaccessible, open_in, settle
from tests.inspector.library.test_author_call import decide, url
from tests.worlds.author_sessions import STEPS, add_session

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_its_steps_fit_and_can_be_read_by_everybody(
    live_server: object, context: BrowserContext, theme: str, width: int
) -> None:
    told = {
        "rule": "author-session",
        "path": "",
        "message": "TurnLimit: Not submitted after 2 turns.",
        "severity": "warning",
    }
    decision = decide(steps=2, findings=[told])
    add_session(decision, below=STEPS)
    page, errors = open_in(context, str(live_server), theme)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{live_server}{url(decision, '&show=session')}")
    settle(page)
    expect(page.locator("#step-3")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert inaccessible(page) == []
    if folder := os.environ.get("SKILLGLASS_TEST_PICTURES"):
        page.screenshot(path=str(Path(folder, f"session-{width}-{theme}.png")), full_page=True)
    page.keyboard.press("c")
    expect(page.locator("h2#prompt-h")).to_be_visible()
    page.keyboard.press("w")
    expect(page.locator("#step-3")).to_be_visible()
    assert errors == []
