"""Runs with work left are called so wherever their numbers stand beside others."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.models import Experiment, Run, Trial
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db

SAID = "1 of 2 groups is unfinished: 30 of 36 planned trials have ended."
LABEL = "selfgen-always · unfinished"


@pytest.fixture
def experiment() -> Experiment:
    """Two runs of 36 trials; six replays of the second wait."""
    experiment = make_experiment(suite=make_suite(environments=2, families=2), status="running")
    make_learning_run(experiment, condition="no-skill", status="done")
    stop(make_learning_run(experiment, condition="selfgen-always", status="running"))
    return experiment


def stop(run: Run) -> None:
    waiting = Trial.objects.filter(episode__run=run, phase="replay").order_by("pk").values("pk")[:6]
    fields: dict[str, Any] = {"status": "waiting", "is_done": False, "success": None, "settled_at": None}
    Trial.objects.filter(pk__in=waiting).update(**fields)
    Run.objects.filter(pk=run.pk).touch()


@pytest.mark.parametrize(
    "address",
    [
        "/compare/?since=2020-01-01",
        "/compare/replay/",
        "/compare/libraries/",
        "/compare/failures/",
        "/compare/charts/forest/",
        "/compare/report/",
        "/compare/export/table.tex",
        "/comparisons/save/",
        "experiment",
        "saved",
        "saved report",
    ],
)
def test_every_page_that_compares_them_says_so(client: Client, experiment: Experiment, address: str) -> None:
    if address.startswith("saved"):
        asked = {"name": "Early", "metrics": ["ESR"], "understood": "ESR"}
        page = client.post("/comparisons/save/", asked).headers["Location"]
        address = f"{page}report/" if "report" in address else page
    text = client.get(experiment.get_absolute_url() if address == "experiment" else address).text
    assert SAID in text


def test_tables_name_the_group_and_how_far_it_is(client: Client, experiment: Experiment) -> None:
    text = client.get("/compare/?since=2020-01-01").text
    assert '<small class="lines own-line">unfinished · 30 of 36 trials ended</small>' in text
    groups = {each["label"]: each["trials"] for each in client.get("/compare.json?since=2020-01-01").json()["groups"]}
    assert {label: (found["done"], found["total"]) for label, found in groups.items()} == {
        "no-skill": (36, 36),
        LABEL: (30, 36),
    }


def test_a_cancelled_run_is_not_waited_for(client: Client, experiment: Experiment) -> None:
    """No later trial can change a number: it counts with what it has, and its row says how far it came."""
    Run.objects.filter(condition="selfgen-always").update(status="cancelled")
    Run.objects.filter(condition="selfgen-always").touch()
    text = client.get("/compare/?since=2020-01-01").text
    assert "unfinished" not in text.partition("<main")[2]
    assert '<small class="lines own-line">cancelled: 30 of 36 trials ended</small>' in text
    assert client.get("/compare.json?since=2020-01-01").json()["pin"]["unfinished"] is None


def test_charts_carry_it_with_them(client: Client, experiment: Experiment) -> None:
    data = client.get("/compare/charts/forest.json").json()
    assert f"{LABEL}: 30 of 36 trials ended so far." in data["notes"]
    assert data["pin"]["unfinished"].startswith(SAID)


@pytest.mark.parametrize("what", ["aggregates", "differences"])
def test_exports_have_a_column_of_it(client: Client, experiment: Experiment, what: str) -> None:
    response = client.get(f"/compare/export/{what}.csv")
    body = b"".join(response.streaming_content).decode() if response.streaming else response.text
    rows = list(csv.DictReader(io.StringIO("".join(line for line in body.splitlines(True) if line[0] != "#"))))
    found = {row["condition"]: row["unfinished"] for row in rows}
    assert found["selfgen-always"].lower() == "true"
    assert found.get("no-skill", "false").lower() == "false"


def test_the_list_of_experiments_gives_no_verdict_while_one_runs(client: Client, experiment: Experiment) -> None:
    run = Run.objects.get(condition="selfgen-always")
    Trial.objects.filter(episode__run=run, phase="deployment").update(is_done=False, status="waiting", success=None)
    Run.objects.filter(pk=run.pk).touch()
    assert "Still running" in client.get("/").text


def test_a_pinned_page_speaks_of_the_moment_it_shows(client: Client, experiment: Experiment) -> None:
    before = timezone.now()
    Trial.objects.filter(is_done=False).update(is_done=True, status="failed", success=False, settled_at=timezone.now())
    experiment.runs.all().touch()
    assert client.get("/compare.json?since=2020-01-01").json()["pin"]["unfinished"] is None
    pinned = client.get("/compare.json", {"as_of": before.isoformat(), "since": "2020-01-01"}).json()
    assert pinned["pin"]["unfinished"].startswith(SAID)
