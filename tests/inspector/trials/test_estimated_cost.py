"""Pages and files that show a cost say where it is an estimate."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from runner.models.call_prices import name_price_list
from tests.benchapp.imports.test_estimated_cost import bring_in_session, use

pytestmark = pytest.mark.django_db


def test_every_place_that_shows_it_says_that_it_is_estimated(client: Client, tmp_path: Path) -> None:
    found = bring_in_session(tmp_path, use(1_000_000, 0, 0, 100_000))
    run = found.episode.run
    places = [
        found.get_absolute_url(),
        run.get_absolute_url(),
        f"/compare/cost/?experiment={run.experiment.public_id}",
        f"/compare/trials/?experiment={run.experiment.public_id}",
    ]
    for place in places:
        text = client.get(place).text
        assert "≈ $4.50 <small>estimated</small>" in text, place
    twin = client.get(f"/trials/{found.public_id}.json").json()
    assert (twin["cost_usd"], twin["estimated_usd"], twin["attempts"][0]["price_table"]) == (
        None,
        4.5,
        name_price_list(),
    )
    rows = client.get(f"/compare/export/trials.csv?experiment={run.experiment.public_id}")
    csv = b"".join(rows).decode() if rows.streaming else rows.text
    head, row = (line.split(",") for line in csv.strip().splitlines()[-2:])
    named = dict(zip(head, row, strict=True))
    assert (named["cost_usd"], named["estimated_usd"]) == ("", "4.5")
