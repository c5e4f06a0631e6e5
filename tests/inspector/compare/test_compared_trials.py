from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from benchapp.models import Run, Trial
from runner.base.types import Check, CheckGroup, CheckStatus, Verdict
from tests.queries import assert_queries_flat
from tests.worlds.copies import built_once
from tests.worlds.factories import (
    make_episode,
    make_experiment,
    make_family,
    make_learning_run,
    make_run,
    make_suite,
    make_task,
    make_trial,
)

pytestmark = pytest.mark.django_db

# acquisition, deployment, replay: replay recovers T1, breaks T2, keeps T3 failed
OUTCOMES = (False, True, False, True, False, None, True, False, False)


@built_once
def make_world() -> Run:
    suite = make_suite(environments=1, families=2)
    return make_learning_run(make_experiment(suite=suite), condition="no-skill", author_model="", outcomes=OUTCOMES)


def listed(client: Client, query: str) -> list[dict[str, object]]:
    return client.get(f"/compare/trials.json?{query}").json()["trials"]


def test_it_lists_the_trials_of_a_metric_by_outcome(client: Client) -> None:
    make_world()
    data = client.get("/compare/trials.json?metric=ESR").json()
    assert (data["passed"], data["scored"], data["planned"], data["filter"]) == (2, 4, 6, {"covered": "ESR"})
    for outcome, count in (("passed", 2), ("failed", 2), ("unscored", 2)):
        assert len(listed(client, f"metric=ESR&outcome={outcome}")) == count


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("phase=replay", 6),
        ("environment=E1&phase=deployment", 6),
        ("family=E1-F2", 9),
        ("task=E1-F1-T1", 2),
        ("role=adversarial", 2),
        ("role=adversarial&family=E1-F1", 1),
        ("condition=selfgen-always", 0),
        ("author_model=", 18),
        ("family=", 0),
    ],
)
def test_it_narrows_by_every_part(client: Client, query: str, count: int) -> None:
    make_world()
    assert len(listed(client, query)) == count


def test_it_finds_trials_without_a_family(client: Client) -> None:
    make_world()
    alone = make_trial(phase="evaluation")
    assert [each["id"] for each in listed(client, "family=")] == [str(alone.public_id)]


@pytest.mark.parametrize(
    ("cell", "task"), [("fail_pass", "T1"), ("pass_fail", "T2"), ("fail_fail", "T3"), ("pass_pass", None)]
)
def test_it_lists_a_cell_of_replay_against_acquisition(client: Client, cell: str, task: str | None) -> None:
    make_world()
    found = listed(client, f"replay={cell}")
    assert [each["task"] for each in found] == ([f"E1-F1-{task}", f"E1-F2-{task}"] if task else [])
    for each in found:
        first = Trial.objects.get(public_id=each["first_try"])
        assert (first.phase, first.task.key) == ("acquisition", each["task"])
        assert (first.success, each["success"]) == (cell.startswith("pass"), cell.endswith("pass"))


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("outcome=nice", "outcome: 'nice' is unknown, expected one of passed, failed, unscored"),
        ("famly=E1-F1", "famly: no such choice"),
        ("metric=XSR", "metric: 'XSR' is unknown"),
        ("replay=maybe", "replay: 'maybe' is unknown"),
        ("phase=late", "phase: 'late' is unknown"),
        ("experiment=7", "experiment: '7' is unknown"),
        ("sort=luck", "sort: 'luck' is unknown"),
    ],
)
def test_it_shows_nothing_where_a_part_is_not_understood(client: Client, query: str, says: str) -> None:
    make_world()
    response = client.get(f"/compare/trials.json?{query}")
    assert (response.status_code, response.json()["trials"]) == (400, [])
    assert any(problem.startswith(says) for problem in response.json()["problems"])
    page = client.get(f"/compare/trials/?{query}")
    assert page.status_code == 400
    assert escape(says) in page.text
    assert "/trials/" not in page.text.replace("/compare/trials", "")


def test_it_says_the_filter_in_words_and_takes_each_part_away(client: Client) -> None:
    run = make_world()
    experiment = run.experiment
    query = f"experiment={experiment.public_id}&condition=no-skill&metric=ESR&family=E1-F1&outcome=failed"
    response = client.get(f"/compare/trials/?{query}")
    chips = dict(response.context["chips"])
    assert [text for text in chips if text.startswith("counted by Deployment success")]
    assert f"experiment {experiment.name}" in chips
    assert client.get(f"/compare/trials.json{chips['family E1-F1']}").json()["filter"] == {
        "covered": "ESR",
        "outcome": "failed",
    }
    assert "condition=" not in chips["condition No skill"]
    assert f"experiment={experiment.public_id}" in chips["failed"]
    for text in chips:
        assert text in response.text


