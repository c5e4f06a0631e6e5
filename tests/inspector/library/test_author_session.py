"""What the author saw, where an agent worked for the answer: its session in the reader of trials."""

from __future__ import annotations

import pytest
from django.http import QueryDict
from django.test import Client

from benchapp.models import Run, Trajectory
from benchapp.record.record_digest import record_digest
from benchapp.review.comments import NoSuchPlace, place_of
from benchapp.search.indexing import KINDS
from inspector.web.access import local_user
from runner.base.types import Observation, Source, Step, ToolCall
from tests.inspector.library.test_author_call import decide, url
from tests.queries import count_queries
from tests.worlds.author_sessions import STEPS, add_session

pytestmark = pytest.mark.django_db


def many(count: int) -> list[Step]:
    return [
        Step(n, Source.AGENT, f"said <b>{n}</b>", tool_calls=(ToolCall("c", "shell", {"command": f"echo {n}"}),),
             observations=(Observation(f"out {n}", "c"),))
        for n in range(1, count + 1)
    ]  # fmt: skip


def test_the_session_is_read_step_by_step_with_its_turns_tokens_and_cost(client: Client) -> None:
    decision = decide(steps=2)
    add_session(decision)
    page = client.get(url(decision)).text
    assert "The agent's work (3 steps)" in page
    shown = client.get(url(decision, "&show=session")).text
    assert "<b>Claude Code</b> 2.1 worked for this answer in <b>2</b> turns" in shown
    assert "1.2k tokens in" in shown
    assert "$0.50" in shown
    assert 'id="step-3"' in shown
    assert "skills/tidy/SKILL.md" in shown


def test_where_the_model_was_asked_once_there_is_no_such_tab_and_no_such_page(client: Client) -> None:
    decision = decide(steps=2)
    assert "The agent's work" not in client.get(url(decision)).text
    assert "its model was asked once" in client.get(url(decision, "&show=session")).text
    found = client.get(url(decision, name="author-call-json")).json()
    assert (found["session_steps"], found["session"]) == (None, None)


def test_what_a_limit_or_a_link_did_is_said_above_the_steps(client: Client) -> None:
    told = {"rule": "author-session", "path": "", "message": "TurnLimit: <i>enough</i>", "severity": "warning"}
    decision = decide(steps=2, findings=[told])
    add_session(decision)
    assert "TurnLimit: &lt;i&gt;enough&lt;/i&gt;" in client.get(url(decision, "&show=session")).text


def test_a_long_session_comes_in_pieces_and_its_text_is_escaped(client: Client) -> None:
    decision = decide(steps=2)
    add_session(decision, many(130))
    first = client.get(url(decision, "&show=session")).text
    assert 'id="step-30"' in first
    assert 'id="step-31"' not in first
    assert "said <b>" not in first
    assert "?first=31&amp;episode=" in first
    second = client.get(url(decision, "&show=session&first=31")).text
    assert 'id="step-31"' in second
    assert "?to=30&amp;episode=" in second
    assert 'id="step-130"' in client.get(url(decision, "&show=session&at=last")).text


def test_a_sub_agent_is_a_trajectory_of_its_own(client: Client) -> None:
    decision = decide(steps=2)
    call = add_session(decision, below=many(4))
    helper = call.trajectories.get(name="helper")
    assert helper.parent == call.trajectories.get(name="main")
    page = client.get(url(decision, "&show=session")).text
    assert f"trajectory={helper.public_id}" in page
    found = client.get(url(decision, f"&show=session&trajectory={helper.public_id}", name="author-call-json")).json()
    assert found["session_steps"] == 7
    assert found["session"]["trajectory"] == str(helper.public_id)
    assert [step["number"] for step in found["session"]["steps"]] == [1, 2, 3, 4]


def test_its_length_costs_no_query(client: Client) -> None:
    short, long = decide(steps=2), decide(steps=2)
    add_session(short)
    add_session(long, many(400))
    local_user()
    for decision in (short, long):
        client.get(url(decision, "&show=session"))  # the index of its steps is kept from now on
    assert count_queries(client, url(short, "&show=session")) == count_queries(
        client, url(long, "&show=session&first=31")
    )


def test_it_is_no_trials_trajectory_and_nobody_comments_on_its_steps() -> None:
    decision = decide(steps=2)
    worked = Trajectory.objects.get(call=add_session(decision))
    trial = decision.after_trial
    assert trial is not None
    assert worked not in trial.counting_attempt().trajectories.all()
    with pytest.raises(NoSuchPlace):
        place_of(QueryDict(f"on=step&trajectory={worked.public_id}&step=2"))
    assert worked not in next(kind for kind in KINDS if kind.name == "trajectory").waiting()


def test_only_a_record_with_a_session_has_another_digest() -> None:
    decision = decide(steps=2)
    experiment = decision.episode.run.experiment
    before = record_digest(experiment)
    add_session(decision)
    with_session = record_digest(experiment)
    assert with_session != before
    Trajectory.objects.exclude(call=None).delete()
    assert record_digest(experiment) == before
    Run.objects.update(author_agent="codex")
    assert record_digest(experiment) != before


def test_the_steps_are_those_that_were_recorded() -> None:
    decision = decide(steps=2)
    (worked,) = add_session(decision).trajectories.all()
    assert worked.steps_total == len(STEPS)
    assert worked.attempt is None
