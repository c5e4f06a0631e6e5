"""A mark that counts trials leads to as many of them."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db

T, F = True, False


@pytest.mark.parametrize(
    "chart", ["categories.json?metric=ESR", "categories.json?metric=ESR&option=by:family", "environments.json"]
)
def test_a_row_leads_to_the_trials_it_counts(client: Client, chart: str) -> None:
    experiment = make_experiment(suite=make_suite(environments=2, families=2))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=(F, F, F, F, F, F, F, F, F))
    make_learning_run(experiment, outcomes=(F, T, F, T, None, F, T, T, F))
    rows = client.get(f"/compare/charts/{chart}").json()["table"]["rows"]
    assert len(rows) >= 4
    for row in rows:
        behind = client.get(row["url"].replace("/compare/trials/", "/compare/trials.json")).json()
        found = [behind[name] for name in ("passed", "scored", "planned")]
        assert found == [row[name] for name in ("passed", "scored", "planned")]
