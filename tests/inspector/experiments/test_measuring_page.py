"""Having each round's library measured from its page: what is open, what it would take, who may order it,
and how far it is."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from benchapp.experiments.launch import launch
from benchapp.experiments.work import advance
from benchapp.judges import judging_orders
from benchapp.judges.judging_orders import JudgingWish, order_judging
from benchapp.models import Activity, Episode, Experiment, JudgingOrder, Probe, Run, User
from inspector.web.access import local_user
from tests.queries import assert_queries_flat
from tests.worlds.copies import built_once
from tests.worlds.factories import make_experiment, make_learning_run, make_suite, make_user
from tests.worlds.probe_factories import measure_round

pytestmark = pytest.mark.django_db

SPEC: dict[str, Any] = {
    "name": "Learned",
    "suite": "starter",
    "environments": ["E1"],
    "conditions": ["no-skill", "selfgen-always"],
    "replicates": 1,
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
}


def path(experiment: Experiment) -> str:
    return f"/experiments/{experiment.public_id}/rounds/"


def twin(client: Client, experiment: Experiment, query: str = "") -> dict[str, Any]:
    return client.get(f"{path(experiment).rstrip('/')}.json{query}").json()


@pytest.fixture
def learned() -> Experiment:
    """Rows of a run with two rounds in its only episode, which no launch made."""
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, status="done")
    return experiment


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """A run of the launch with two rounds in its record, as if its workers had ended."""
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    monkeypatch.setattr(judging_orders, "enqueue_due", lambda: 0)
    return play_two_rounds()


@built_once
def play_two_rounds() -> Experiment:
    experiment = launch(SPEC)
    episode = Episode.objects.get(run__experiment=experiment, run__condition="selfgen-always")
    while episode.decisions.filter(status="applied").count() < 2:
        advance.advance(str(episode.public_id))
    Run.objects.filter(experiment=experiment).update(status="cancelled")
    return experiment


def test_it_counts_what_is_measured_under_way_and_open(client: Client, learned: Experiment) -> None:
    (row,) = twin(client, learned)["runs"]
    assert (row["libraries"], row["measured"], row["under_way"], row["open"]) == (2, 1, 0, 1)
    episode = Episode.objects.get(run__experiment=learned, run__condition="selfgen-always")
    probe = measure_round(episode, 1, "pf-", status="running")
    (row,) = twin(client, learned)["runs"]
    assert (row["measured"], row["under_way"], row["open"]) == (1, 1, 0)
    assert (row["probe_trials"]["done"], row["probe_trials"]["total"]) == (2, 3)
    assert "2 of 3 trials" in client.get(path(learned)).text
    Run.objects.filter(pk=probe.run_id).update(status="done")  # its last trial was skipped
    assert twin(client, learned)["measured"] == 2
    text = client.get(path(learned)).text
    assert "Every round’s library is measured or under way" in text
    assert f"/compare/charts/curve/?experiment={learned.public_id}" in text


def test_an_experiment_without_rounds_says_so(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, condition="no-skill", author_model="").episodes.get().decisions.all().delete()
    assert "went through a round. There is nothing to measure." in client.get(path(experiment)).text


def test_what_another_tool_ran_cannot_be_measured_and_says_why(client: Client, learned: Experiment) -> None:
    Run.objects.update(setup_digest="")
    Experiment.objects.update(origin="imported")
    told = twin(client, learned, "?times=1")
    assert told["preview"] is None
    assert "was not launched by Skillglass" in told["problem"]


def test_the_estimate_comes_first_and_the_launch_orders_it(client: Client, launched: Experiment) -> None:
    assert twin(client, launched)["preview"] is None
    told = twin(client, launched, "?times=2")
    assert (told["problem"], told["preview"]["probes"]) == (None, 2)
    assert told["preview"]["trials"] == told["preview"]["estimate"]["trials"] > 0
    assert "It can be launched" in client.get(f"{path(launched)}?times=2").text
    assert not Probe.objects.exists()
    sent = client.post(path(launched), {"times": "2", "reason": "the curve"}, follow=True)
    assert f"Launched: 2 probes, {told['preview']['trials']} trials." in sent.text
    assert set(Probe.objects.values_list("times", "reason", "reverted_digest")) == {(2, "the curve", "")}
    assert Activity.objects.filter(verb="probe").count() == 2
    assert "Nothing was launched" in client.post(path(launched), {"times": "2", "reason": "again"}, follow=True).text


def test_the_last_library_is_tried_without_each_skill(client: Client, launched: Experiment) -> None:
    asked = {"times": "1", "design": "skills"}
    preview = twin(client, launched, f"?{urlencode(asked)}")["preview"]
    sent = client.post(path(launched), {**asked, "reason": "which one?"}, follow=True)
    assert f"Launched: {preview['probes']} probes, {preview['trials']} trials. What skills add appears" in sent.text
    left_out = list(Probe.objects.values_list("skill", flat=True))
    assert left_out.count("") == 1  # the whole library, which the others are compared with
    assert len(left_out) == preview["probes"] > 1


def test_an_order_is_cancelled_as_a_whole_and_open_again(client: Client, launched: Experiment) -> None:
    client.post(path(launched), {"times": "1", "reason": "the curve"})
    assert "2 probes under way" in client.get(path(launched)).text
    sent = client.post(path(launched), {"act": "cancel", "reason": "too dear"}, follow=True)
    assert "Cancelled: 2 probes. What they recorded stays." in sent.text
    assert set(Run.objects.filter(condition="library-probe").values_list("status", flat=True)) == {"cancelled"}
    assert sum(row["open"] for row in twin(client, launched)["runs"]) == 2
    again = client.post(path(launched), {"act": "cancel", "reason": "too dear"}, follow=True)
    assert "Nothing was cancelled. no probe of a whole library is under way" in again.text


def test_only_chosen_runs_are_measured(client: Client, launched: Experiment) -> None:
    bare = launched.runs.get(condition="no-skill")
    told = twin(client, launched, f"?{urlencode({'run': str(bare.public_id), 'times': 1})}")
    assert (told["preview"], told["runs"][0]["chosen"]) == (None, False)
    assert "measured or under way" in told["problem"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"times": "many"}, "expected a whole number, found &#x27;many&#x27;"),
        ({"times": "0"}, "0 times (expected 1 to 100)"),
        ({"times": "0", "usd": "5"}, "0 times (expected 1 to 100)"),
        ({"times": "1", "usd": "-2"}, "expected more than 0, or nothing"),
        ({"times": "1", "usd": "nan"}, "expected more than 0, or nothing"),
        ({"times": "1", "usd": "5"}, "reports no cost"),
    ],
)
def test_nonsense_is_said_and_launches_nothing(
    client: Client, launched: Experiment, query: dict[str, str], said: str
) -> None:
    assert said in client.get(f"{path(launched)}?{urlencode(query)}").text
    refused = client.post(path(launched), {**query, "reason": "why <I> asked"})
    assert refused.status_code == 422
    assert "Nothing was launched" in refused.text
    assert "why &lt;I&gt; asked" in refused.text  # nothing typed is lost
    assert not Probe.objects.exists()


def test_the_judges_of_the_runs_are_offered(client: Client, launched: Experiment) -> None:
    order_judging(launched.runs.all(), JudgingWish("scripted/careful", metrics=("coverage",), max_calls=9))
    assert "Have the same judge pass over them" in client.get(f"{path(launched)}?times=1").text
    client.post(path(launched), {"times": "1", "reason": "x", "judged": "on"})
    orders = JudgingOrder.objects.filter(run__condition="library-probe")
    assert set(orders.values_list("model", "max_calls")) == {("scripted/careful", 9)}
    assert orders.count() == 2


def test_a_judge_of_the_file_is_told_and_not_offered(client: Client, launched: Experiment) -> None:
    order_judging(launched.runs.all(), JudgingWish("scripted/careful"))
    launched.spec["judging"] = {"model": "scripted/careful"}
    launched.save()
    text = client.get(f"{path(launched)}?times=1").text
    assert "The experiment file has scripted/careful judge each probe" in text
    assert "Have the same judge" not in text


def test_readers_see_it_and_cannot_order(client: Client, launched: Experiment, settings: Any) -> None:
    settings.SINGLE_USER = False
    client.force_login(make_user(username="ada", level=User.Level.REVIEWER))
    assert "Only operators launch" in client.get(f"{path(launched)}?times=1").text
    for sent in ({"times": "1", "reason": "x"}, {"act": "cancel", "reason": "x"}):
        assert client.post(path(launched), sent).status_code == 403
    assert not Probe.objects.exists()


def test_the_experiment_leads_there(client: Client, launched: Experiment) -> None:
    assert path(launched) in client.get(f"/experiments/{launched.public_id}/").text


def test_it_asks_no_more_for_more_runs_and_probes(client: Client, learned: Experiment) -> None:
    local_user()

    def make(count: int) -> None:
        for _ in range(count):
            run = make_learning_run(learned, status="done", replicate=learned.runs.count())
            measure_round(run.episodes.get(), 1, "ppf")

    assert_queries_flat(client, path(learned), make)
