"""A pinned page of any kind shows what the record knew then, and says what came since."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.models import Experiment, Trial
from tests.worlds.factories import make_attempt, make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db

PASSES, FAILS = (True,) * 9, (False,) * 9


@pytest.fixture
def experiment() -> Experiment:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=FAILS)
    return experiment


@pytest.fixture
def pin(experiment: Experiment) -> datetime:
    """The moment before a run came in, a trial was settled anew, and an attempt was billed."""
    moment = timezone.now()
    make_learning_run(experiment, condition="selfgen-always", outcomes=PASSES)
    trial = Trial.objects.filter(episode__run__condition="no-skill", phase="deployment").earliest("pk")
    attempt = trial.attempts.get()
    make_attempt(trial, counts=False, started_at=timezone.now())
    trial.settle(attempt)
    return moment


def pinned(address: str, moment: datetime) -> str:
    return f"{address}?{urlencode({'as_of': moment.isoformat()})}"


def test_an_experiment_lists_the_runs_and_results_of_then(
    client: Client, experiment: Experiment, pin: datetime
) -> None:
    data = client.get(pinned(f"/experiments/{experiment.public_id}.json", pin)).json()
    assert [run["condition"] for run in data["runs"]] == ["no-skill"]
    assert (data["trials"]["total"], data["trials"]["scored"], data["trials"]["passed"]) == (9, 8, 0)
    assert data["runs"][0]["spent"]["things"] == 8
    assert (data["pin"]["runs_added_since"], data["pin"]["trials_revised_since"]) == (1, 1)


def test_the_list_of_trials_says_what_came_since(client: Client, pin: datetime) -> None:
    data = client.get(pinned("/compare/trials.json", pin)).json()
    assert (data["planned"], data["scored"]) == (9, 8)
    assert (data["runs_added_since"], data["trials_revised_since"]) == (1, 1)
    page = client.get(pinned("/compare/trials/", pin)).text
    assert "1 run that matches came later and is left out." in page
    assert "1 of these trials was scored later and is shown without a result." in page
    assert "Pinned:" not in client.get("/compare/trials/").text


def test_a_report_that_nobody_saved_says_what_came_since(client: Client, pin: datetime) -> None:
    said = "Added after the date of this report, and left out: 1 matching run and results of 1 trial."
    assert said in client.get(pinned("/compare/report/", pin)).text
    assert "Added after the date" not in client.get("/compare/report/").text


def test_it_says_what_replay_is_compared_with(client: Client, experiment: Experiment) -> None:
    no_skill = client.get("/compare/?since=2020-01-01").text
    assert "Replay is compared with the first try at the same tasks without a skill" in no_skill
    other = client.get("/compare/?baseline=selfgen-always").text
    assert "Replay is compared with the replay of the baseline, or its first try where it replayed nothing." in other
