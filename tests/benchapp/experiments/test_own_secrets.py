"""A trial that comes across the worker's secrets leaves none of them in the record, nor in the live stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from benchapp.experiments.launch import launch
from benchapp.experiments.work import advance
from benchapp.models import Attempt, Blob, Decision, Episode, ModelCall
from benchapp.record import live
from benchapp.record.redaction import environment_secrets, own_secrets
from runner.agents import AGENTS, AgentJob, AgentRun
from runner.base.errors import ModelRefused, SandboxError
from runner.base.types import (
    Failure,
    File,
    ModelReply,
    ModelRequest,
    Observation,
    Source,
    Step,
    ToolCall,
    Trajectory,
    TrajectoryHead,
    Usage,
)
from runner.models import MODELS, Model
from runner.sandboxes import SKILLS, WORKSPACE, Sandbox
from runner.sandboxes.needs import NOTHING, Needs
from runner.trajectories.atif_values import step_to_json

PLANTED = "planted secret of the worker 7"  # no pattern knows it: only its value can be searched for
MARK = "[redacted:configured]"


class LeakyAgent:
    """Says the secret wherever an agent can say anything."""

    name, version = "leaky", "1"
    dies = False

    def needs(self, model: Model | None) -> Needs:
        return NOTHING

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        if self.dies:
            raise SandboxError(f"the container said {PLANTED}")
        sandbox.put(SKILLS, {f"{PLANTED}/SKILL.md": File(PLANTED.encode())})
        sandbox.put(WORKSPACE, {"report.json": File(json.dumps({PLANTED: PLANTED}).encode())})
        call = ToolCall(PLANTED, PLANTED, {PLANTED: {"deep": [PLANTED]}}, {"extra": PLANTED})
        step = Step(
            1, Source.AGENT, f"It is {PLANTED}.", reasoning=PLANTED, tool_calls=(call,), extra={PLANTED: PLANTED},
            observations=(Observation(f"cat ../skills/{PLANTED}/SKILL.md", PLANTED, extra={"a": PLANTED}),),
        )  # fmt: skip
        on_step(step)
        failure = Failure("Leak", PLANTED, f"Traceback: {PLANTED}")
        return AgentRun((Trajectory(TrajectoryHead(), (step,)),), Usage(1, 0, 1), 1, failure)


class LeakyAuthor:
    name, version, scripted = "leaky/author", "1", True
    preset, price_table, priced = None, "", False
    refuses = False

    def __init__(self, name: str) -> None: ...

    def complete(self, request: ModelRequest) -> ModelReply:
        assert PLANTED not in str(request)
        if self.refuses:
            raise ModelRefused(f"wrong key: {PLANTED}")
        text = json.dumps({"summary": PLANTED, "operation_type": "create", "upsert_files": {"a/SKILL.md": PLANTED}})
        return ModelReply(text, (ToolCall("1", PLANTED, {PLANTED: PLANTED}),), reasoning=PLANTED)


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(live, "publish", lambda attempt, step: said.append(json.dumps(step_to_json(step))))
    return said


@pytest.fixture
def episode(monkeypatch: pytest.MonkeyPatch, stream: list[str]) -> Episode:
    monkeypatch.setenv("PROVIDER_API_KEY", PLANTED)
    monkeypatch.setattr(advance, "hint", lambda episode, **named: True)
    monkeypatch.setitem(AGENTS, "leaky", f"{__name__}:LeakyAgent")
    monkeypatch.setitem(MODELS, "leaky", f"{__name__}:LeakyAuthor")
    monkeypatch.setattr(LeakyAgent, "dies", False)
    monkeypatch.setattr(LeakyAuthor, "refuses", False)
    experiment = launch({
        "name": "leaks", "suite": "starter", "environments": ["E1"], "conditions": ["selfgen-always"],
        "replicates": 1, "agent": "leaky", "author_model": "leaky/author",
    })  # fmt: skip
    return Episode.objects.get(run__experiment=experiment)


def whole_database() -> str:
    """Every value of every row of every table, and every blob's content."""
    rows = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            rows.append(str(cursor.fetchall()))
    blobs = [blob.content().decode("utf-8", "replace") for blob in Blob.objects.all()]
    return "\n".join(rows + blobs)


@pytest.mark.django_db
def test_what_the_agent_and_the_author_say_is_recorded_without_it(episode: Episode, stream: list[str]) -> None:
    advance.advance(str(episode.public_id))
    attempt = Attempt.objects.get()
    assert (attempt.status, attempt.exception_message) == ("finished", MARK)
    assert Decision.objects.get().call == ModelCall.objects.get()
    assert len(stream) == 1
    for text in (whole_database(), *stream):
        assert MARK in text
        assert PLANTED not in text
    verdict = attempt.verdicts.get()
    refusal = attempt.trial.refusals.get()
    assert refusal.paths == [f"{MARK}/SKILL.md"]
    assert verdict.checks.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("who", [LeakyAgent, LeakyAuthor])
def test_errors_are_recorded_without_it(episode: Episode, monkeypatch: pytest.MonkeyPatch, who: type) -> None:
    monkeypatch.setattr(who, "dies" if who is LeakyAgent else "refuses", True)
    advance.advance(str(episode.public_id))
    told = Attempt.objects.get().exception_message if who is LeakyAgent else ModelCall.objects.get().error
    assert MARK in told
    assert PLANTED not in whole_database()


def test_it_finds_secrets_by_the_names_of_variables_in_files_and_in_urls(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a file 123\n")
    environment = {
        "OPENAI_API_KEY": "key-1",
        "gh_token": "token-1",
        "MY_SECRET": "secret-1",
        "PGPASSWORD": "password-1",
        "DATABASE_URL": "postgres://me:p%40ss-word-1@host/db",
        "SECRET_KEY_FILE": str(tmp_path / "key"),
        "BROKEN_TOKEN_FILE": str(tmp_path / "missing"),
        "HOME": "/home/me",
        "KEYBOARD": "qwertz",
    }
    found = set(environment_secrets(environment))
    assert found == {
        "key-1", "token-1", "secret-1", "password-1", "p%40ss-word-1", "p@ss-word-1", "from a file 123",
    }  # fmt: skip


def test_it_searches_for_what_tasks_are_given_whatever_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADER_LOGIN", "marie-curie-1898")
    assert "marie-curie-1898" not in own_secrets()
    monkeypatch.setenv("SKILLGLASS_TASK_VARIABLES", "OTHER, GRADER_LOGIN")
    assert "marie-curie-1898" in own_secrets()


@pytest.mark.parametrize(
    ("value", "found"), [("hunter2", False), ("postgres", False), ("postgre5", True), ("correcthorsebattery", True)]
)
def test_it_searches_for_nothing_that_innocent_text_would_hold(
    monkeypatch: pytest.MonkeyPatch, settings: Any, value: str, found: bool
) -> None:
    monkeypatch.setenv("SOME_PASSWORD", value)
    assert (value in own_secrets()) is found
    assert settings.SECRET_KEY in own_secrets()
