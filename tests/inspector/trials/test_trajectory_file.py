"""The whole trajectory of a trial as a file: every step with its long texts, and nothing for who must not see it."""

from __future__ import annotations

import orjson
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchapp.models import Experiment, Trial
from inspector.web.access import local_user
from runner.base.types import Observation, Source, Step, ToolCall, TrajectoryKind
from runner.trajectories.atif_values import step_to_json
from tests.worlds.factories import make_attempt, make_trial, record_steps
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db

LONG = 'long "text" </script> \u202e ' * 9_000  # stored beside its step
STEPS = [
    Step(1, Source.USER, "Sum the column."),
    Step(
        2,
        Source.AGENT,
        'It says {"$": 1}.',
        tool_calls=(ToolCall("c", "shell", {"command": LONG, "$ref": "x"}),),
        observations=(Observation(LONG, "c"),),
    ),
    Step(3, Source.AGENT, "Done."),
]


def a_trial() -> Trial:
    trial = make_trial(success=True)
    record_steps(trial.counting_attempt(), STEPS)
    return trial


def address(trial: Trial) -> str:
    return f"/trials/{trial.public_id}/trajectory.json"


def steps(client: Client, path: str) -> list[object]:
    return orjson.loads(client.get(path).getvalue())["steps"]  # type: ignore[no-any-return]


def test_it_holds_every_step_whole_and_sub_agents_inside(client: Client) -> None:
    trial = a_trial()
    record_steps(trial.counting_attempt(), STEPS[:2], name="helper", kind=TrajectoryKind.SUBAGENT)
    response = client.get(address(trial))
    assert response["Content-Type"] == "application/json"
    assert response["Content-Disposition"].startswith("attachment;")
    document = orjson.loads(response.getvalue())
    assert document["steps"] == [step_to_json(step) for step in STEPS]
    (inside,) = document["subagent_trajectories"]
    assert (inside["trajectory_id"], len(inside["steps"])) == ("helper", 2)


def test_another_attempt_is_asked_for_by_its_number(client: Client) -> None:
    trial = a_trial()
    other = make_attempt(trial, counts=False)
    record_steps(other, STEPS[:1])
    assert len(steps(client, address(trial))) == 3
    assert len(steps(client, f"{address(trial)}?attempt={other.number}")) == 1
    page = client.get(f"/trials/{trial.public_id}/?attempt={other.number}").text
    assert f"{address(trial)}?attempt={other.number}" in page


def test_where_nothing_was_recorded_there_is_no_file(client: Client) -> None:
    assert client.get(address(make_trial(finished=False))).status_code == 404
    gone = a_trial()
    Experiment.objects.update(deleted_at="2026-01-01T00:00Z")
    assert client.get(address(gone)).status_code == 404


def test_a_blind_reviewer_gets_none(client: Client) -> None:
    trial = a_trial()
    make_queue([trial], reviewers=[local_user()])
    assert client.get(address(trial)).status_code == 403


def test_the_queries_do_not_follow_the_steps(client: Client) -> None:
    client.get("/")  # makes the local reader
    counts = []
    for size in (1, 3):
        trial = make_trial(success=True)
        record_steps(trial.counting_attempt(), STEPS[:1] * size)
        with CaptureQueriesContext(connection) as captured:
            client.get(address(trial)).getvalue()
        counts.append(len(captured))
    assert counts[0] == counts[1]
