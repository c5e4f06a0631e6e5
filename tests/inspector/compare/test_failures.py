"""`/compare/failures/`: refusals by class and source, their trials, what is withheld and what is no refusal."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.analysis.failures.failure_reading import KEPT
from benchapp.models import Experiment, Family, Run, Task, Trial
from runner.base.types import Check, CheckGroup, CheckStatus, Observation, Source, Step, ToolCall, Verdict
from tests.queries import assert_queries_flat
from tests.worlds.factories import (
    make_environment,
    make_episode,
    make_experiment,
    make_run,
    make_suite,
    make_task,
    make_trial,
    make_user,
    record_steps,
)
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db

NUMBER, WORD, MODULE = "expected 41, got 42", "expected 'hold', got 'release'", "No module named 'yaml'"


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    KEPT.clear()


def make_corpus(experiment: Experiment | None = None, kind: str = "domain-document") -> tuple[Run, Task]:
    experiment = experiment or make_experiment(suite=make_suite())
    environment = make_environment(experiment.suite, kind=kind)
    family = Family.objects.create(suite=experiment.suite, environment=environment, key=environment.key, name="tasks")
    run = make_run(experiment, condition="naive-prompt")
    make_episode(run, environment=environment)
    return run, make_task(family=family)


def refuse(run: Run, task: Task, *messages: str, name: str = "check", **fields: Any) -> Trial:
    checks = tuple(
        Check(CheckGroup.HIDDEN, f"{name} {place}", CheckStatus.FAILED, text) for place, text in enumerate(messages)
    )
    verdict = Verdict(source="suite", success=False, checks=checks, output=fields.pop("output", ""))
    sample = Trial.objects.filter(episode__run=run, task=task).count()
    return make_trial(run.episodes.get(), task, phase="deployment", verdict=verdict, sample=sample + 1, **fields)


def twin(client: Client, **query: str) -> dict[str, Any]:
    return client.get(reverse("compare-failures-json"), query).json()


def test_it_counts_classes_by_source_and_shows_what_was_said(client: Client) -> None:
    run, task = make_corpus()
    other, repository = make_corpus(run.experiment, "repository")
    refuse(run, task, NUMBER, NUMBER, WORD)
    refuse(run, task, WORD)
    told = refuse(other, repository, f"ModuleNotFoundError: {MODULE}", name="run: case")
    data = twin(client)
    rows = {row["title"]: row for row in data["sources"]}
    assert rows["Domain Doc"]["primary"]["numeric/formula"] == 1
    assert rows["Domain Doc"]["primary"]["state/rule"] == 1
    assert rows["Domain Doc"]["beside_another"]["state/rule"] == 1
    assert rows["Code Repo"]["primary"]["runtime/dependency"] == 1
    (sign, *_) = next(each for each in data["trials"] if each["trial"] == str(told.public_id))["signs"]
    assert (sign["check"], sign["quote"]) == ("run: case 0", f"ModuleNotFoundError: {MODULE}")
    page = client.get(reverse("compare-failures")).content.decode()
    assert "Domain Doc" in page
    assert told.get_absolute_url() in page


def test_the_table_says_how_many_of_all_failed_trials_it_counts(client: Client) -> None:
    run, task = make_corpus()
    refuse(run, task, NUMBER)
    refuse(run, task, NUMBER, attempt={"exception_type": "AgentTimeoutError"})
    make_trial(run.episodes.get(), make_task(family=task.family), phase="acquisition", success=False)
    text = client.get(reverse("compare-failures")).text
    assert "Counts 1 of 3 failed trials: those tried after acquisition whose agent finished." in text


def test_a_count_leads_to_its_trials(client: Client) -> None:
    run, task = make_corpus()
    number, word = refuse(run, task, NUMBER), refuse(run, task, WORD)
    page = client.get(reverse("compare-failures")).content.decode()
    assert "class=numeric%2Fformula&amp;source=domain-document" in page
    listed = twin(client, **{"class": "numeric/formula", "source": "domain-document"})["trials"]
    assert [each["trial"] for each in listed] == [str(number.public_id)]
    assert [each["trial"] for each in twin(client, **{"class": "state/rule"})["trials"]] == [str(word.public_id)]


def test_a_count_of_a_condition_leads_to_its_trials_alone(client: Client) -> None:
    run, task = make_corpus()
    refuse(run, task, NUMBER)
    other = make_run(run.experiment, condition="plug-in")
    make_episode(other, environment=run.episodes.get().environment)
    refuse(other, task, NUMBER)
    page = client.get(reverse("compare-failures")).text
    (address,) = set(re.findall(r'href="([^"#]*condition=plug-in[^"#]*class=numeric[^"#]*)', page))
    listed = client.get(unescape(address).replace("/?", ".json?")).json()["trials"]
    assert [each["group"] for each in listed] == ["plug-in"]


def test_what_ended_early_passed_or_has_no_verdict_is_no_refusal(client: Client) -> None:
    run, task = make_corpus()
    refuse(run, task, NUMBER, attempt={"exception_type": "AgentTimeoutError"})
    make_trial(run.episodes.get(), make_task(family=task.family), phase="deployment", success=True)
    make_trial(run.episodes.get(), make_task(family=task.family), phase="deployment", success=None)
    make_trial(run.episodes.get(), make_task(family=task.family), phase="acquisition", success=False)
    data = twin(client)
    assert (data["refused"], data["unfinished"]) == (0, 1)


def test_what_ended_an_agent_is_counted_by_its_kind(client: Client) -> None:
    run, task = make_corpus()
    for kind in ("TurnLimit", "TurnLimit", "NoToolCall", "ContextLimit", "RewardFileNotFoundError"):
        refuse(run, task, NUMBER, attempt={"exception_type": kind})
    data = twin(client)
    assert data["ends"] == {"turn limit": 2, "context limit": 1, "no tool call": 1, "machinery": 1}
    assert (data["refused"], data["unfinished"]) == (0, 5)
    text = client.get(reverse("compare-failures")).text
    assert "<b>2</b> turn limit, <b>1</b> context limit, <b>1</b> no tool call, <b>1</b> machinery." in text


def test_where_checks_say_nothing_the_output_and_the_last_steps_do(client: Client) -> None:
    run, task = make_corpus()
    refuse(run, task, "", output=NUMBER)
    trial = refuse(run, task, "it is not good")
    error = Observation(f"ModuleNotFoundError: {MODULE}", "c", is_error=True)
    steps = [
        Step(
            number,
            Source.AGENT,
            tool_calls=(ToolCall("c", "shell", {"command": "python a.py"}),),
            observations=(error,),
        )
        for number in (1, 2, 3)
    ]
    record_steps(trial.counting_attempt(), steps)
    Run.objects.filter(pk=run.pk).touch()
    listed = {each["trial"]: each for each in twin(client)["trials"]}
    assert {each["class"] for each in listed.values()} == {"numeric/formula", "runtime/dependency"}
    assert listed[str(trial.public_id)]["signs"][0]["step"] == 3


def test_unclassified_is_a_column(client: Client) -> None:
    run, task = make_corpus()
    refuse(run, task, "it is not good")
    (row,) = twin(client)["sources"]
    assert row["primary"]["unclassified"] == row["total"] == 1


def test_a_marker_at_the_beginning_of_a_long_message_is_read(client: Client) -> None:
    run, task = make_corpus()
    refuse(run, task, "columns: 'total' is absent\n" + "x" * 9_000, name="precheck: answer")
    assert twin(client)["trials"][0]["class"] == "interface/schema"


def test_hostile_words_are_shown_as_they_are(client: Client) -> None:
    run, task = make_corpus()
    refuse(run, task, "KeyError: '<script>alert(1)</script>'", name="<b>x</b>")
    page = client.get(reverse("compare-failures")).content.decode()
    assert "<script>alert" not in page
    assert "<b>x</b>" not in page


def test_trials_that_a_reader_still_reviews_blind_are_withheld(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    reader = make_user(username="ada", level="reviewer")
    client.force_login(reader)
    run, task = make_corpus()
    trial = refuse(run, task, NUMBER)
    make_queue([trial], reviewers=[reader])
    data = twin(client)
    assert (data["refused"], data["withheld"], data["trials"]) == (0, 1, [])


def test_it_asks_no_more_for_more_refusals(client: Client) -> None:
    run, task = make_corpus()

    def make(count: int) -> None:
        for _ in range(count):
            refuse(run, task, NUMBER)
            refuse(run, task, "it is not good")
            refuse(run, task, "", output=WORD)

    assert_queries_flat(client, reverse("compare-failures"), make)