def test_it_sorts_and_puts_what_is_not_known_last(client: Client) -> None:
    make_world()
    Trial.objects.update(turns=4)
    first, second = Trial.objects.all()[:2]
    Trial.objects.filter(pk=first.pk).update(turns=None)
    Trial.objects.filter(pk=second.pk).update(turns=9)
    for sort in ("turns", "-turns"):
        assert listed(client, f"sort={sort}")[-1]["turns"] is None
    assert listed(client, "sort=-turns")[0]["turns"] == 9


def test_it_shows_a_trial_settled_after_the_pin_as_planned(client: Client) -> None:
    make_world()
    pin = timezone.now()
    late = Trial.objects.filter(phase="deployment", success=True).first()
    Trial.objects.filter(pk=late.pk).update(settled_at=pin + timedelta(minutes=1))
    stamp = pin.isoformat().replace("+00:00", "Z")
    data = client.get(f"/compare/trials.json?metric=ESR&as_of={stamp}").json()
    assert (data["passed"], data["scored"], data["planned"]) == (1, 3, 6)
    shown = next(each for each in data["trials"] if each["id"] == str(late.public_id))
    assert (shown["settled_after_pin"], shown["success"], shown["reward"], shown["status"]) == (True, None, None, None)
    assert str(late.public_id) in {each["id"] for each in listed(client, f"as_of={stamp}&outcome=unscored")}
    assert "scored after the pin" in client.get(f"/compare/trials/?metric=ESR&as_of={stamp}").text


def test_it_leaves_out_tainted_episodes_only_where_a_metric_does(client: Client) -> None:
    run = make_world()
    run.episodes.update(is_tainted=True)
    assert len(listed(client, "phase=deployment")) == 6
    assert listed(client, "metric=ESR") == []


def test_it_escapes_names(client: Client) -> None:
    hostile = '<img src=x onerror="alert(1)">'
    run = make_run(make_experiment(name=hostile), condition=hostile, agent_model=hostile)
    make_trial(make_episode(run), make_family(name=hostile).tasks.first())
    text = client.get("/compare/trials/", {"condition": hostile, "family": "", "task": ""}).text
    assert "<img" not in text
    assert "<img" not in client.get("/compare/trials/", {"condition": hostile}).text


def test_it_pages_and_its_twin_says_where_the_next_page_is(client: Client) -> None:
    episode = make_episode()
    make_trial(episode)
    suite = Trial.objects.get().task.suite
    Trial.objects.bulk_create(
        Trial(episode=episode, task=make_task(suite=suite), phase="deployment") for _ in range(105)
    )
    first = client.get("/compare/trials.json?phase=deployment").json()
    assert (len(first["trials"]), first["planned"]) == (100, 105)
    assert len(client.get(first["next"]).json()["trials"]) == 5


@pytest.mark.parametrize("query", ["metric=RSR", "replay=fail_pass", "sort=-cost"])
def test_it_asks_no_more_of_the_database_for_more_trials(client: Client, query: str) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))

    def make(count: int) -> None:
        for _ in range(count // 2):
            make_learning_run(experiment, condition="no-skill", outcomes=OUTCOMES)

    assert assert_queries_flat(client, f"/compare/trials/?{query}", make) <= 9  # three of them say why trials failed


def test_it_says_what_failed_and_what_a_trial_is_held_against(client: Client) -> None:
    """The first failed check and how many more; what ended the agent where no check spoke."""
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite)
    task = suite.environments.get().families.get().tasks.get(role="adversarial")
    episode = make_episode(make_run(experiment, condition="no-skill"), environment=suite.environments.get())
    make_trial(episode, task, phase="deployment", verdict=Verdict("suite", success=True))
    other = make_episode(make_run(experiment, condition="selfgen-always"), environment=suite.environments.get())
    names = (("rows are there", CheckStatus.PASSED), ("<b>sum</b>", CheckStatus.FAILED), ("order", CheckStatus.FAILED))
    checks = tuple(Check(CheckGroup.HIDDEN, name, status, "") for name, status in names)
    make_trial(other, task, phase="deployment", verdict=Verdict("suite", success=False, checks=checks))
    text = client.get("/compare/trials/?outcome=regressions").text
    assert "&lt;b&gt;sum&lt;/b&gt; and 1 more" in text
    assert "compared with the baseline’s trial of the same task: same phase, same sample, same" in text
    assert '<p class="sub">1 trial</p>' in text
    assert '<p class="says' not in text


def test_filters_are_said_in_the_words_of_the_rows(client: Client) -> None:
    """Addresses keep the codes."""
    make_world()
    text = client.get("/compare/trials/?role=adversarial&condition=no-skill").text
    assert "<span>role trap</span>" in text
    assert "<span>condition No skill</span>" in text
    assert "role=adversarial" in text
