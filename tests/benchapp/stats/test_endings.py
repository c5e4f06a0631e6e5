"""What a run's rates do not tell: agents that never acted, limits that ended them, authors without a usable answer."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.analysis.failures.run_endings import KEPT, Endings, describe_endings, read_endings
from benchapp.models import Episode, Family, Run
from benchapp.stats.metrics.agent_ends import AgentEnd
from runner.base.types import Source, Step, ToolCall
from runner.engine.author_step import LEFT_OUT
from tests.worlds.factories import (
    make_decision,
    make_episode,
    make_experiment,
    make_family,
    make_run,
    make_snapshot,
    make_suite,
    make_trial,
    record_steps,
)

pytestmark = pytest.mark.django_db

TALK = Step(1, Source.AGENT, "I would count the lines.")
CALL = Step(1, Source.AGENT, tool_calls=(ToolCall("c", "shell", {"command": "wc -l a.csv"}),))


def make_learning(**fields: Any) -> Episode:
    return make_episode(make_run(make_experiment(suite=make_suite(environments=1)), **fields))


def work(episode: Episode, *steps: Step, times: int = 1, ended: str = "", source_format: str = "ATIF-v1.8") -> None:
    for _ in range(times):
        trial = make_trial(episode, success=False, attempt={"exception_type": ended})
        if steps:
            record_steps(trial.counting_attempt(), steps, source_format=source_format)


def answer(episode: Episode, *statuses: str, family: Family | None = None, error: str = "") -> Family:
    family = family or make_family(suite=episode.run.experiment.suite)
    for status in statuses:
        make_decision(episode, family, status=status, error=error)
    return family


def found(episode: Episode) -> Endings:
    Run.objects.touch()
    return read_endings([Run.objects.get(pk=episode.run_id)])[episode.run_id]


def test_trials_without_a_tool_call_are_counted_where_their_trajectory_tells() -> None:
    episode = make_learning()
    work(episode, TALK, times=3, ended="NoToolCall")
    work(episode, CALL)
    work(episode)  # no trajectory to read
    work(episode, TALK, source_format="plain-text")  # paragraphs: whether it called a tool is unknown
    seen = found(episode)
    assert (seen.trials, seen.observed, seen.silent) == (6, 4, 3)
    assert seen.sentences == ("3 of 4 trials never called a tool.",)  # the type that ended them is not said again


def test_agents_that_ask_no_model_call_no_tool_and_nothing_is_said() -> None:
    episode = make_learning(harness="nop")
    work(episode, TALK, times=3)
    assert found(episode).sentences == ()


def test_ends_are_told_from_a_tenth_of_the_trials_on() -> None:
    episode = make_learning()
    work(episode, CALL, times=8)
    work(episode, CALL, times=2, ended="TurnLimit")
    assert found(episode).sentences == ("2 of 10 trials ended at the turn limit.",)
    work(episode, CALL, times=11)
    seen = found(episode)
    assert (seen.sentences, dict(seen.ends)) == ((), {AgentEnd.TURNS: 2})
    assert seen.as_json()["ends"] == {"turn limit": 2}


def test_an_agent_that_called_tools_before_it_stopped_is_told_by_its_end() -> None:
    episode = make_learning()
    work(episode, CALL, times=2, ended="NoToolCall")
    assert found(episode).sentences == ("2 of 2 trials ended with replies that called no tool.",)


def test_an_author_without_a_usable_answer_makes_the_condition_equal_to_no_skill() -> None:
    episode = make_learning()
    answer(episode, "failed", "rejected", "failed")
    seen = found(episode)
    assert seen.equals_no_skill
    assert seen.sentences == ("0 of 3 author answers were usable: no library holds a skill, so this equals no-skill.",)
    Run.objects.filter(pk=episode.run_id).update(status="running")
    assert "were usable so far: no library" in found(episode).sentences[0]


def test_answers_that_change_nothing_are_usable_and_make_no_skill() -> None:
    episode = make_learning()
    answer(episode, "no-op", "failed")
    (said,) = found(episode).sentences
    assert (
        said
        == "1 of 2 author answers were usable and none made a skill: no library holds a skill, so this equals no-skill."
    )


def test_curated_skills_that_no_answer_changed_are_not_called_no_skill() -> None:
    episode = make_learning()
    answer(episode, "failed", "failed", "rejected")
    Episode.objects.update(library=make_snapshot({"sums/SKILL.md": "# Sums"}))
    seen = found(episode)
    assert not seen.equals_no_skill
    assert seen.sentences == ("0 of 3 author answers were usable: the library stayed as it was.",)


def test_one_family_without_a_usable_answer_is_named() -> None:
    episode = make_learning()
    answer(episode, "applied", "applied", "applied")
    lost = answer(episode, "failed", "rejected")
    assert found(episode).sentences == (f"No author answer was usable in 1 of 2 families: {lost.name}.",)


def test_answers_that_an_operator_skipped_are_told() -> None:
    episode = make_learning()
    family = answer(episode, "applied", "applied")
    answer(episode, "failed", family=family, error=f"{LEFT_OUT}ada: too long")
    seen = found(episode)
    assert (seen.asked, seen.usable, seen.left_out) == (3, 2, 1)
    assert seen.sentences == ("An operator skipped 1 author answer.",)


def test_a_run_without_an_author_or_trials_says_nothing() -> None:
    assert found(make_learning(author_model="", condition="no-skill")).sentences == ()


def test_replicates_are_added_up_and_those_without_a_skill_counted() -> None:
    lost, learned = found_lost(), Endings(trials=4, observed=4, skills=True)
    assert describe_endings([lost, learned])[0] == (
        "1 of 2 replicates have no skill in any library, so these equal no-skill."
    )
    assert describe_endings([lost, lost])[0].startswith("0 of 4 author answers were usable: no library holds a skill")
    assert describe_endings([learned]) == ()


def found_lost() -> Endings:
    episode = make_learning()
    answer(episode, "failed", "failed")
    return found(episode)


def test_it_takes_three_queries_for_any_number_of_runs_and_none_for_what_it_knows() -> None:
    episodes = [make_learning() for _ in range(6)]
    for episode in episodes:
        work(episode, CALL, times=2)
        answer(episode, "failed")
    runs = list(Run.objects.select_related("experiment"))
    with CaptureQueriesContext(connection) as captured:
        read_endings(runs)
        read_endings(runs)
    assert len(captured) == 3
    assert not [query for query in captured if "blob" in query["sql"].replace("blob_id", "")]


def test_a_new_process_finds_the_same_without_counting() -> None:
    episode = make_learning()
    work(episode, TALK, times=2, ended="NoToolCall")
    work(episode, CALL, ended="TurnLimit")
    answer(episode, "failed", "applied")
    Run.objects.filter(pk=episode.run_id).update(status=Run.Status.DONE)
    first = found(episode)
    assert (first.silent, first.ends[AgentEnd.NO_CALL], first.ends[AgentEnd.TURNS], first.usable) == (2, 2, 1, 1)
    KEPT.clear()
    run = Run.objects.select_related("experiment").get(pk=episode.run_id)
    with CaptureQueriesContext(connection) as captured:
        assert read_endings([run]) == {run.pk: first}
    assert len(captured) == 0
