"""The charts of each page of results: those that draw come first, the others are one fold of sentences after them."""

from __future__ import annotations

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from inspector.charts import OF_PAGES
from tests.pages import make_world

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_it_lists_what_cannot_be_drawn_after_what_can(live_server: object, page: Page) -> None:
    make_world()
    page.set_viewport_size({"width": 1440, "height": 20_000})  # everything is near, so everything is drawn
    counts = []
    for name, charts in OF_PAGES.items():
        page.goto(f"{live_server.url}{reverse(name)}")  # type: ignore[attr-defined]
        expect(page.locator("figure.chart:not([data-drawn])")).to_have_count(0, timeout=120_000)
        said = page.locator(".waiting li")
        drawn = page.locator(".gallery > figure.chart[data-drawn]")
        counts.append((drawn.count(), said.count()))
        assert drawn.count() + said.count() == len(charts)
        for line in said.all():
            assert len((line.text_content() or "").split(": ", 1)[1]) > 20
            assert line.locator("a").get_attribute("href").startswith("/compare/charts/")  # type: ignore[union-attr]
    assert all(sum(column) for column in zip(*counts, strict=True))
