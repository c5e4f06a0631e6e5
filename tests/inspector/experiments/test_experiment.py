from __future__ import annotations

import re

import pytest
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from benchapp.experiments.foresight import Amount
from benchapp.models import Blob, Episode, Experiment, Run
from tests.queries import assert_queries_flat
from tests.worlds.factories import (
    make_episode,
    make_experiment,
    make_learning_run,
    make_run,
    make_suite,
    make_trial,
    make_unordered_episode,
)

pytestmark = pytest.mark.django_db

T, F = True, False


def twin(client: Client, run: Run) -> dict[str, object]:
    return client.get(f"/experiments/{run.experiment.public_id}.json").json()


def page(client: Client, run: Run) -> str:
    return client.get(run.experiment.get_absolute_url()).text


def test_it_lays_conditions_beside_metrics(client: Client) -> None:
    suite = make_suite(environments=1, families=2)
    experiment = make_experiment(suite=suite)
    make_learning_run(experiment, condition="no-skill", outcomes=(T, F, F, T, F, F, T, F, F))
    run = make_learning_run(experiment, condition="selfgen-always", outcomes=(T, T, F, T, T, None, T, T, T))
    first, second = twin(client, run)["groups"]
    assert (first["condition"], second["condition"]) == ("no-skill", "selfgen-always")
    assert first["metrics"]["LSR"]["passed"] == 2
    assert second["metrics"]["ESR"] == {
        "value": 1.0,
        "passed": 4,
        "scored": 4,
        "planned": 6,
        "low": None,
        "high": None,
        "replicates": [1.0],
    }
    assert (first["baseline"], first["differences"]) == (None, {})
    difference = second["differences"]["ESR"]
    assert (second["baseline"], difference["tasks"], difference["dropped"]) == ("no-skill", 4, 2)
    assert difference["sentence"].startswith(
        "Deployment success: Self-written, always revised solved 4 of 4 tasks, No skill 2 of 4 of the same"
    )


def test_it_says_how_many_of_the_planned_were_scored(client: Client) -> None:
    run = make_learning_run(families=2, outcomes=(T, F, F, T, T, None, T, T, T))
    assert re.search(r"<small[^>]*>4/4 of 6</small>", " ".join(page(client, run).split()))


def test_it_gives_an_interval_from_ten_on(client: Client) -> None:
    run = make_learning_run(families=4, outcomes=(T, F, F, T, T, F, T, T, T))
    text = page(client, run)
    assert "<b>33</b>" in text
    assert 'class="whisker"' in text
    assert "Reruns were not measured." in text


def test_it_adds_up_replicates_and_says_so(client: Client) -> None:
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite)
    runs = [make_learning_run(experiment, replicate=number) for number in (1, 2)]
    (row,) = twin(client, runs[0])["groups"]
    assert row["runs"] == [str(run.public_id) for run in runs]
    assert row["metrics"]["LSR"]["planned"] == 6
    assert "counts are added up" in page(client, runs[0])


def test_it_leaves_tainted_episodes_out_and_says_so(client: Client) -> None:
    run = make_learning_run(environments=2, families=1)
    Episode.objects.filter(pk=run.episodes.first().pk).update(is_tainted=True)
    data = twin(client, run)
    assert data["tainted_episodes"] == 1
    assert data["groups"][0]["metrics"]["LSR"]["planned"] == 3
    text = " ".join(re.sub("<[^>]+>", " ", page(client, run)).split())
    assert re.search("1 tainted .*episode left out: an operator skipped", text)


def test_it_names_setups_that_differ(client: Client) -> None:
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite)
    make_learning_run(experiment, setup={"compactor": "1"})
    run = make_learning_run(experiment, condition="no-skill", setup={"compactor": "2"})
    assert twin(client, run)["setup"] == {"differs": ["compactor"], "unknown": 0}
    assert "setups differ in compactor" in page(client, run)


def test_a_row_says_when_its_replicates_or_its_baseline_are_not_quite_its_own(client: Client) -> None:
    suite = make_suite(environments=1, families=1)
    make_learning_run(make_experiment(suite=suite, name="the lender"), condition="no-skill", author_model="")
    experiment = make_experiment(suite=suite)
    for number in (1, 2):
        make_learning_run(experiment, replicate=number, setup_digest=str(number) * 64)
    text = client.get(f"/compare/?suite={suite.key}").text
    assert "of different setups" in text
    assert "baseline of the lender" in text


