"""A report opened from a folder, by a browser that may ask the network for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from playwright.sync_api import Page

from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = [pytest.mark.browser, pytest.mark.django_db]

HOSTILE = "</script><script>document.title = 'taken'</script>"
BASELINE = (True, False, False, True, False, False, True, False, False)


def test_it_draws_every_chart_from_a_file_alone(page: Page, client: Client, tmp_path: Path) -> None:
    experiment = make_experiment(suite=make_suite(environments=2, families=1), name=HOSTILE)
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=BASELINE)
    make_learning_run(experiment, condition="selfgen-always", agent_model=HOSTILE)
    path = tmp_path / "report.html"
    path.write_bytes(client.get("/compare/report/").content)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_function(
        "document.querySelectorAll('[data-figure]').length > 0 &&"
        " [...document.querySelectorAll('[data-figure]')].every((plot) => plot.dataset.drawn)"
    )
    plots = page.locator("[data-figure]")
    assert plots.count() == page.locator("[data-figure] svg.main-svg:first-of-type").count()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert page.title() == f"{HOSTILE} · Skillglass report"  # as text: its script would have made it another
    assert page.evaluate("window.violations") == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
