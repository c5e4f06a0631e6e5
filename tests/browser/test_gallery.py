"""The charts of each page of results in a browser: what the server drew needs no drawing code,
curves fetch it when they are seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.urls import reverse
from playwright.sync_api import Page, Request, expect

from inspector.charts import OF_PAGES
from tests.browsing import inaccessible
from tests.pages import make_world

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_it_draws_every_card_and_fetches_the_drawing_code_when_a_curve_is_seen(live_server: object, page: Page) -> None:
    make_world()
    asked: list[str] = []

    def note(request: Request) -> None:
        if "plotly-cartesian" in request.url:
            asked.append(request.url)

    page.on("request", note)
    for name in OF_PAGES:
        page.set_viewport_size({"width": 1440, "height": 300})
        asked.clear()
        page.goto(f"{live_server.url}{reverse(name)}")  # type: ignore[attr-defined]
        page.wait_for_load_state("networkidle")
        assert asked == [], name
        page.set_viewport_size({"width": 1440, "height": 20_000})  # now everything is in view
        curves = page.locator("figure.chart:has(.chart-plot)")
        expect(page.locator("figure.chart[data-drawn]")).to_have_count(curves.count(), timeout=120_000)
        assert len(asked) == bool(curves.count()), name
        assert not inaccessible(page), name


def test_a_chart_that_the_server_drew_is_taken_away_as_a_picture(live_server: object, page: Page) -> None:
    make_world()
    page.goto(f"{live_server.url}/compare/charts/categories/")  # type: ignore[attr-defined]
    for name, magic in (("PNG", b"\x89PNG\r\n\x1a\n"), ("SVG", b"<svg")):
        with page.expect_download() as download:
            page.get_by_role("button", name=name, exact=True).click()
        assert Path(download.value.path()).read_bytes().startswith(magic)