def test_it_lists_imported_runs_by_what_is_known(client: Client) -> None:
    run = make_run(make_experiment(origin="imported"), condition="unknown", agent_model="unknown", replicate=None)
    episode = make_unordered_episode(run)
    make_trial(episode, phase="evaluation", success=True, attempt={"cost_usd": None})
    make_trial(episode, phase="evaluation", success=None, attempt={"cost_usd": None, "input_tokens": None})
    data = twin(client, run)
    assert [group["metrics"]["completion"]["scored"] for group in data["groups"]] == [1]
    (member,) = data["runs"]
    assert member["trials"] == {"total": 2, "done": 2, "scored": 1, "passed": 1}
    assert (member["mean_reward"], member["rewards"]) == (1.0, 1)
    assert (member["spent"]["cost_usd"], member["spent"]["tokens_known"]) == (None, 1)
    assert (member["spent"]["input_known"], member["spent"]["output_known"]) == (1, 2)
    text = client.get(f"/compare/runs/?experiment={run.experiment.public_id}").text
    assert "condition unknown" in text
    assert "of 1/2" in text
    assert "$0.00" not in text


def spell(client: Client, address: str) -> str:
    """The page's words."""
    return " ".join(re.sub("<[^>]+>", " ", client.get(address).text).split())


def test_what_was_spent_stands_beside_what_was_estimated(client: Client) -> None:
    whole = {"tokens": Amount(9000, 2, 2).as_json(), "cost_usd": Amount(1.5, 1, 2).as_json()}
    episode = make_episode(make_run(make_experiment(estimate={"arms": [], "whole": whole})))
    make_trial(episode, attempt={"cost_usd": 0.25, "input_tokens": 400, "output_tokens": 100})
    for number, cost in enumerate((0.5, None)):
        episode.calls.create(
            key=str(number), purpose="author", model="m", request_id=Blob.objects.put(b"{}"),
            started_at=timezone.now(), input_tokens=50, output_tokens=10, cost_usd=cost,
        )  # fmt: skip
    data = twin(client, episode.run)
    assert data["spent"] == {"usd": 0.75, "estimated_usd": None, "tokens": 620, "unknown_cost": 1, "unknown_tokens": 0}
    assert data["estimate"] == whole
    spaced = spell(client, f"/compare/cost/?experiment={episode.run.experiment.public_id}")
    assert "Money $0.75 and 1 of unknown cost Tokens 620" in spaced
    assert "Estimated $1.50 for 1 of 2 parts , 9.0k tokens" in spaced


def test_tokens_that_are_known_in_part_are_called_a_least_on_every_page_that_adds_them(client: Client) -> None:
    episode = make_episode(make_run(make_experiment()))
    make_trial(episode, attempt={"input_tokens": 900, "output_tokens": 100})
    known_in_part = {"input_tokens": None, "output_tokens": None, "input_at_least": 1_300, "output_at_least": 60}
    make_trial(episode, attempt=known_in_part)
    data = twin(client, episode.run)
    assert (data["spent"]["tokens"], data["spent"]["unknown_tokens"]) == (2_360, 1)
    chosen = f"?experiment={episode.run.experiment.public_id}"
    assert "Tokens at least 2.4k" in spell(client, f"/compare/cost/{chosen}")
    spaced = spell(client, f"/compare/runs/{chosen}")
    assert "at least 2.2k" in spaced, "of the run, in"
    assert "at least 160" in spaced, "of the run, out"
    assert "at least 2.2k" in spell(client, episode.run.get_absolute_url())
    home = spell(client, "/")
    assert "at least 2.4k tokens" in home or "$" in home


def test_what_was_not_launched_here_has_no_estimate(client: Client) -> None:
    run = make_run(make_experiment(origin="imported"))
    assert twin(client, run)["estimate"] is None
    assert "<dt>Estimated</dt>" not in page(client, run)


def test_it_turns_pages_of_conditions_and_of_runs(client: Client) -> None:
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite)
    task = suite.tasks.first()
    for number in range(45):
        run = make_run(experiment, condition=f"condition {number}")
        make_trial(make_episode(run), task, finished=False)
    first = twin(client, run)
    assert (len(first["groups"]), len(first["runs"]), first["runs_total"]) == (15, 25, 45)
    second = client.get(first["groups_next"]).json()
    assert len(second["groups"]) == 15
    assert second["runs"] == first["runs"]
    assert len(client.get(first["next"]).json()["runs"]) == 20
    assert client.get(second["groups_next"]).json()["groups_next"] is None
    assert 'href="?groups=2"' in page(client, run)


def test_it_is_gone_once_deleted(client: Client) -> None:
    run = make_run(make_experiment(deleted_at=timezone.now()))
    assert client.get(run.experiment.get_absolute_url()).status_code == 404
    assert client.get(f"/runs/{run.public_id}/").status_code == 404


