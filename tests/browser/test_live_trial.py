"""A trial at work as somebody watches it: steps come, the page stays where its reader is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from benchapp.models import Attempt, Trial
from tests.browsing import inaccessible
from tests.providers.live_streams import attempt_at_work, publish, running_broker

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

TO_END = "Math.abs(document.querySelector('[data-live]').getBoundingClientRect().bottom - innerHeight)"


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with running_broker(tmp_path / "valkey", monkeypatch) as url:
        yield url


def wait_for_end(page: Page) -> None:
    for _ in range(50):
        if page.evaluate(TO_END) < 80:  # what the script takes for the end
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{page.evaluate(TO_END)} pixels from the end")


@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_follows_a_reader_at_the_end_and_no_other(
    page: Page, live_server: object, broker: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    attempt = attempt_at_work()
    publish(attempt, range(1, 21))
    page.goto(live_server.url + attempt.trial.get_absolute_url())  # type: ignore[attr-defined]
    steps, fresh = page.locator("#live-steps > li"), page.locator("[data-live-new]")
    expect(steps).to_have_count(20)
    assert page.evaluate("scrollY") == 0, "nothing moves when the page opens"

    page.evaluate("scrollTo(0, 700)")
    page.wait_for_timeout(200)
    top = steps.nth(8).bounding_box()
    publish(attempt, [21, 22])
    expect(fresh).to_have_text("2 new steps below", timeout=15_000)
    assert steps.nth(8).bounding_box() == top, "the reader's place has not moved"

    page.keyboard.press("F")
    expect(fresh).to_be_hidden()
    wait_for_end(page)
    publish(attempt, [23])
    expect(steps).to_have_count(23, timeout=15_000)
    wait_for_end(page)

    page.keyboard.press("F")  # at the end: pauses
    publish(attempt, [24])
    page.wait_for_timeout(2_600)
    expect(steps).to_have_count(23)
    assert inaccessible(page) == []

    Attempt.objects.filter(pk=attempt.pk).update(status="finished")
    Trial.objects.filter(pk=attempt.trial_id).update(status="failed", is_done=True, success=False)
    page.keyboard.press("F")
    expect(page.get_by_text("The attempt has ended: failed")).to_be_visible(timeout=15_000)
    expect(steps).to_have_count(24)
    page.keyboard.press("j")
    expect(page.locator("#live-steps > li.at")).to_have_count(1)
    assert page.evaluate("violations") == []
