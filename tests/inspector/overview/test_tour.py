from __future__ import annotations

import pytest
from django.test import Client

from benchapp.imports.shipped_example import take_in_example
from benchapp.models import Experiment, Probe
from inspector.pages.overview import tour

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


def test_the_tour_leads_over_real_pages(client: Client) -> None:
    take_in_example()
    told = client.get("/index.json").json()["tour"]
    assert told["is_clear"]
    assert told["with_lines"]["passed"] > told["without_lines"]["passed"]
    text = client.get("/").text
    assert "See how one failed check became a line of a skill" in text
    for url in told["urls"]:
        page = client.get(url.partition("#")[0])
        assert page.status_code == 200
    assert client.get("/?tour=hide").status_code == 302
    assert "Show the tour" in client.get("/").text
    client.get("/?tour=show")
    assert "Start the tour" in client.get("/").text
    Experiment.objects.get(runs__probe=Probe.objects.exclude(reverted_digest="").get()).entomb(
        actor=None, reason="gone"
    )
    assert client.get("/index.json").json()["tour"] is None
    tour.KEPT.clear()