def test_its_queries_do_not_grow(client: Client) -> None:
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite)

    def make(count: int) -> None:
        for number in range(count):
            make_learning_run(experiment, replicate=experiment.runs.count() + number)

    # reader, experiment, runs twice, their experiment and its suite, episodes, trials, tasks, spending of agents and
    # of authors, three of how they ended, the rounds of their libraries and the probes of these
    assert assert_queries_flat(client, experiment.get_absolute_url(), make) == 19


def test_it_shows_the_file_it_was_launched_from_and_none_for_an_import(client: Client) -> None:
    spec = {"name": "<b>x</b>", "conditions": ["no-skill"], "replicates": 3}
    ours = make_experiment(spec=spec)
    text = client.get(ours.get_absolute_url()).text
    assert "replicates: 3" in text
    assert "<b>x</b>" not in text
    assert f"/launch/?from={ours.public_id}" in text
    assert "replicates: 3" in client.get(f"/experiments/{ours.public_id}.json").json()["file"]
    imported = make_experiment(spec=spec, origin="imported")
    assert client.get(f"/experiments/{imported.public_id}.json").json()["file"] is None


def test_it_says_why_episodes_stand_still(client: Client) -> None:
    run = make_learning_run(make_experiment(suite=make_suite(environments=3, families=1)))
    for episode in run.episodes.all()[:2]:
        episode.status, episode.blocked_reason = "blocked", "<b>KeyRefused</b>: no\n\nTraceback: x"
        episode.save()
    experiment = run.experiment
    experiment.origin, experiment.status = "run", "blocked"
    experiment.save()
    text = page(client, run)
    assert "2 episodes blocked</a>: &lt;b&gt;KeyRefused&lt;/b&gt;: no" in text
    assert "Traceback" not in text
    (told,) = twin(client, run)["standing_still"]
    assert (told["status"], told["episodes"]) == ("blocked", 2)


def poll(client: Client, run: Run, seen: object) -> HttpResponse:
    address = f"{run.experiment.get_absolute_url()}?seen={seen}"
    return client.get(address, headers={"HX-Request": "true", "HX-Target": "live"})


def test_an_open_experiment_counts_on_and_loads_again_for_its_first_result_and_its_end(client: Client) -> None:
    run = make_run(make_experiment(status=Experiment.Status.RUNNING))
    episode = make_unordered_episode(run)
    make_trial(episode, finished=False)
    assert '?seen=0" hx-trigger="every 3s"' in page(client, run)
    waiting = poll(client, run, seen=0)
    assert "<b>0</b>/1 trials" in waiting.text
    assert "HX-Refresh" not in waiting.headers
    for _ in range(2):
        make_trial(episode, success=True)
    assert poll(client, run, seen=0).headers["HX-Refresh"] == "true"
    later = poll(client, run, seen=1)
    assert "Show 1 new trial<" in later.text
    assert "HX-Refresh" not in later.headers
    Experiment.objects.update(status=Experiment.Status.DONE)
    assert poll(client, run, seen="1" * 5_000).status_code == 200  # a number that Python refuses to read
    ended = poll(client, run, seen=2)
    assert ended.headers["HX-Refresh"] == "true"
    assert "hx-trigger" not in ended.text
    assert "hx-trigger" not in page(client, run).partition('id="live"')[2].partition(">")[0]


def test_what_asked_no_model_says_so_and_cost_nothing(client: Client) -> None:
    run = make_run(agent_model="", author_model="", harness="oracle", setup_digest="d" * 64)
    unknown = {"input_tokens": None, "output_tokens": None, "cost_usd": None}
    make_trial(make_unordered_episode(run), phase="evaluation", success=True, attempt=unknown)
    assert twin(client, run)["spent"] == {
        "usd": 0.0,
        "estimated_usd": None,
        "tokens": 0,
        "unknown_cost": 0,
        "unknown_tokens": 0,
    }
    text = page(client, run)
    assert "No model took part: the tasks&#x27; own solutions ran, or nothing at all." in text
    assert "· </p>" not in text
    assert ">no model</span>" in client.get("/").text


def test_the_button_beside_the_answer_adds_what_is_missing(client: Client) -> None:
    run = make_learning_run(
        make_experiment(origin="run", spec={"name": "x"}, status="done"), condition="no-skill", outcomes=(T,) * 9
    )
    assert "Add a condition with skills" in page(client, run)
    assert ">Add conditions</a>" in page(client, run)
    Experiment.objects.update(status=Experiment.Status.RUNNING)
    assert ">Add conditions</a>" not in page(client, run)
