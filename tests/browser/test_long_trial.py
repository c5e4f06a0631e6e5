"""A trial of a thousand steps, scrolled from its first to its last: what the browser holds stays bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from runner.base.types import Observation, Source, Step, ToolCall
from tests.worlds.factories import make_trial, record_steps

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

STEPS = 1_000
MAX_MEGABYTES = 300


def test_a_thousand_steps_scroll_in_bounded_memory(live_server: object, browser: Browser, page: Page) -> None:
    trial = make_trial(success=False)
    record_steps(trial.counting_attempt(), _steps())
    page.goto(f"{live_server}/trials/{trial.public_id}/")
    page.mouse.move(700, 600)
    last = page.locator(f"#step-{STEPS}")
    for _ in range(1_500):
        if last.count():
            break
        page.mouse.wheel(0, 6_000)
        page.wait_for_timeout(20)
    expect(last).to_be_attached()
    assert page.locator(".steps > li.step").count() < 200, "steps far away leave the page"
    page.request_gc()  # what waits for collection is not held
    assert 0 < _renderer_megabytes(browser) < MAX_MEGABYTES
    assert page.evaluate("window.violations") == []


def _steps() -> list[Step]:
    """Each with a message, a command and a result of a size that real ones have."""
    return [
        Step(
            number,
            Source.USER if number == 1 else Source.AGENT,
            message=f"Message {number}: " + "look at the *next* file. " * 6,
            reasoning="I think. " * 30,
            tool_calls=(ToolCall("c", "shell", {"command": f"sed -n {number},{number + 40}p main.py"}),),
            observations=(Observation("".join(f"value_{n} = {n}\n" for n in range(80)), "c"),),
        )
        for number in range(1, STEPS + 1)
    ]


def _renderer_megabytes(browser: Browser) -> float:
    """Memory of the pages' processes, in MB: shared pages count by their share (Linux, /proc/PID/smaps_rollup)."""
    session = browser.new_browser_cdp_session()
    running = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    folders = [Path("/proc", str(each["id"])) for each in running if each["type"] == "renderer"]
    return sum(_read_pss(folder) for folder in folders) * 1_024 / 1e6


def _read_pss(process: Path) -> int:
    """Proportional set size in KiB."""
    lines = (process / "smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
