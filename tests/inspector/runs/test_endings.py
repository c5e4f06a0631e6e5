"""Where rates stand, it is said how agents and authors ended."""

from __future__ import annotations

import pytest
from django.test import Client

from benchapp.models import Run
from runner.base.types import Source, Step
from tests.worlds.factories import (
    make_decision,
    make_episode,
    make_experiment,
    make_family,
    make_run,
    make_suite,
    make_task,
    make_trial,
    record_steps,
)

pytestmark = pytest.mark.django_db

SILENT = "2 of 2 trials never called a tool."
NO_SKILL = "0 of 1 author answer was usable: no library holds a skill, so this equals no-skill."


@pytest.fixture
def talker() -> Run:
    """A learned condition beside no-skill, of a model that only talks, as agent and as author."""
    suite = make_suite(environments=1)
    experiment = make_experiment(suite=suite)
    family = make_family(suite=suite)
    tasks = [make_task(family=family, role=role) for role in ("canonical", "context-shift")]
    for condition in ("no-skill", "selfgen-always"):
        run = make_run(experiment, condition=condition, author_model="small" if condition != "no-skill" else "")
        episode = make_episode(run)
        for task, phase in zip(tasks, ("acquisition", "deployment"), strict=True):
            trial = make_trial(episode, task, phase=phase, success=False, attempt={"exception_type": "NoToolCall"})
            record_steps(trial.counting_attempt(), [Step(1, Source.AGENT, "I would count.")])
    make_decision(episode, family, status="failed", error="no patch: <b>prose</b>")
    Run.objects.touch()
    return Run.objects.get(pk=run.pk)


def test_the_page_of_the_run_says_it(client: Client, talker: Run) -> None:
    text = client.get(talker.get_absolute_url()).text
    assert SILENT in text
    assert NO_SKILL in text
    told = client.get(f"/runs/{talker.public_id}.json").json()["endings"]
    assert told["never_called_a_tool"] == {"count": 2, "of": 2}
    assert (told["ends"], told["equals_no_skill"]) == ({"no tool call": 2}, True)
    assert told["author_answers"] == {"total": 1, "usable": 0, "skipped": 0}


def test_the_experiment_and_the_comparison_say_it_and_mark_the_condition(client: Client, talker: Run) -> None:
    for address in (talker.experiment.get_absolute_url(), "/compare/?since=2020-01-01"):
        text = client.get(address).text
        assert "How agents and authors ended" in text
        assert SILENT in text
        assert text.count("equals no-skill: no skill in any library") == 1
        answer = text[text.index('<section class="answer"') :]
        assert NO_SKILL in answer[: answer.index("</section>")]  # next to the verdict, not in a fold
    listed = client.get(f"/experiments/{talker.experiment.public_id}.json").json()
    assert [run["endings"]["equals_no_skill"] for run in listed["runs"]] == [False, True]
    groups = client.get("/compare.json?since=2020-01-01").json()["groups"]
    assert [group["endings"]["equals_no_skill"] for group in groups] == [False, True]


def test_the_list_of_trials_of_an_import_says_it_too(client: Client) -> None:
    run = make_run(make_experiment(origin="imported"), condition="unknown", replicate=None)
    episode = make_episode(run, is_ordered=False, protocol="")
    for _ in range(2):
        make_trial(episode, phase="evaluation", success=False, attempt={"exception_type": "limit:message"})
    Run.objects.touch()
    assert "2 of 2 trials ended at the turn limit." in client.get(run.get_absolute_url()).text
    assert client.get(f"/runs/{run.public_id}.json").json()["endings"]["ends"] == {"turn limit": 2}
